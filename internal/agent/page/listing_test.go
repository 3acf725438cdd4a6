// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/testkit"
)

// rowsOf are the tasks of a page, in their order, and the lines of jobs in brackets.
func rowsOf(content string) string {
	found := regexp.MustCompile(`class="task" href="[^"]*">([^<]*)<|class="job"><th[^>]*><a[^>]*>([^<]*)<`).FindAllStringSubmatch(content, -1)
	var rows []string
	for _, f := range found {
		if f[2] != "" {
			rows = append(rows, "["+f[2]+"]")
		} else {
			rows = append(rows, f[1])
		}
	}
	return strings.Join(rows, " ")
}

func TestListing(t *testing.T) {
	t.Parallel()
	a := pagetest.New(moment)
	start := moment().Add(-time.Hour)
	n := 0
	add := func(job, name string, change func(*pagetest.Actor)) {
		n++
		x := &pagetest.Actor{
			ID: pagetest.ID(n), Job: job, Group: name, Name: name, Started: start, Cores: 0.01,
			Memory: float64(int(1<<20) << n), Limit: 1 << 30,
		}
		if change != nil {
			change(x)
		}
		a.Add(x)
	}
	end := func(code int) func(*pagetest.Actor) {
		return func(x *pagetest.Actor) {
			x.Ended, x.Failed = &hook.Exit{Code: code, At: moment().Add(-time.Minute)}, code != 0
		}
	}
	add("a", "a1", nil)
	add("a", "a2", nil)
	add("a", "a3", nil)
	add("b", "b1", nil)
	add("b", "full", func(x *pagetest.Actor) { x.Memory = 1 << 30 })
	add("b", "b2", nil)
	add("c", "again", func(x *pagetest.Actor) { x.Restarts, x.Birth, x.Started = 1, start, moment().Add(-time.Minute) })
	add("c", "waits", func(x *pagetest.Actor) {
		end(1)(x)
		x.Failed, x.RestartAt = false, moment().Add(time.Minute)
	})
	add("d", "broke", end(3))
	add("d", "done", end(0))
	h := page.New(a, page.Options{Now: moment}).Handler(false)
	for path, want := range map[string]string{
		"/":                        "broke [b] full b1 b2 waits again [a] a1 a2 a3 done",
		"/?sort=name":              "broke [a] a1 a2 a3 [b] b1 b2 full again waits done",
		"/?sort=memory":            "broke full again b2 b1 a3 a2 a1 waits done",
		"/?state=problems":         "broke full waits",
		"/?state=running":          "[b] full b1 b2 [a] a1 a2 a3 again",
		"/?state=waiting":          "waits",
		"/?state=ended":            "broke done",
		"/?q=b2":                   "b2",
		"/?q=nothing":              "",
		"/?state=x&sort=y&page=z":  "broke [b] full b1 b2 waits again [a] a1 a2 a3 done",
		"/?page=99999999999999999": "broke [b] full b1 b2 waits again [a] a1 a2 a3 done",
	} {
		content := get(t, h, path).Body.String()
		testkit.Diff(t, path, want, rowsOf(content))
		checkWellFormed(t, path, content)
	}
}

// TestLastEnds holds that a task which runs again shows how it ended last, is found and sorted by that, and is a problem
// unless an operator asked for the end, or it is long ago.
func TestLastEnds(t *testing.T) {
	t.Parallel()
	a := pagetest.New(moment)
	for i, end := range []struct {
		name string
		ago  time.Duration
		exit hook.Exit
	}{
		{"plain", 0, hook.Exit{}},
		{"hungry", 38 * time.Second, hook.Exit{Code: 137, Signal: 9, OOMKilled: true, Cause: hook.CauseTask}},
		{"restarted", 5 * time.Second, hook.Exit{Code: 143, Signal: 15, Cause: hook.CauseOperator}},
		{"healed", 26 * time.Hour, hook.Exit{Code: 1, Cause: hook.CauseTask}},
		{"crashes", 9 * time.Minute, hook.Exit{Code: 134, Signal: 6, Cause: hook.CauseTask}},
	} {
		x := &pagetest.Actor{
			ID: pagetest.ID(i), Job: end.name, Group: "g", Name: end.name, Started: moment().Add(-time.Second),
			Memory: 1 << 20, Limit: 1 << 30,
		}
		if end.ago > 0 {
			end.exit.At = moment().Add(-end.ago)
			x.Before, x.Restarts = &end.exit, 14
		}
		a.Add(x)
	}
	h := page.New(a, page.Options{Now: moment}).Handler(false)
	for path, want := range map[string]string{
		"/?state=problems": "crashes hungry", "/?q=oom": "hungry", "/?q=OOM-killed": "hungry", "/?q=signaled": "crashes restarted",
		"/?sort=end": "restarted hungry crashes healed plain", "/?q=operator": "restarted",
	} {
		testkit.Diff(t, path, want, rowsOf(get(t, h, path).Body.String()))
	}
	shown := textOf(t, get(t, h, "/").Body.String())
	for _, want := range []string{"14 restarts oom-killed 38 s ago", "signaled (operator) 5 s ago", "failed 1d2h ago"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page does not say %q:\n%s", want, shown)
		}
	}
}

// TestNoChartOfNothing holds that no chart draws zeros for what is only known to be at least that.
func TestNoChartOfNothing(t *testing.T) {
	t.Parallel()
	a := pagetest.New(moment)
	for i, rate := range []float64{0, 1} {
		a.Add(&pagetest.Actor{
			ID: pagetest.ID(i), Job: "j", Group: "g", Name: "t", Started: moment().Add(-time.Minute), Memory: 1 << 20,
			NoCgroup: true, ReadRate: rate, WriteRate: rate,
		})
		content := get(t, page.New(a, page.Options{Now: moment}).Handler(false), task(i, "t")).Body.String()
		if got := strings.Contains(content, `data-live="chart-io"`); got != (rate > 0) {
			t.Errorf("with %v bytes a second there is a chart of storage: %t", rate, got)
		}
	}
	a.SetPublishing("off")
	if off := get(t, page.New(a, page.Options{Now: moment}).Handler(false), task(1, "t")).Body.String(); strings.Contains(off, "data-chart") {
		t.Error("there are charts although nothing is published")
	}
}

// TestManyEnded holds that ended tasks are few on the page of all tasks, and all on their own pages.
func TestManyEnded(t *testing.T) {
	t.Parallel()
	a := pagetest.New(moment)
	for i := range 100 {
		a.Add(&pagetest.Actor{
			ID: pagetest.ID(i), Job: "batch", Group: "g", Index: i, Name: "t", Started: moment().Add(-time.Hour),
			Ended: &hook.Exit{Code: i % 2, At: moment().Add(-time.Duration(i) * time.Second)}, Failed: i%2 != 0,
		})
	}
	h := page.New(a, page.Options{Now: moment}).Handler(false)
	for path, want := range map[string]int{
		"/": 10, "/?state=ended": 40, "/?state=ended&page=3": 20,
		"/?state=problems": 40, "/?page=2": 10, "/?state=problems&page=2": 40,
	} {
		if n := strings.Count(get(t, h, path).Body.String(), `class="task"`); n != want {
			t.Errorf("%s has %d tasks, want %d", path, n, want)
		}
	}
}

// blocked is an agent with a job that has no allocation, because the node cannot run it.
type blocked struct{ *pagetest.Agent }

func (b blocked) Snapshot(only ...string) *snapshot.Agent {
	s := *b.Agent.Snapshot(only...)
	u := &snapshot.Unplaced{}
	u.Add(0, []*job.Constraint{{LTarget: "${attr.cpu.arch}", Operand: "=", RTarget: "arm64"}}, "")
	s.Jobs = append(slices.Clone(s.Jobs),
		&snapshot.Job{ID: "elsewhere", Unplaced: map[string]*snapshot.Unplaced{"app": u}})
	return &s
}

// TestWaiting holds that a job is on the page although no allocation of it is, and its specification for trusted
// readers only.
func TestWaiting(t *testing.T) {
	t.Parallel()
	const said, why = "Job elsewhere: 1 allocation of group app cannot run on this node and waits",
		"${attr.cpu.arch} = arm64"
	for _, trusted := range []bool{true, false} {
		content := html.UnescapeString(get(t, serve(blocked{stage(t)}, trusted), "/").Body.String())
		if !strings.Contains(content, said) || strings.Contains(content, why) != trusted {
			t.Errorf("trusted %t: %s", trusted, content)
		}
	}
}
