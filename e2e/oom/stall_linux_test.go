// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// number returns a measurement of a record; the test is skipped where this system does not have it.
func number(t *testing.T, r *record.Record, id procstats.ID) float64 {
	t.Helper()
	value, ok := r.Measurements[id.String()].(float64)
	if !ok {
		t.Skipf("no %s here: %s", id, r.Absent[id.String()])
	}
	return value
}

// TestStallWords has tasks wait for one thing each.
func TestStallWords(t *testing.T) {
	asleep := "6s"
	if os.Getenv("TACHO_GUEST") != "" {
		asleep = "20s" // an emulator can take seconds for the start
	}
	tests := []struct {
		name  string
		flags []string
		role  []string
		v2    bool
		want  record.Stall
	}{
		// A quota that holds also where others want the CPUs.
		{"a twentieth of a core by quota", []string{"--cpu", "0.05"}, []string{roleBusy, "1", "3s"}, false, record.CPUThrottled},
		{"above memory.high", []string{"--memory-high", "16M", "--timeout", "5s"}, []string{roleEat, text(40 * mib)}, true, record.MemoryThrashing},
		{"sleeps", nil, []string{roleSleep, asleep}, false, record.Idle},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			parent := rig.NeedMemory(t)
			if test.v2 && !versionTwo() {
				t.Skip("memory.high is version 2's")
			}
			r := run(t, parent, test.flags, test.role...)
			t.Logf("%q: in %v s cpu %v, throttled %v, waited for cpu %v, memory %v, io %v", r.Diagnosis.Stall, *r.WallSeconds,
				r.Measurements[procstats.CgroupCPUUsage.String()], r.Measurements[procstats.CgroupCPUThrottled.String()],
				r.Measurements[procstats.PSICPUSome.String()], r.Measurements[procstats.PSIMemorySome.String()],
				r.Measurements[procstats.PSIIOSome.String()])
			if test.want != record.CPUThrottled {
				number(t, r, procstats.PSICPUSome)
			}
			testkit.Equal(t, r.Diagnosis.Stall, test.want, "result")
		})
	}
}

// TestThrottledByAncestor has the quota on a cgroup above the task's: the task's own group counts nothing of it.
func TestThrottledByAncestor(t *testing.T) {
	const percent = 10 // holds also where others want the CPUs; without PSI, a task of less than 5 may have slept
	parent := rig.NeedMemory(t)
	testkit.Must(t, parent.LimitCPU(percent))
	r := run(t, parent, nil, roleBusy, "1", "3s")
	d := r.Diagnosis
	if d.Stall != record.CPUThrottled || d.ThrottledBy != parent.Path {
		t.Errorf("%q by %q, want %q by %q", d.Stall, d.ThrottledBy, record.CPUThrottled, parent.Path)
	}
	if own := number(t, r, procstats.CgroupCPUThrottled); own != 0 {
		t.Errorf("throttled for %v s by its own cgroup, which has no quota", own)
	}
	if quota := number(t, r, procstats.CgroupCPUQuotaEffective); quota != percent/100.0 {
		t.Errorf("effective quota of %v cores, want %v", quota, percent/100.0)
	}
	if seconds := number(t, r, procstats.CgroupCPUAncestorThrottled); seconds < *r.SpanSeconds/4 {
		t.Errorf("throttled for %v s in %v s", seconds, *r.SpanSeconds)
	}
	if periods := number(t, r, procstats.CgroupCPUAncestorThrottledPeriods); periods < 5 {
		t.Errorf("throttled in %v periods in %v s", periods, *r.SpanSeconds)
	}
}

// TestStarved puts two busy processes onto one CPU, each in a cgroup of its own, and holds the pressure of each
// against what the scheduler says that the process has waited.
func TestStarved(t *testing.T) {
	tolerance := 0.05
	if os.Getenv("TACHO_GUEST") != "" { // the two readings of an emulator are not of the same moment
		tolerance = 0.15
	}
	parent := rig.NeedMemory(t)
	type starved struct {
		place *rig.Place
		cmd   *exec.Cmd
		look  func() (some, waited float64)
	}
	tasks := make([]starved, 2)
	for i := range tasks {
		place := rig.NewPlace(t, rig.Self())
		cmd := place.Run(t.Context(), "--cgroup-parent", parent.Path, "--live", "never", "--", self(t), roleAlone, "1m")
		r := startRole(t, place, cmd)
		c := visit(t, place)
		schedstat := schedstatOfChild(t, r.PID)
		tasks[i] = starved{place, cmd, func() (some, waited float64) {
			before := schedstat()
			s := testkit.Value(c.Sample(t.Context(), 0, false))(t)
			some, ok := s.Task.Number(procstats.PSICPUSome)
			if !ok {
				reading, _ := s.Task.Get(procstats.PSICPUSome)
				t.Skip(reading.Reason())
			}
			return some, (before + schedstat()) / 2
		}}
	}
	const span = 8 * time.Second
	some, waited := make([]float64, len(tasks)), make([]float64, len(tasks))
	for i := range tasks {
		some[i], waited[i] = tasks[i].look()
	}
	<-time.After(span)
	for i := range tasks {
		someNow, waitedNow := tasks[i].look()
		some[i], waited[i] = someNow-some[i], waitedNow-waited[i]
	}
	for i, task := range tasks {
		testkit.Must(t, task.cmd.Process.Signal(unix.SIGTERM))
		r := closed(t, task.place, task.cmd)
		t.Logf("in %s it waited %.3f s by schedstat and %.3f s by pressure (%+.1f %%); %s", span, waited[i], some[i],
			100*(some[i]/waited[i]-1), r.Diagnosis.Stall)
		if math.Abs(some[i]/waited[i]-1) > tolerance {
			t.Errorf("pressure %.3f s, want %.3f s and at most %.0f %% off", some[i], waited[i], 100*tolerance)
		}
		testkit.Equal(t, r.Diagnosis.Stall, record.CPUStarved, "result")
	}
}

// schedstatOfChild returns how to read for how many seconds the only child of a process has waited for a CPU, the
// second number of /proc/PID/schedstat.
func schedstatOfChild(t *testing.T, pid int) func() float64 {
	t.Helper()
	files := testkit.Value(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)))(t)
	var children []string
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			children = append(children, strings.Fields(string(text))...)
		}
	}
	if len(children) != 1 {
		t.Fatalf("process %d has the children %q, want one", pid, children)
	}
	return func() float64 {
		text := testkit.Value(os.ReadFile("/proc/" + children[0] + "/schedstat"))(t)
		return float64(integer(strings.Fields(string(text))[1])) / 1e9
	}
}

// TestSamplingGoesOn has tasks take everything there is for ten seconds, and holds that they are sampled all the same:
// no sample is missed, and hardly any is late.
func TestSamplingGoesOn(t *testing.T) {
	const interval = 100 * time.Millisecond
	span := 10 * time.Second
	if testing.Short() || os.Getenv("TACHO_GUEST") != "" {
		span = 3 * time.Second
	}
	const limit = 24 * mib
	tests := []struct {
		name  string
		flags []string
		role  func(place *rig.Place) []string
	}{
		{"four busy processes a CPU", nil, func(*rig.Place) []string {
			return []string{roleBusy, text(4 * runtime.NumCPU()), span.String()}
		}},
		{"at its limit", []string{"--memory", text(limit)}, func(place *rig.Place) []string {
			return []string{roleRead, bigFile(t, place, 4*limit), span.String()}
		}},
		{"over its limit again and again", []string{"--memory", limitFlag}, func(*rig.Place) []string {
			return []string{roleParent, text(int(span / time.Second * 4)), text(limitBytes * 5 / 4), "0"}
		}},
		{"four busy processes a CPU, no cgroup", []string{"--cgroup", "none"}, func(*rig.Place) []string {
			return []string{roleBusy, text(4 * runtime.NumCPU()), span.String()}
		}},
	}
	busy := cpuPressure() // before what the tasks themselves add to it
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			parent := rig.NeedMemory(t)
			place := rig.NewPlace(t, rig.Self())
			args := []string{
				"--cgroup-parent", parent.Path, "--interval", interval.String(), "--report-interval", interval.String(), "--live", "never",
				"--sampling-budget", "100",
			}
			if slices.Contains(test.flags, "--cgroup") {
				args = args[2:]
			}
			args = append(append(append(args, test.flags...), "--", self(t)), test.role(place)...)
			out := rig.Capture(t, place.Run(t.Context(), args...))
			if out.Code != 0 {
				t.Fatalf("exit code %d: %s", out.Code, out.Stderr)
			}
			entry := place.TheRun(t)
			checkIntervals(t, rig.Reports(t, entry), interval, entry.Record, busy)
		})
	}
}

// checkIntervals holds the times between samples against the interval; the first and the last are those of the task's
// own start and end.
func checkIntervals(t *testing.T, reports []*record.Usage, interval time.Duration, r *record.Record, busy float64) {
	t.Helper()
	least := 10
	if os.Getenv("TACHO_GUEST") != "" {
		least = 3 // an emulator on a busy machine takes most of three seconds for itself
	}
	if len(reports) < least {
		t.Fatalf("%d reports", len(reports))
	}
	var off []float64
	missed := 0
	for _, report := range reports[1 : len(reports)-1] {
		between := report.ToMono - report.FromMono
		off = append(off, math.Abs(between/interval.Seconds()-1))
		if between > 1.5*interval.Seconds() {
			missed++
		}
	}
	slices.Sort(off)
	p99 := off[len(off)*99/100]
	t.Logf("%d samples in %.1f s: interval off by %.1f %% (median), %.1f %% (p99), %.1f %% at most; %d missed; %s",
		len(reports), *r.WallSeconds, 100*off[len(off)/2], 100*p99, 100*off[len(off)-1], missed, r.Diagnosis.Stall)
	if p99 <= 0.20 && missed == 0 {
		return
	}
	switch {
	case os.Getenv("TACHO_GUEST") != "":
		t.Log("late, but wall-clock times are the emulator's in a guest")
	case busy > 0.1:
		t.Logf("late, but others kept this machine busy before the task came: %.0f %% of the time somebody waited for a CPU", 100*busy)
	default:
		t.Error("the task delays its samples")
	}
}

// cpuPressure is the share of the last ten seconds in which some process of this machine waited for a CPU; 0 where
// nobody can say.
func cpuPressure() float64 {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	_, average, _ := strings.Cut(string(text), "avg10=")
	percent, err := strconv.ParseFloat(strings.Fields(average)[0], 64)
	if err != nil {
		return 0
	}
	return percent / 100
}

// TestCgroupRemoved has somebody take the task's processes out of its cgroup and remove it while it runs: what was
// read there is absent from then on, with the reason and the time, and what is read elsewhere goes on.
func TestCgroupRemoved(t *testing.T) {
	parent := rig.NeedMemory(t)
	place := rig.NewPlace(t, rig.Self())
	began := time.Now()
	cmd := place.Run(t.Context(), "--cgroup-parent", parent.Path, "--interval", "50ms", "--live", "never", "--", self(t), roleWander)
	startRole(t, place, cmd)
	c := visit(t, place)
	var cpu, rss procstats.Reading
	rig.Eventually(t, deadline, "the cgroup is seen to be gone", func() bool {
		s := testkit.Value(c.Sample(t.Context(), 0, true))(t)
		cpu, _ = s.Task.Get(procstats.CgroupCPUUsage)
		rss, _ = s.Task.Get(procstats.TreeRSS)
		return !cpu.Present()
	})
	removed(t, cpu.Reason(), began)
	if bytes, ok := rss.Number(); !ok || bytes <= 0 {
		t.Errorf("resident memory %v (%s), want it to be read on", bytes, rss.Reason())
	}
	testkit.Must(t, cmd.Process.Signal(unix.SIGINT))
	r := closed(t, place, cmd)
	removed(t, r.Absent[procstats.CgroupCPUUsage.String()], began)
	if h := r.Headline[procstats.HeadlineCPU.String()]; h.Value == nil || h.Source == procstats.CgroupCPUUsage.String() {
		t.Errorf("CPU time %+v, want it from elsewhere", h)
	}
	testkit.Equal(t, r.Diagnosis.Verdict, record.Signaled, "verdict")
}

// removed checks a reason for the cgroup's name and the time.
func removed(t *testing.T, reason string, after time.Time) {
	t.Helper()
	t.Logf("reason: %q", reason)
	if !strings.Contains(reason, "removed") {
		t.Errorf("reason %q, want it to say that the cgroup was removed", reason)
	}
	for field := range strings.FieldsSeq(reason) {
		if at, err := time.Parse(time.RFC3339, field); err == nil {
			if at.Before(after.Truncate(time.Second)) || at.After(time.Now()) {
				t.Errorf("time %s, want one since %s", at, after)
			}
			return
		}
	}
	t.Errorf("reason %q, want it to say when", reason)
}
