// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// cpuSample has a task's total, and one process that used a part of it.
func cpuSample(total, row float64) (*procstats.Window, *procstats.Sample) {
	s := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Second, Wall: time.Unix(1000, 0)}}
	s.SetRead(procstats.SourceTree, s.Stamp)
	s.SetRead(procstats.SourceCgroup, s.Stamp)
	s.Task.Put(procstats.NumberReading(procstats.CgroupCPUUsage, total))
	s.AddProcess(procstats.ProcessID{PID: 7}).Readings.Put(procstats.NumberReading(procstats.ProcessCPU, row))
	w := &procstats.Window{}
	w.Add(s)
	return w, s
}

func commandsOf(n int, cpu float64) *Commands {
	c := &Commands{}
	for i := range n {
		c.Rows = append(c.Rows, procstats.Command{
			Name: fmt.Sprint("c", i), Processes: 1, CPUSeconds: cpu, PeakRSSBytes: int64(i), PeakRSSGuarantee: procstats.Exact, ReadBytes: new(int64(2)),
		})
	}
	return c
}

// However many commands there are, the table is bounded and adds up to the total.
func TestCommandsAddUp(t *testing.T) {
	for _, n := range []int{0, 1, commandRows, commandRows + 1, 3 * commandRows} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w, s := cpuSample(10, 0.001)
			c := commandsOf(n, 0.01)
			p := ProcessesOf(w, s, true, c)
			if len(c.Rows) > commandRows || (c.Others != nil) != (n > commandRows) {
				t.Errorf("%d rows, others %v", len(c.Rows), c.Others)
			}
			if c.Others != nil && (c.Others.Processes != int64(n-commandRows) || *c.Others.ReadBytes != 2*int64(n-commandRows) || c.Others.PeakRSSBytes != int64(n-1)) {
				t.Errorf("others: %+v", c.Others)
			}
			processes, cpu := c.sum()
			if processes != int64(n) || math.Abs(cpu+*c.UnattributedCPUSeconds-10) > 1e-9 {
				t.Errorf("%d processes, %v s and %v s unattributed", processes, cpu, *c.UnattributedCPUSeconds)
			}
			if rows := 0.001 + *p.Exited.CPUSeconds + *p.UnattributedCPUSeconds; math.Abs(rows-10) > 1e-9 {
				t.Errorf("the processes add up to %v", rows)
			}
			if n > 0 && (p.Exited.Processes != int64(n-1) || math.Abs(*p.UnattributedCPUSeconds-*c.UnattributedCPUSeconds) > 1e-9) {
				t.Errorf("exited %+v, unattributed %v", p.Exited, *p.UnattributedCPUSeconds)
			}
		})
	}
}

// Where exits are not recorded the rows are those of the samples, and the record says why.
func TestCommandsAbsent(t *testing.T) {
	w, s := cpuSample(10, 4)
	want := ProcessesOf(w, s, true, nil)
	c := &Commands{Reason: "no"}
	if diff := cmp.Diff(want, ProcessesOf(w, s, true, c)); diff != "" || c.TotalCPUSeconds != nil {
		t.Error(diff, c)
	}
	// What is recorded of a process that ended elsewhere is less than what was sampled of it.
	testkit.Diff(t, "result", want, ProcessesOf(w, s, true, commandsOf(2, 0.001)))
}

// TestExits holds what the accounts of ended processes do to the total: it grows if a process is known to have left the
// cgroup, and nothing is attributed beyond it. The same holds if they come after the record was made.
func TestExits(t *testing.T) {
	for _, test := range []struct {
		name    string
		fact    procstats.ID
		want    float64
		correct procstats.Guarantee
	}{
		{"a process has left", procstats.RusageOutside, 14, procstats.LowerBound},
		{"nothing is known", procstats.RusageMinflt, 10, procstats.LowerBound},
		{"a process has joined", procstats.TreeJoined, 10, procstats.Exact},
	} {
		t.Run(test.name, func(t *testing.T) {
			whole, s := cpuSample(10, 4)
			s.SetNumber(test.fact, 1)
			s.SetNumber(procstats.TreeCPUUnattributed, 6)
			before := s.Clone()
			late := &Record{Headline: Headlines(procstats.Headlines(s, procstats.History{})), Processes: ProcessesOf(whole, s, true, nil)}
			late.Measurements, _ = Values(s.Task)
			late.SetCommands(commandsOf(2, 7))

			c := commandsOf(2, 7)
			s = WithExits(s, c)
			p := ProcessesOf(whole, s, true, c)
			headline := Headlines(procstats.Headlines(s, procstats.History{}))["cpu_seconds_total"]
			rest, _ := s.Task.Number(procstats.TreeCPUUnattributed)
			for name, got := range map[string]struct {
				headline     HeadlineValue
				processes    *Processes
				unattributed any
			}{
				"with": {headline, p, rest}, "after": {late.Headline["cpu_seconds_total"], late.Processes, late.Measurements["tree_cpu_unattributed_seconds"]},
			} {
				if *got.headline.Value != test.want || got.headline.Guarantee != test.correct {
					t.Errorf("%s: %v %s, want %v %s", name, *got.headline.Value, got.headline.Guarantee, test.want, test.correct)
				}
				p := got.processes
				if *p.TotalCPUSeconds != test.want || 4+*p.Exited.CPUSeconds+*p.UnattributedCPUSeconds != test.want || *p.UnattributedCPUSeconds < 0 {
					t.Errorf("%s: total %v, exited %v, unattributed %v", name, *p.TotalCPUSeconds, *p.Exited.CPUSeconds, *p.UnattributedCPUSeconds)
				}
				if got.unattributed != test.want-4 {
					t.Errorf("%s: tree_cpu_unattributed_seconds %v, want %v", name, got.unattributed, test.want-4)
				}
			}
			if _, changed := before.Task.Get(procstats.ExitsCPU); changed {
				t.Error("the sample that was given has changed")
			}
		})
	}
}

// However many commands there are, those that failed have rows, and a sum of others has none.
func TestFailedCommandsHaveRows(t *testing.T) {
	for most, failed := range map[int]int{commandRows: 7, reportRows: 7, 15: 2} {
		c := commandsOf(3*commandRows, 0.01)
		for i := range failed {
			row := &c.Rows[len(c.Rows)-1-10*i]
			row.Failed, row.Failures = 1, []procstats.CommandFailure{{Signal: 9, Processes: 1}}
		}
		rows, others := c.Split(most)
		shown := slices.Clone(rows)
		shown = slices.DeleteFunc(shown, func(row procstats.Command) bool { return row.Failed == 0 })
		if len(rows) != most || len(shown) != min(failed, most/4) || rows[0].Name != "c0" {
			t.Errorf("%d rows, %d of those that failed; want %d, of them %d", len(rows), len(shown), most, min(failed, most/4))
		}
		missing := int64(failed - len(shown))
		if left := others.Failures; others.Failed != missing || missing > 0 && (len(left) != 1 || left[0].Processes != missing) {
			t.Errorf("others: %d failed, %v; want %d", others.Failed, left, missing)
		}
	}
	c := commandsOf(commandRows, 0.01)
	c.Rows = slices.Insert(c.Rows, 3, procstats.Command{Processes: 4, Failed: 1, Failures: []procstats.CommandFailure{{ExitCode: 1, Processes: 1}}})
	if rows, others := c.Split(commandRows); len(rows) != commandRows || others.Processes != 4 || len(others.Failures) != 1 {
		t.Errorf("%d rows, others %+v", len(rows), others)
	}
}

// TestCommandsReport holds that a line of usage.jsonl has few rows, which add up to the total all the same.
func TestCommandsReport(t *testing.T) {
	all := &Commands{LostRecords: 2}
	for i := range 50 {
		all.Rows = append(all.Rows, procstats.Command{Name: string(rune('a' + i)), Processes: 1, CPUSeconds: 1})
	}
	total := 52.5
	report := all.Report(&total)
	processes, cpu := report.sum()
	if len(report.Rows) != 20 || report.Others == nil || processes != 50 || cpu != 50 || *report.UnattributedCPUSeconds != 2.5 || report.LostRecords != 2 {
		t.Errorf("%d rows, %d processes, %v s, %+v", len(report.Rows), processes, cpu, report)
	}
	if len(all.Rows) != 50 || all.Others != nil {
		t.Error("a report changed what it was made of")
	}
}

// TestContinue holds that what several readers have counted one after the other is added up by command, and that each
// time between two of them is stated.
func TestContinue(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0).UTC() }
	row := func(name string, n int64, ways ...procstats.CommandFailure) procstats.Command {
		c := procstats.Command{Name: name, Processes: n, CPUSeconds: float64(n), Failures: ways}
		for _, way := range ways {
			c.Failed += way.Processes
		}
		return c
	}
	killed, failed := procstats.CommandFailure{Signal: 9, Processes: 1}, procstats.CommandFailure{ExitCode: 1, Processes: 2}
	first := &Commands{
		Rows: []procstats.Command{row("cc", 5, killed), row("sh", 1)}, Others: new(row("", 4)), LostRecords: 1, Since: at(1),
		Gaps: []Gap{{at(2), at(3)}},
	}
	second := &Commands{Rows: []procstats.Command{row("ld", 6), row("cc", 4, failed, killed)}, Others: new(row("", 3)), LostRecords: 2, Since: at(20)}
	second.Continue(&Handed{At: at(10), Commands: first}, at(20))
	want := &Commands{
		Rows: []procstats.Command{
			row("cc", 9, failed, procstats.CommandFailure{Signal: 9, Processes: 2}),
			row("ld", 6), row("sh", 1),
		},
		Others: new(row("", 7)), LostRecords: 3, Since: at(1), Gaps: []Gap{{at(2), at(3)}, {at(10), at(20)}},
	}
	testkit.Diff(t, "result", want, second)
	if len(first.Gaps) != 1 || first.Rows[0].Processes != 5 {
		t.Errorf("what was handed over has changed: %+v", first)
	}
	ended := (&Handed{At: at(30), Commands: second}).Until(at(40))
	if n := len(ended.Gaps); n != 3 || ended.Gaps[2] != (Gap{at(30), at(40)}) || ended.Processes() != 23 {
		t.Errorf("%d processes, gaps %v", ended.Processes(), ended.Gaps)
	}
	for i := range 3 * mostGaps {
		next := &Commands{}
		next.Continue(&Handed{At: at(100 + 10*i), Commands: ended}, at(105+10*i))
		ended = next
	}
	if n := len(ended.Gaps); n != mostGaps || ended.Gaps[n-1].To != at(105+10*(3*mostGaps-1)) || ended.Processes() != 23 {
		t.Errorf("%d processes, %d gaps: %v", ended.Processes(), n, ended.Gaps)
	}
}

// TestSetCommandsAgain holds that commands that come later replace those that were handed over before, in the rows of
// the processes too.
func TestSetCommandsAgain(t *testing.T) {
	w, s := cpuSample(10, 1)
	r := &Record{Processes: ProcessesOf(w, s, true, nil), Headline: map[string]HeadlineValue{}, Measurements: map[string]any{}}
	r.SetCommands(commandsOf(4, 1))
	if len(r.Sources) != 1 || r.Commands.Processes() != 4 || *r.Processes.UnattributedCPUSeconds != 6 {
		t.Errorf("sources %v, %d processes, %v s unattributed", r.Sources, r.Commands.Processes(), *r.Processes.UnattributedCPUSeconds)
	}
	r.SetCommands(commandsOf(9, 1))
	if len(r.Sources) != 1 || r.Commands.Processes() != 9 || *r.Processes.UnattributedCPUSeconds != 1 || r.Processes.Exited.Processes != 8 {
		t.Errorf("sources %v, %d processes, exited %+v, %v s unattributed", r.Sources, r.Commands.Processes(), r.Processes.Exited, *r.Processes.UnattributedCPUSeconds)
	}
}

// TestEndAt holds what the kernel's time of the last end does to that at which it was noticed.
func TestEndAt(t *testing.T) {
	noticed := time.Unix(1000, 0)
	for _, test := range []struct {
		name       string
		late, wall time.Duration // of a span of 1 s
		outside    float64
		known      bool
		want       [2]time.Duration // the wall time, the span
	}{
		{"the main process is the last", 30 * time.Millisecond, time.Second, 0, true, [2]time.Duration{970 * time.Millisecond, 970 * time.Millisecond}},
		{"another is", 30 * time.Millisecond, 100 * time.Millisecond, 0, true, [2]time.Duration{100 * time.Millisecond, 970 * time.Millisecond}},
		{"noticed first", -time.Millisecond, time.Second, 0, true, [2]time.Duration{time.Second, time.Second}},
		{"one ended outside", 30 * time.Millisecond, time.Second, 1, false, [2]time.Duration{time.Second, time.Second}},
		{"before the start", time.Second, time.Second, 0, false, [2]time.Duration{time.Second, time.Second}},
	} {
		var totals procstats.Sample
		totals.SetNumber(procstats.RusageOutside, test.outside)
		e := Evidence{EndedAt: noticed.Add(test.wall - time.Second), Wall: test.wall, Span: time.Second}
		known := e.EndAt(noticed.Add(-test.late), &totals)
		if got := [2]time.Duration{e.Wall, e.Span}; known != test.known || got != test.want {
			t.Errorf("%s: %v, %v; want %v, %v", test.name, known, got, test.known, test.want)
		}
		start := noticed.Add(-time.Second)
		testkit.Equal(t, e.EndedAt.Sub(start), e.Wall, "%s: the end", test.name)
	}
	if e := (Evidence{EndedAt: noticed, Wall: 1, Span: 1}); e.EndAt(time.Time{}, &procstats.Sample{}) {
		t.Error("no time is taken for one")
	}
}

// TestSetCommandsIO holds that a record gets the bytes of all processes from whoever counted them, and only of all.
func TestSetCommandsIO(t *testing.T) {
	rows := func(read, written int64) *Commands {
		return &Commands{Rows: []procstats.Command{{Name: "a", Processes: 1, ReadBytes: &read, WrittenBytes: &written}}}
	}
	lost, late, none := rows(0, 0), rows(0, 0), rows(0, 0)
	lost.LostRecords, late.Since, none.Rows[0].ReadBytes = 1, time.Unix(1, 0), nil
	for name, test := range map[string]struct {
		commands *Commands
		known    bool
	}{"all": {rows(0, 0), true}, "one was lost": {lost, false}, "recorded late": {late, false}, "not accounted": {none, false}} {
		_, s := cpuSample(10, 4)
		for _, id := range [...]procstats.ID{procstats.TreeIORead, procstats.TreeIOWrite, procstats.TreeIOStored} {
			s.SetNumber(id, 0)
		}
		r := &Record{Headline: Headlines(procstats.Headlines(s, procstats.History{Ended: true}))}
		r.Measurements, _ = Values(s.Task)
		r.SetCommands(test.commands)
		for _, id := range [...]procstats.ID{procstats.HeadlineIORead, procstats.HeadlineIOWrite, procstats.HeadlineIOHanded} {
			if h := r.Headline[id.String()]; (h.Value != nil) != test.known || test.known && h.Guarantee != procstats.Exact {
				t.Errorf("%s: %s is %+v", name, id, h)
			}
		}
	}
}

// TestCommandsOfJoined holds that rows that have more than the task are no shares of it, and that the notes say so.
func TestCommandsOfJoined(t *testing.T) {
	for total, shares := range map[float64]bool{3: true, 1.99: true, 1.9: false, 0: false} {
		c := &Commands{Rows: []procstats.Command{{Name: "true", CPUSeconds: 2}}}
		c.CloseWith(&total)
		said := strings.Contains(strings.Join(c.Notes(time.Time.String), "\n"), "no shares")
		if got := c.TotalCPUSeconds != nil && c.UnattributedCPUSeconds != nil; got != shares || said == shares {
			t.Errorf("2 s of %v: shares %v, said that there are none %v", total, got, said)
		}
	}
}
