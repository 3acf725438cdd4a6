// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-bexpr"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/cluster"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// nomad is a server with answers of a real Nomad 2.0, cut to what is read: change may alter their text.
func nomad(t *testing.T, change func(string) string) *httptest.Server {
	t.Helper()
	text := string(testkit.Value(os.ReadFile("testdata/answers.json"))(t))
	if change != nil {
		text = change(text)
	}
	var answers map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal([]byte(text), &answers))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.URL.Path]
		if r.URL.Path == "/v1/allocations" {
			answer = page(t, w, answer, r.URL.Query().Get("filter"), r.URL.Query().Get("next_token"))
		}
		if !found {
			http.Error(w, "job not found", http.StatusNotFound)
			return
		}
		_, _ = w.Write(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// page returns the part of a list of allocations that Nomad would send for a filter, two at a time.
func page(t *testing.T, w http.ResponseWriter, list json.RawMessage, filter, next string) json.RawMessage {
	t.Helper()
	if filter != "" {
		testkit.Value(bexpr.CreateEvaluator(filter))(t) // as Nomad does
	}
	var all, part []map[string]any
	testkit.Must(t, json.Unmarshal(list, &all))
	for _, a := range all {
		if id, _ := a["JobID"].(string); filter == "" || strings.HasPrefix(filter, fmt.Sprintf("JobID == %#q ", id)) {
			part = append(part, a)
		}
	}
	from := 0
	_, _ = fmt.Sscan(next, &from) // none is the first page
	to := min(from+2, len(part))
	if to < len(part) {
		w.Header().Set("X-Nomad-Nexttoken", fmt.Sprint(to))
	}
	return testkit.Value(json.Marshal(part[from:to]))(t)
}

func connect(t *testing.T, address string) *cluster.Cluster {
	t.Helper()
	c := testkit.Value(cluster.Connect(func(name string) string { return map[string]string{"NOMAD_ADDR": address}[name] }))(t)
	t.Cleanup(c.Close)
	return c
}

// captured is a moment before all that the answers tell.
var captured = time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)

func sizesOf(t *testing.T, change func(string) string, job string, since time.Time, watched ...*record.Record) map[string]*cluster.Size {
	t.Helper()
	c := connect(t, nomad(t, change).URL)
	sizes := map[string]*cluster.Size{}
	for _, task := range testkit.Value(c.Tasks(t.Context(), job, since, watched))(t) {
		sizes[task.Job] = task.Size(1000)
	}
	return sizes
}

func tasksOf(t *testing.T, job string) (*cluster.Cluster, []*cluster.Task) {
	t.Helper()
	c := connect(t, nomad(t, nil).URL)
	return c, testkit.Value(c.Tasks(t.Context(), job, captured, nil))(t)
}

// allocOf returns the id of the first allocation of a job.
func allocOf(t *testing.T, job string) string {
	t.Helper()
	var answers struct {
		Allocations []struct{ ID, JobID string } `json:"/v1/allocations"`
	}
	testkit.Must(t, json.Unmarshal(testkit.Value(os.ReadFile("testdata/answers.json"))(t), &answers))
	for _, a := range answers.Allocations {
		if a.JobID == job {
			return a.ID
		}
	}
	t.Fatalf("no allocation of %s", job)
	return ""
}

func text(s *cluster.Size) string {
	number := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	return fmt.Sprintf("%d× %d runs, %d → %s MiB, %d → %s MHz, %d kills: %s", s.Count, s.Runs, s.Memory.Requested,
		number(s.Memory.Advised), s.CPU.Requested, number(s.CPU.Advised), s.OOMKills, strings.Join(s.Why, " "))
}

func replacing(pairs ...string) func(string) string { return strings.NewReplacer(pairs...).Replace }

func TestSizes(t *testing.T) {
	const aDay = `"Timestamp": 1795706909541486942`
	watch := func(id string, g procstats.Guarantee) *record.Record {
		return &record.Record{
			State: record.Exited, Command: []string{"watch", "alloc", id}, SpanSeconds: new(10.0), Diagnosis: record.Diagnosis{Verdict: record.Watched, Reason: record.GroupEmpty},
			Headline: map[string]record.HeadlineValue{procstats.HeadlineMemoryPeak.String(): {Value: new(100.0 * (1 << 20)), Guarantee: g}},
		}
	}
	unseen := allocOf(t, "unseen")
	briefly := watch(unseen, procstats.Exact)
	briefly.Diagnosis.Reason = "its time was up"
	idle := watch(unseen, procstats.Exact)
	idle.Headline[procstats.HeadlineCPU.String()] = record.HeadlineValue{Value: new(0.0), Guarantee: procstats.Exact}
	for name, test := range map[string]struct {
		job, want string
		change    func(string) string
		since     time.Time
		watched   []*record.Record
	}{
		"an end":                        {job: "middle", want: "1× 1 runs, 300 → 52 MiB, 100 → 130 MHz, 0 kills: Memory: peak 40.9 MiB exact in 1 run"},
		"all allocations":               {job: "thrice", want: "3× 3 runs, 300 → 76 MiB"},
		"restarts, some forgotten":      {job: "restarted", want: "no longer has the records of 1 of 3 ends"},
		"killed":                        {job: "killed", want: "1× 1 runs, 300 → ? MiB, 100 → 390 MHz, 1 kills: 1 run with OOM kills ended"},
		"running for a moment":          {job: "serving", want: "1× 1 runs, 300 → ? MiB, 100 → ? MHz, 0 kills: The memory peak is only known to be at least 50.5 MiB"},
		"running for a day":             {job: "serving", change: replacing(aDay, `"Timestamp": 1795806909541486942`), want: "300 → 64 MiB"},
		"running, without statistics":   {job: "serving", change: replacing(`"Max Usage", `, "", `"Max Usage"`, `"RSS"`), want: "0 runs, 300 → ? MiB, 100 → ? MHz, 0 kills: What the running allocation"},
		"another driver":                {job: "unseen", want: "0 runs, 300 → ? MiB, 100 → ? MHz, 0 kills: The driver raw_exec does not report"},
		"another driver, watched":       {job: "unseen", watched: []*record.Record{watch(unseen[:8]+"/t", procstats.Exact)}, want: "1 runs, 300 → 126 MiB"},
		"another driver, briefly":       {job: "unseen", watched: []*record.Record{briefly}, want: "1 runs, 300 → ? MiB, 100 → ? MHz, 0 kills: The memory peak is only known to be at least 100 MiB"},
		"another task watched":          {job: "unseen", watched: []*record.Record{watch(unseen+"/u", procstats.Exact)}, want: "does not report"},
		"watched as a tree":             {job: "unseen", watched: []*record.Record{watch(unseen, procstats.LowerBound)}, want: "at least 100 MiB"},
		"an event that came twice":      {job: "middle", change: replacing(`"JobID": "thrice"`, `"JobID": "middle"`), want: "4 runs"},
		"a later version of the record": {job: "middle", change: replacing(`{\"schema_version\":\"1.`, `{\"schema_version\":\"2.`), want: `300 → ? MiB, 100 → ? MHz, 0 kills: Nomad no longer has the records of 1 of 1 end`},
		"and why":                       {job: "middle", change: replacing(`{\"schema_version\":\"1.`, `{\"schema_version\":\"2.`), want: `The record of an end cannot be read: schema_version "2.5.0", not 1.x`},
		"too long ago":                  {job: "middle", since: captured.AddDate(0, 1, 0), want: "0 runs"},
		"a name like a launched one's":  {job: "middle/periodic-x", change: replacing(`"thrice"`, `"middle/periodic-x"`, `/v1/job/thrice`, `/v1/job/middle/periodic-x`), want: "3× 3 runs"},
		"a name with a quote":           {job: `thr"ice`, change: replacing(`"thrice"`, `"thr\"ice"`, `/v1/job/thrice`, `/v1/job/thr\"ice`), want: "3× 3 runs"},
		"own driver, also watched":      {job: "serving", watched: []*record.Record{watch(allocOf(t, "serving"), procstats.Exact)}, want: "300 → ? MiB, 100 → ? MHz"},
		"idle, watched":                 {job: "unseen", watched: []*record.Record{idle}, want: "100 → 1 MHz"},
		"launched by its schedule":      {job: "middle", change: replacing(`"JobID": "thrice"`, `"JobID": "middle/periodic-1795706783"`), want: "1 runs"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.since.IsZero() {
				test.since = captured
			}
			sizes := sizesOf(t, test.change, test.job, test.since, test.watched...)
			if got := text(sizes[test.job]); !strings.Contains(got, test.want) {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
	sizes := sizesOf(t, replacing(`"JobID": "thrice"`, `"JobID": "middle/periodic-1795706783"`), "", captured)
	testkit.Equal(t, sizes["middle"].Runs, 4, "runs of a job and of what it has launched")
	testkit.Equal(t, len(sizes), 5, "jobs")
	sizes = sizesOf(t, nil, "middle/periodic-1795706783", captured)
	testkit.Equal(t, len(sizes), 1, "jobs that one is of which was launched")
	sizes = sizesOf(t, replacing(`"Type": "service"`, `"Type": "system"`, `"Count": 1`, `"Count": 0`), "serving", captured)
	testkit.Equal(t, sizes["serving"].Count, 1, "allocations of a system job")
}

// TestUsed has runs of which more or less is known: what they have used is known no better.
func TestUsed(t *testing.T) {
	exact, lower, upper, sampled := procstats.Exact, procstats.LowerBound, procstats.UpperBound, procstats.Sampled
	for _, test := range []struct {
		runs []procstats.Guarantee
		want procstats.Guarantee
	}{
		{nil, ""},
		{[]procstats.Guarantee{exact, exact}, exact},
		{[]procstats.Guarantee{exact, lower}, lower},
		{[]procstats.Guarantee{lower, exact}, lower},
		{[]procstats.Guarantee{exact, upper, upper}, upper},
		{[]procstats.Guarantee{upper, lower}, sampled},
		{[]procstats.Guarantee{lower, exact, sampled}, sampled},
	} {
		task := &cluster.Task{}
		for i, g := range test.runs {
			task.Runs = append(task.Runs, &record.Record{
				State: record.Exited, SpanSeconds: new(10.0), Diagnosis: record.Diagnosis{Verdict: record.Completed},
				Headline: map[string]record.HeadlineValue{
					procstats.HeadlineMemoryPeak.String(): {Value: new(float64((100 + i) << 20)), Guarantee: g},
					procstats.HeadlineCPU.String():        {Value: new(1.0), Guarantee: g},
				},
			})
		}
		size := task.Size(1000)
		testkit.Equal(t, size.Memory.Guarantee, test.want, "memory of %v", test.runs)
		testkit.Equal(t, size.CPU.Guarantee, test.want, "CPU of %v", test.runs)
	}
}
