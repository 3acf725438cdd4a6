// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"errors"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// process adds a row to a sample.
func process(s *procstats.Sample, id procstats.ProcessID, cpu, rss float64, state string) {
	row := s.AddProcess(id)
	row.PPID, row.Command = 1, "worker"
	row.Readings.Put(number(procstats.ProcessCPU, cpu))
	row.Readings.Put(number(procstats.ProcessRSS, rss))
	row.Readings.Put(procstats.TextReading(procstats.ProcessState, state))
	s.SetRead(procstats.SourceTree, s.Stamp)
}

// startTicks is field 22 of stat for a process that began a number of seconds after the first test sample.
func startTicks(seconds float64) uint64 { return uint64((3600 + seconds) * 100) }

func TestWindowProcesses(t *testing.T) {
	old := procstats.ProcessID{PID: 10, Start: startTicks(-100)}
	again := procstats.ProcessID{PID: 10, Start: startTicks(1.5)} // the same PID, another process
	moved := procstats.ProcessID{PID: 12, Start: startTicks(-50)} // ran elsewhere before it came to the task
	zero, one, two, three := sampleAt(at(0)), sampleAt(at(1)), sampleAt(at(2)), sampleAt(at(3))
	process(zero, old, 5, 100, "S")
	process(one, old, 5.5, 300, "R")
	process(two, again, 0.2, 50, "R")
	process(two, moved, 70, 60, "D")
	process(three, again, 0.9, 40, "S")
	process(three, moved, 70.25, 60, "D")
	type row struct {
		ID                 procstats.ProcessID
		CPU, MaxRSS, Since string
		Samples            int
		Ended              bool
		States             map[string]int
	}
	rows := func(w *procstats.Window) []row {
		var list []row
		for _, p := range w.Processes() {
			list = append(list, row{
				p.ProcessID, show(p.CPU()), show(p.MaxRSS()), p.FirstSeen.Wall.Sub(noon).String() + " to " + p.LastSeen.Wall.Sub(noon).String(),
				p.Samples, p.Ended, p.Tally(procstats.ProcessState),
			})
		}
		return list
	}
	w := windowOf(zero, one, two, three)
	want := []row{
		{again, "0.9", "50", "2s to 3s", 2, false, map[string]int{"R": 1, "S": 1}},
		{old, "0.5", "300", "0s to 1s", 2, true, map[string]int{"R": 1, "S": 1}},
		{moved, "0.25", "60", "2s to 3s", 2, false, map[string]int{"D": 2}},
	}
	testkit.Diff(t, "processes", want, rows(w))
	w.Advance()
	four := sampleAt(at(4))
	process(four, again, 1, 40, "S")
	w.Add(four)
	want = []row{{again, "0.1", "40", "4s to 4s", 1, false, map[string]int{"S": 1}}}
	testkit.Diff(t, "processes of the next window", want, rows(w))
}

// TestWindowDoesNotTakeALateRowForANewProcess has a sample with rows left out: what shows up afterwards may be old.
func TestWindowDoesNotTakeALateRowForANewProcess(t *testing.T) {
	zero, one := sampleAt(at(0)), sampleAt(at(1))
	zero.Omitted = 1
	process(one, procstats.ProcessID{PID: 10, Start: startTicks(0.5)}, 30, 1, "R")
	got := windowOf(zero, one).Processes()
	if len(got) != 1 || got[0].CPU().Present() {
		t.Fatalf("processes %v: CPU is known from one reading", got)
	}
	testkit.Equal(t, got[0].CPU().Reason(), "only one reading in the window", "reason")
}

// TestWindowKnowsANewProcessByAnyClock has starts as other systems give them: milliseconds since 1970.
func TestWindowKnowsANewProcessByAnyClock(t *testing.T) {
	zero, one := sampleAt(at(0)), sampleAt(at(1))
	process(one, procstats.ProcessID{PID: 10, Start: uint64(noon.UnixMilli())}, 0.5, 1, "R")
	if got := windowOf(zero, one).Processes(); len(got) != 1 || show(got[0].CPU()) != "0.5" {
		t.Errorf("processes %v, want one with 0.5 s", got)
	}
}

func TestWindowBoundsItsProcesses(t *testing.T) {
	w := &procstats.Window{MaxProcesses: 2}
	ids := make([]procstats.ProcessID, 5)
	for i := range ids {
		ids[i] = procstats.ProcessID{PID: i + 1, Start: startTicks(0.5)}
	}
	one, two, three := sampleAt(at(1)), sampleAt(at(2)), sampleAt(at(3))
	w.Add(sampleAt(at(0)))
	process(one, ids[0], 9, 1, "R")
	process(one, ids[1], 1, 1, "R")
	process(one, ids[2], 5, 1, "R") // no room: the others are alive
	w.Add(one)
	process(two, ids[3], 2, 1, "R") // takes the place of the ended one with the least CPU time
	w.Add(two)
	process(three, ids[3], 3, 1, "R")
	w.Add(three)
	var pids []int
	for _, p := range w.Processes() {
		pids = append(pids, p.PID)
	}
	testkit.Diff(t, "PIDs", []int{1, 4}, pids)
	testkit.Equal(t, w.ProcessesOmitted(), 2, "omitted")
	none := &procstats.Window{MaxProcesses: -1}
	none.Add(one)
	if list := none.Processes(); len(list) != 0 || none.ProcessesOmitted() != 3 {
		t.Errorf("a window without processes has %v, omitted %d", list, none.ProcessesOmitted())
	}
}

func TestProcessReductionsAreCheckedToo(t *testing.T) {
	s := sampleAt(at(0))
	process(s, procstats.ProcessID{PID: 1}, 1, 1, "R")
	p := windowOf(s).Processes()[0]
	for id, want := range map[procstats.ID]error{
		procstats.ProcessCPU: procstats.ErrIllegalReduction, procstats.CgroupMemoryCurrent: procstats.ErrIllegalReduction,
		9999: procstats.ErrUnknownMeasurement,
	} {
		if _, err := p.Reduce(id, procstats.Mean); !errors.Is(err, want) {
			t.Errorf("mean of %d: %v, want %v", id, err, want)
		}
	}
	if mean, err := p.Reduce(procstats.ProcessRSS, procstats.Mean); err != nil || show(mean) != "1" {
		t.Errorf("mean %s, %v", show(mean), err)
	}
}
