// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// withRow adds a process to a sample; a negative number is absent.
func withRow(s *procstats.Sample, pid int, name string, cpu, rss float64) {
	row := s.AddProcess(procstats.ProcessID{PID: pid, Start: uint64(100 * pid)})
	row.PPID, row.Command = 1, name
	for i, v := range []float64{cpu, rss} {
		if v >= 0 {
			row.Readings.Put(procstats.NumberReading(rowIDs()[i], v))
		}
	}
}

func pids(rows []procstats.ProcessRow) (list []int) {
	for i := range rows {
		list = append(list, rows[i].PID)
	}
	return list
}

func TestTop(t *testing.T) {
	before, now, few := sample(1, nil), sample(2, nil), sample(2, nil)
	for pid := 10; pid < 30; pid++ {
		cpu, rss := 1000-float64(pid), float64(pid)
		withRow(before, pid, "idle", cpu, rss)
		switch pid {
		case 20, 22: // busy since the sample before
			cpu += float64(pid)
		case 11: // cannot be read
			cpu, rss = -1, -1
		}
		name := "idle"
		if pid == 29 {
			name = ""
		}
		withRow(now, pid, name, cpu, rss)
	}
	now.Processes[3].Start++ // another process with the PID 13: all of its CPU time is new
	withRow(few, 5, "a", 0, 0)
	withRow(few, 6, "b", -1, -1)
	for _, tt := range []struct {
		name        string
		now, before *procstats.Sample
		want        []int
	}{
		{"growth and memory", now, before, []int{10, 13, 20, 22, 25, 26, 27, 28}},
		{"all CPU time", now, nil, []int{10, 12, 20, 22, 25, 26, 27, 28}},
		{"fewer than there is room for", few, nil, []int{5, 6}},
		{"none", sample(1, nil), before, nil},
	} {
		testkit.Diff(t, tt.name, tt.want, pids(Top(tt.now, tt.before)))
	}
	if len(now.Processes) != 20 {
		t.Error("the sample was changed")
	}
}

// TestRingHasProcesses holds that processes are read back as they were, in a ring that had no room for them at first.
func TestRingHasProcesses(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "h"), 10)
	add(t, r, 1, 2)
	var want [][]procstats.ProcessRow
	for n := range 4 {
		s := sample(3+n, cpu(1))
		for pid := range n {
			withRow(s, 40+pid, fmt.Sprintf("name of 15 b %d", pid), float64(pid), float64(10*n)-20)
		}
		must(t, r.Add(s, 1))
		want = append(want, s.Processes)
	}
	must(t, r.Mark(stamp(9), 1, GapTask))
	read := func(q Query) (rows [][]procstats.ProcessRow) {
		points, err := r.Points(q)
		if err != nil || len(points) != 7 || points[0].Values[procstats.CgroupCPUUsage] != 1 {
			t.Fatal(points, err)
		}
		for _, p := range points {
			rows = append(rows, p.Processes)
		}
		return rows
	}
	all := append([][]procstats.ProcessRow{{}, {}}, want...)
	all[2] = []procstats.ProcessRow{} // none is not nil,
	all = append(all, nil)            // but for a gap
	testkit.Diff(t, "result", all, read(Query{Processes: true}), cmp.AllowUnexported(procstats.Reading{}))
	testkit.Diff(t, "not asked for", make([][]procstats.ProcessRow, 7), read(Query{}))
	p, err := r.Points(Query{Nearest: origin.Add(6e9), Processes: true})
	if err != nil || len(p) != 1 || len(p[0].Processes) != 3 {
		t.Errorf("nearest %+v, %v", p, err)
	}
	if r.rows != 4 {
		t.Errorf("room for %d processes, want 4", r.rows)
	}
}

// TestRingIsBounded holds the size of a history: a point that differs from the one before takes 56 bytes, 8 for each
// measurement and for 16 more, and 48 for each of 8 processes at most.
func TestRingIsBounded(t *testing.T) {
	t.Parallel()
	const slots, measurements = 50, 80
	values := manyColumns(measurements)
	for processes, want := range map[int]int64{0: 824, 1: 872, 2: 920, 3: 1016, 5: 1208, 8: 1208, 100: 1208} {
		path := filepath.Join(t.TempDir(), "h")
		r := open(t, path, slots)
		for n := range 3 * slots {
			values[1] = float64(n)
			s := sample(n, values)
			for pid := range processes {
				withRow(s, pid+1, "x", float64(pid), 1)
			}
			must(t, r.Add(s, 1))
		}
		info := testkit.Value(os.Stat(path))(t)
		if got := (info.Size() - headerSize - 2*(measurements+spare)) / slots; got != want {
			t.Errorf("%d processes: %d bytes a point, want %d", processes, got, want)
		}
	}
}
