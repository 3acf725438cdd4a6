// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// facts are what a job shows of itself, by name: the environment and output of its tasks, the order of their ends, final states.
type facts map[string]string

// TestSameAsNomad runs sameJobs and the job files of testdata/same with our agent and with a real Nomad, and compares their facts. Those that differ
// are differences, each with its row in docs/configuration.md.
func TestSameAsNomad(t *testing.T) {
	rig.Require(t)
	nomad, err := exec.LookPath("nomad")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("not measured: no nomad on PATH, or not root")
	}
	jobs := sameJobs()
	for _, path := range testkit.Value(filepath.Glob("testdata/same/*.nomad.hcl"))(t) {
		jobs = append(jobs, sameJob{strings.TrimSuffix(filepath.Base(path), ".nomad.hcl"), "batch", nil})
	}
	ours, theirs := ourOrchestrator(t), realNomad(t, nomad)
	compared, run, met := 0, 0, map[string]bool{}
	for _, job := range jobs {
		t.Run(job.name, func(t *testing.T) {
			run++
			compared += compare(t, ours, theirs, &job, met)
		})
	}
	docs := string(testkit.Value(os.ReadFile("../../docs/configuration.md"))(t))
	for _, d := range differences() {
		if !met[d.row] && !d.random && run == len(jobs) {
			t.Errorf("%q does not differ any more", d.row)
		}
		if !strings.Contains(docs, "\n| "+d.row+" |") {
			t.Errorf("docs/configuration.md does not have %q", d.row)
		}
	}
	report(t, "%d facts of %d jobs compared, %d documented differences", compared, run, len(met))
}

// compare runs a job on both, adds the rows of the documented differences that are met, and returns how many facts there are.
func compare(t *testing.T, ours, theirs *orchestrator, job *sameJob, met map[string]bool) int {
	t.Helper()
	dir := t.TempDir()
	var got, want facts
	var failed [2]error
	var both sync.WaitGroup
	both.Go(func() { got, failed[0] = ours.facts(t.Context(), filepath.Join(dir, "ours.hcl"), "tacho", job) })
	both.Go(func() { want, failed[1] = theirs.facts(t.Context(), filepath.Join(dir, "theirs.hcl"), "raw_exec", job) })
	both.Wait()
	testkit.Must(t, errors.Join(failed[:]...))
	all := slices.Sorted(maps.Keys(union(got, want)))
	for _, fact := range all {
		if got[fact] == want[fact] {
			continue
		}
		text := fmt.Sprintf("%s: %s is %q, on Nomad %q", job.name, fact, got[fact], want[fact])
		known := slices.IndexFunc(differences(), func(d difference) bool { return d.fact.MatchString(text) })
		if known < 0 {
			t.Error(text)
			continue
		}
		met[differences()[known].row] = true
	}
	return len(all)
}

// difference is a row of the table in docs/configuration.md, and the facts that differ for its reason.
type difference struct {
	row  string
	fact *regexp.Regexp
	// random differences are not met each time.
	random bool
}

func differences() []difference {
	known := func(row, fact string) difference { return difference{row: row, fact: regexp.MustCompile(fact)} }
	all := []difference{
		known("mistakes seen before the start", `^(unknown-user|bad-env-template): `),
		known("users as numbers or with a group", `^user-(by-number|with-group): `),
		known("groups of a user", `^users: output of \w+, line 1 .*uid=`),
		known("the shared directory itself", `^users: output of \w+, line [79] is "no \w+", on Nomad "writes (alloc|logs)"`),
		known("variables of the agent", `: environment of \w+: OF_THE_HOST `),
		known("variables of the user", `: environment of (nobody|daemon|rooted): (HOME|USER|LOGNAME) `),
		known("variables of the driver", `: environment of \w+: (TMPDIR|TACHO_\w+|NOMAD_PARENT_CGROUP|NOMAD_CPU_CORES) `),
		known("ports with a hyphen", `: environment of \w+: NOMAD_\w+_my[-_]db .* on Nomad ""`),
		known("a template after one with `env = true`", `: environment of root: SECOND `),
		known("real-time signals", `^realtime-signal: .*"not placed"|^realtime-signal: [^j].* on Nomad ""`),
		known("ends by a kill signal", `: state of .*code=-1 signal=0"$`),
	}
	all[len(all)-1].random = true
	return all
}

func union(a, b facts) facts {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// allocated is an allocation as both APIs show it.
type allocated struct {
	ID, TaskGroup, ClientStatus string
	TaskStates                  map[string]struct {
		State      string
		Failed     bool
		Restarts   uint64
		StartedAt  time.Time
		FinishedAt time.Time
		Events     []struct {
			Type    string
			Details map[string]string
		}
	}
}

// facts runs a job until it ends, or stops it when its tasks are ready.
func (o *orchestrator) facts(ctx context.Context, path, driver string, job *sameJob) (facts, error) {
	text := job.text()
	if job.tasks == nil {
		data, err := os.ReadFile("testdata/same/" + job.name + ".nomad.hcl")
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	text = strings.ReplaceAll(text, `driver = "tacho"`, `driver = "`+driver+`"`)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := o.run(ctx, path, nil); err != nil {
		return facts{"job": "refused"}, nil
	}
	var allocations []allocated
	if job.kind == "service" || job.kind == "system" {
		running, ended := job.ready()
		err := o.poll(ctx, job.name, &allocations, func(a *allocated) bool {
			for _, task := range running {
				if a.TaskStates[task].State != "running" || !strings.HasPrefix(o.output(ctx, a.ID, task), "ready\n") {
					return false
				}
			}
			return !slices.ContainsFunc(ended, func(task string) bool { return a.TaskStates[task].State != "dead" })
		})
		if errors.Is(err, errNotPlaced) {
			return facts{"job": "not placed"}, nil
		}
		if err != nil {
			return nil, err
		}
		o.ask(ctx, http.MethodDelete, "/v1/job/"+job.name, nil)
	}
	err := o.poll(ctx, job.name, &allocations, func(a *allocated) bool {
		for _, s := range a.TaskStates {
			if s.State != "dead" {
				return false
			}
		}
		return a.ClientStatus == "complete" || a.ClientStatus == "failed"
	})
	all := facts{}
	for i := range allocations {
		a := &allocations[i]
		o.describe(ctx, a, all)
		if job.tasks != nil { // the tasks of job files end in any order
			all["ends in "+a.TaskGroup] = ends(a)
		}
	}
	return all, err
}

var errNotPlaced = errors.New("no allocation")

// poll reads the allocations of a job until all are done.
func (o *orchestrator) poll(ctx context.Context, id string, all *[]allocated, done func(*allocated) bool) error {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
		*all = nil
		o.get(ctx, "/v1/job/"+id+"/allocations", all)
		if len(*all) > 0 && !slices.ContainsFunc(*all, func(a allocated) bool { return !done(&a) }) {
			return nil
		}
		if len(*all) == 0 && time.Since(began) > 10*time.Second {
			return errNotPlaced
		}
	}
	return fmt.Errorf("%s does not end: %+v", id, *all)
}

// describe adds the facts of an allocation.
func (o *orchestrator) describe(ctx context.Context, a *allocated, all facts) {
	all["allocation of "+a.TaskGroup] = a.ClientStatus
	for task, s := range a.TaskStates {
		last := map[string]string{}
		for _, e := range s.Events {
			if e.Type == "Terminated" {
				last = e.Details
			}
		}
		all["state of "+task] = fmt.Sprintf("%s failed=%t restarts=%d code=%s signal=%s", s.State, s.Failed, s.Restarts, last["exit_code"], last["signal"])
		output := o.output(ctx, a.ID, task)
		if !strings.Contains(output, "\x00") {
			for i, line := range strings.Split(output, "\n") {
				all[fmt.Sprintf("output of %s, line %d", task, i+1)] = line
			}
			continue
		}
		dir := allocDir.FindStringSubmatch(output)[1]
		masked := strings.NewReplacer(a.ID, "ALLOCATION", a.ID[:8], "ALLOC", dir, "DIR")
		for v := range strings.SplitSeq(output, "\x00") {
			name, value, _ := strings.Cut(v, "=")
			all["environment of "+task+": "+name] = address.ReplaceAllString(dynamicPort.ReplaceAllString(masked.Replace(value), "PORT"), "ADDRESS")
		}
	}
}

var (
	allocDir    = regexp.MustCompile(`NOMAD_ALLOC_DIR=([^\x00]*)/alloc\x00`)
	dynamicPort = regexp.MustCompile(`\b(2[0-9]|3[0-2])\d{3}\b`)
	address     = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`)
)

// ends lists tasks in the order of their ends; those that ended within 700 ms of each other have no order.
func ends(a *allocated) string {
	tasks := slices.SortedFunc(maps.Keys(a.TaskStates), func(x, y string) int {
		return a.TaskStates[x].FinishedAt.Compare(a.TaskStates[y].FinishedAt)
	})
	var groups [][]string
	var last time.Time
	for _, task := range tasks {
		at := a.TaskStates[task].FinishedAt
		if groups == nil || at.Sub(last) > 700*time.Millisecond {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], task)
		last = at
	}
	var text []string
	for _, group := range groups {
		slices.Sort(group)
		text = append(text, strings.Join(group, " "))
	}
	return strings.Join(text, ", ")
}

// output is what a task has written to its standard output.
func (o *orchestrator) output(ctx context.Context, allocation, task string) string {
	query := url.Values{"path": {"alloc/logs/" + task + ".stdout.0"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.base+"/v1/client/fs/cat/"+allocation+"?"+query.Encode(), nil)
	if err != nil {
		return ""
	}
	answer, err := o.client.Do(request)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || strings.HasPrefix(string(text), "stat ") { // there is no file
		return ""
	}
	return string(text)
}
