// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

var update = flag.Bool("update", false, "write golden files anew")

// page gathers and writes one page, without what differs from one run to the next.
func page(c *Collector) string { return pageOf(c.Gather(context.Background())) }

func pageOf(families []exposition.Family) string {
	for i := range families {
		if families[i].Name == "tacho_agent_scrape_seconds" || families[i].Name == "tacho_build_info" {
			families[i].Samples = nil
		}
	}
	return text(families)
}

// text is families as a page.
func text(families []exposition.Family) string {
	var b strings.Builder
	_ = exposition.Text.Write(&b, families) // a builder takes everything
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		testkit.Must(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want := testkit.Value(os.ReadFile(name))(t)
	testkit.Diff(t, "result", string(want), got)
}

func parse(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := testkit.Value(parser.TextToMetricFamilies(strings.NewReader(text)))(t)
	return families
}

func TestPage(t *testing.T) {
	for _, detail := range []string{DetailAlloc, DetailTask, DetailJob, DetailNone} {
		t.Run(detail, func(t *testing.T) {
			f := newFake()
			f.telemetry.AllocationDetail = detail
			f.telemetry.PublishNodeMetrics = detail == DetailAlloc
			got := page(newTestCollector(f))
			golden(t, filepath.Join("testdata", detail+".prom"), got)
			parse(t, got)
			problems := testkit.Value(promlint.New(strings.NewReader(got)).Lint())(t)
			for _, p := range problems {
				t.Errorf("promlint: %s: %s", p.Metric, p.Text)
			}
		})
	}
}

// TestLastValues holds that the counters of an ended task stay for a while, and its gauges do not.
func TestLastValues(t *testing.T) {
	const counter, gauge = "tacho_task_cpu_seconds_total", "tacho_task_memory_bytes"
	f := newFake()
	f.usages["cccccccc"].Totals.Counters = map[procstats.ID]float64{procstats.HeadlineCPU: 7}
	for age, want := range map[time.Duration]int{shownAfterEnd - time.Second: 3, shownAfterEnd: 2} {
		f.allocs[2].Tasks["web"].State.FinishedAt = epoch.Add(-age)
		got := parse(t, page(newTestCollector(f)))
		if n, gauges := len(got[counter].GetMetric()), len(got[gauge].GetMetric()); n != want || gauges != 2 {
			t.Errorf("%v after the end: %d counters, want %d; %d gauges, want 2", age, n, want, gauges)
		}
	}
}

// TestOOMKills adds what was read of the present start to those of the starts that have ended.
func TestOOMKills(t *testing.T) {
	two, other := &procstats.Sample{}, &procstats.Sample{}
	two.SetNumber(procstats.CgroupMemoryEventsOOMKill, 2)
	for name, test := range map[string]struct {
		usage figures.Figures
		ended *int64
		want  float64
	}{
		"ended":                   {figures.Figures{Counted: true}, new(int64(3)), 3},
		"ended, none":             {figures.Figures{Counted: true}, new(int64(0)), 0},
		"ended, not known":        {figures.Figures{Counted: true, Sample: two}, nil, math.NaN()},
		"ended, not counted yet":  {figures.Figures{Sample: two}, new(int64(3)), math.NaN()},
		"runs":                    {figures.Figures{Running: true, Sample: two}, nil, 2},
		"runs, not counted":       {figures.Figures{Running: true, Sample: other}, nil, math.NaN()},
		"runs again":              {figures.Figures{Running: true, Sample: two}, new(int64(3)), 5},
		"runs again, unread":      {figures.Figures{Running: true}, new(int64(3)), math.NaN()},
		"runs again, stale":       {figures.Figures{Running: true, Sample: two, Reason: "silent"}, new(int64(3)), math.NaN()},
		"runs again, not counted": {figures.Figures{Running: true, Sample: other}, new(int64(3)), 3},
	} {
		t.Run(name, func(t *testing.T) {
			test.usage.Totals.OOMKills = test.ended
			if got := oomKills(&row{usage: &test.usage}); got != test.want && !(math.IsNaN(got) && math.IsNaN(test.want)) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// TestStaleReading holds that numbers which are not fresh are not shown; how old they are is.
func TestStaleReading(t *testing.T) {
	f := newFake()
	f.usages["aaaaaaaa"].Reason = "the stream is silent"
	got := parse(t, page(newTestCollector(f)))
	if n := len(got["tacho_task_memory_bytes"].GetMetric()); n != 1 {
		t.Errorf("memory of %d tasks", n)
	}
	if n := len(got["tacho_task_sample_age_seconds"].GetMetric()); n != 2 {
		t.Errorf("ages of %d tasks", n)
	}
}

func TestOpenMetrics(t *testing.T) {
	f := newFake()
	f.telemetry.NomadNames, f.telemetry.PublishNodeMetrics = true, true
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0, text/plain;q=0.5")
	w := httptest.NewRecorder()
	newTestCollector(f).ServeHTTP(w, r)
	text := w.Body.String()
	if w.Header().Get("Content-Type") != string(exposition.OpenMetrics) || !strings.HasSuffix(text, "\n# EOF\n") || strings.Count(text, "# EOF") != 1 {
		t.Errorf("%v", w.Header())
	}
	kinds, family := map[string]string{}, ""
	for line := range strings.Lines(strings.TrimSuffix(text, "# EOF\n")) {
		words := strings.Fields(line)
		switch words[1] {
		case "HELP":
			if _, twice := kinds[words[2]]; twice {
				t.Errorf("family %s comes twice", words[2])
			}
			family, kinds[words[2]] = words[2], ""
		case "TYPE":
			kinds[words[2]] = words[3]
		default:
			name, _, _ := strings.Cut(words[0], "{")
			want := family
			if kinds[family] == "counter" {
				want += "_total"
			}
			if name != want {
				t.Errorf("%s in family %s of type %s", name, family, kinds[family])
			}
		}
	}
	if kinds["tacho_task_exits"] != "counter" || kinds["nomad_client_allocs_restart"] != "unknown" {
		t.Errorf("%v", kinds)
	}
	// What the formats share parses as the older one.
	parse(t, strings.ReplaceAll(strings.TrimSuffix(text, "# EOF\n"), " unknown\n", " untyped\n"))
}

func TestWantsOpenMetrics(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/plain": false, "application/openmetrics-text": true,
		"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": true,
		"text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4,*/*;q=0.1":                                                  false,
		"application/openmetrics-text;q=0": false, "application/openmetrics-text;q=x": true, ";;,": false,
	} {
		testkit.Equal(t, wantsOpenMetrics(accept), want, "%q", accept)
	}
}

func TestNomadNames(t *testing.T) {
	f := newFake()
	f.telemetry.NomadNames, f.telemetry.PublishNodeMetrics, f.telemetry.UseNodeName = true, true, true
	f.telemetry.PrefixFilter, f.telemetry.FilterDefault = []string{"+nomad", "-nomad.client.host.disk", "-nomad.runtime"}, false
	got := page(newTestCollector(f))
	golden(t, "testdata/nomad.prom", got)
	parse(t, got)
}

func TestFilter(t *testing.T) {
	for _, tt := range []struct {
		rules     []string
		byDefault bool
		kept      []string
	}{
		{nil, true, []string{"a_b", "a_c", "d"}},
		{nil, false, nil},
		{[]string{"-a.b"}, true, []string{"a_c", "d"}},
		{[]string{"-a", "+a_b"}, true, []string{"a_b", "d"}},
		{[]string{"+a"}, false, []string{"a_b", "a_c"}},
		{[]string{"+a", "-a"}, true, []string{"d"}},
	} {
		var kept []string
		telemetry := config.Telemetry{PrefixFilter: tt.rules, FilterDefault: tt.byDefault}
		for _, f := range filter(telemetry, []exposition.Family{{Name: "a_b"}, {Name: "a_c"}, {Name: "d"}}) {
			kept = append(kept, f.Name)
		}
		testkit.Diff(t, fmt.Sprintf("%v", tt.rules), tt.kept, kept)
	}
}

func TestJSON(t *testing.T) {
	w := httptest.NewRecorder()
	newTestCollector(newFake()).ServeJSON(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/metrics", nil))
	type sample struct {
		Name       string
		Value, Sum float64
		Labels     map[string]string
	}
	var got struct {
		Timestamp        string
		Gauges, Counters []sample
		Points, Samples  []any
	}
	testkit.Must(t, json.NewDecoder(w.Body).Decode(&got))
	if len(got.Gauges) < 50 || len(got.Counters) < 50 || got.Points == nil || got.Samples == nil || got.Timestamp == "" {
		t.Errorf("%d gauges, %d counters", len(got.Gauges), len(got.Counters))
	}
	quoted := func(c sample) bool { return c.Labels["source"] == `a "quoted\" word`+"\n" }
	if !slices.ContainsFunc(got.Counters, quoted) {
		t.Error("a label has changed on its way")
	}
}

// total reads the one sample of a metric.
func total(t *testing.T, c *Collector, name string) float64 {
	t.Helper()
	m := parse(t, page(c))[name].GetMetric()
	if len(m) != 1 {
		t.Fatalf("%s has %d samples", name, len(m))
	}
	return m[0].GetCounter().GetValue()
}

// TestTotals holds that counters by job never go down: not when a task ends, starts anew, or is forgotten.
func TestTotals(t *testing.T) {
	const cpu = "tacho_task_cgroup_cpu_usage_seconds_total"
	f := &fakeAgent{telemetry: config.Default().Telemetry, usages: map[string]*figures.Figures{}}
	f.telemetry.AllocationDetail = DetailJob
	f.add("aaaaaaaa", 10)
	f.add("bbbbbbbb", 20)
	c := newTestCollector(f)
	check := func(why string, want float64) {
		t.Helper()
		for range 2 { // a second reader sees the same
			testkit.Equal(t, total(t, c, cpu), want, "%s", why)
		}
	}
	check("two tasks", 30)
	f.usages["aaaaaaaa"] = usage(15)
	check("one grew by 5", 35)
	end(f.allocs[1], false)
	u := f.usages["bbbbbbbb"]
	u.Running = false
	check("one ended", 35)
	u.Totals.Counters, u.Counted = map[procstats.ID]float64{procstats.CgroupCPUUsage: 24}, true
	check("and had used 4 more", 39)
	u = usage(20)
	f.usages["aaaaaaaa"] = u
	u.Totals.Counters = map[procstats.ID]float64{procstats.CgroupCPUUsage: 17}
	check("one started anew after 2 more, and used 20", 61)
	u.Reason = "no fresh reading"
	check("it was not read", 61)
	f.allocs = f.allocs[:1]
	check("the ended one was removed", 61)
	f.add("dddddddd", 1)
	check("another came", 62)
	short := usage(0)
	short.Running, short.Counted = false, true
	short.Totals.Counters = map[procstats.ID]float64{procstats.CgroupCPUUsage: 3}
	f.add("eeeeeeee", 1)
	f.usages["eeeeeeee"] = short
	check("one came and ended between two readings", 65)
	f.add("ffffffff", 100).CreateTime = c.began.Add(-time.Hour)
	check("one of before the agent", 65)
	f.usages["ffffffff"] = usage(101)
	check("used 1 under it", 66)
}

// TestAbsentInfo holds that reasons are shown of what was selected beyond the default, of fresh readings, and by allocation.
func TestAbsentInfo(t *testing.T) {
	const reason = "open: permission denied"
	for name, test := range map[string]struct {
		id     procstats.ID
		detail string
		change func(*figures.Figures)
		want   int
	}{
		"selected":      {procstats.DiskUsage, DetailAlloc, func(*figures.Figures) {}, 1},
		"by default":    {procstats.CgroupCPUQuota, DetailAlloc, func(*figures.Figures) {}, 0},
		"of a job":      {procstats.DiskUsage, DetailJob, func(*figures.Figures) {}, 0},
		"an old sample": {procstats.DiskUsage, DetailAlloc, func(u *figures.Figures) { u.Reason = "silent" }, 0},
		"no sample":     {procstats.DiskUsage, DetailAlloc, func(u *figures.Figures) { u.Sample = nil }, 0},
	} {
		f := newFake()
		f.telemetry.AllocationDetail = test.detail
		id := f.allocs[0].ID
		u := f.usages[id]
		u.Sample = u.Sample.Clone()
		u.Sample.SetAbsent(test.id, reason)
		test.change(u)
		var got []exposition.Sample
		for _, family := range newTestCollector(f).Gather(t.Context()) {
			if family.Name == "tacho_task_absent_info" {
				got = family.Samples
			}
		}
		if len(got) != test.want {
			t.Errorf("%s: %d samples, want %d", name, len(got), test.want)
			continue
		}
		for _, s := range got {
			if want := `,measurement="disk_usage_bytes",reason="` + reason + `"}`; s.Value != 1 || !strings.HasSuffix(s.Labels.Text(), want) {
				t.Errorf("%s: %s %v, want %s", name, s.Labels.Text(), s.Value, want)
			}
		}
	}
}

// TestGzip holds that the page is compressed for clients that take that, and only for these, and is the same.
func TestGzip(t *testing.T) {
	get := func(accept string) (page, coding string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		newTestCollector(newFake()).ServeHTTP(w, r)
		body := io.Reader(w.Body)
		if coding = w.Header().Get("Content-Encoding"); coding != "" {
			var err error
			if body, err = gzip.NewReader(w.Body); err != nil {
				t.Fatal(err)
			}
		}
		text := testkit.Value(io.ReadAll(body))(t)
		return string(text), coding
	}
	for accept, want := range map[string]string{
		"": "", "identity": "", "br, zstd": "", "gzip;q=0": "", "gzip; q=0.0": "", "xgzip": "",
		"gzip": "gzip", "deflate, GZIP": "gzip", "br;q=1, gzip;q=0.5": "gzip", "gzip; q=1": "gzip",
	} {
		page, coding := get(accept)
		if coding != want || len(page) < 1000 {
			t.Errorf("Accept-Encoding %q: coding %q, %d bytes, want %q", accept, coding, len(page), want)
		}
	}
}
