// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func ioOf(tb testing.TB, t Target, m *membership) *ioSource {
	tb.Helper()
	io := openIO(t, procstats.SourceSelection(procstats.SourceIO), m)
	closing(tb, io)
	return io
}

func setIO(tb testing.TB, root kernel.FS, pid int, rchar int) {
	tb.Helper()
	writeProc(tb, root, fmt.Sprintf("%d/io", pid), fmt.Sprintf(
		"rchar: %d\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n", rchar))
}

// TestIONeverFalls takes a child through its reap: the kernel takes its values away before its parent's are read
// again, and gives them to the parent.
func TestIONeverFalls(t *testing.T) {
	root := kernel.FS{Proc: t.TempDir()}
	var reaped Reaped
	io := ioOf(t, Target{FS: root, Roots: func() []int { return []int{10} }, Reaped: func() Reaped { return reaped }}, nil)
	steps := []struct {
		name   string
		change func()
		want   float64
	}{
		{"a parent and a child", func() {
			setCPU(t, root, 10, 1, 100, 0, 0)
			setCPU(t, root, 9, 10, 110, 0, 0)
			setChildren(t, root, 10, "9 ")
			setChildren(t, root, 9, "")
			setIO(t, root, 10, 100)
			setIO(t, root, 9, 50)
		}, 150},
		{"the child is gone, its parent does not have it yet", func() {
			removeProc(t, root, "9")
			setChildren(t, root, 10, "")
		}, 150},
		{"its parent has it, with what it did at last", func() { setIO(t, root, 10, 170) }, 170},
		{"the parent is gone, and the executor does not have it yet", func() { removeProc(t, root, "10") }, 170},
		{"the executor has it", func() { reaped.IO.Rchar = 180 }, 180},
	}
	var s procstats.Sample
	for _, step := range steps {
		step.change()
		collect(&s, io)
		if got := mustNumber(t, &s, procstats.TreeIORchar); got != step.want {
			t.Errorf("%s: %v bytes, want %v", step.name, got, step.want)
		}
	}
}

func TestIOReadsParentsFirst(t *testing.T) {
	root := kernel.FS{Proc: t.TempDir()}
	// PIDs have wrapped around: the youngest has the lowest.
	setCPU(t, root, 300, 1, 100, 0, 0)
	setCPU(t, root, 400, 300, 101, 0, 0)
	setCPU(t, root, 20, 400, 102, 0, 0)
	setChildren(t, root, 300, "400 ")
	setChildren(t, root, 400, "20 ")
	setChildren(t, root, 20, "")
	io := ioOf(t, Target{FS: root, Roots: func() []int { return []int{300} }}, nil)
	var s procstats.Sample
	collect(&s, io)
	var order []int
	for _, p := range io.members.byAge {
		order = append(order, p.PID)
	}
	testkit.Diff(t, "result", []int{300, 400, 20}, order)
}

func TestIOThatCannotBeRead(t *testing.T) {
	root := kernel.FS{Proc: t.TempDir()}
	setPair(t, root)
	setIO(t, root, 10, 5)
	writeProc(t, root, "11/io", "rchar: x\n")
	target := Target{FS: root, Roots: func() []int { return []int{10} }}
	m := newMembership(target)
	tree, io := openTree(target, procstats.Select(procstats.ProcessCPU), m), ioOf(t, target, m)
	var s procstats.Sample
	collect(&s, tree, io)
	for _, id := range ioTreeIDs {
		if r, _ := s.Task.Get(id); r.Present() || !strings.Contains(r.Reason(), "(1 of 2)") {
			t.Errorf("%s: %+v", id.String(), r)
		}
	}
	for i, present := range []bool{true, false} {
		readings := s.Processes[i].Readings
		if len(readings) != 1+len(ioProcessIDs) {
			t.Errorf("row %d: %v", i, printReadings(readings))
		}
		if r, _ := readings.Get(procstats.ProcessIORchar); r.Present() != present || present == (r.Reason() != "") {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	// The row of a process that ends between two sources keeps what was read of it.
	removeProc(t, root, "11")
	setChildren(t, root, 10, "")
	s.Reset()
	s.Stamp = kernel.Now()
	setCPU(t, root, 11, 10, 101, 0, 0)
	setChildren(t, root, 11, "")
	tree.Collect(&s)
	removeProc(t, root, "11")
	io.Collect(&s)
	if len(s.Processes) != 2 {
		t.Fatalf("%d rows", len(s.Processes))
	}
	last := s.Processes[1].Readings
	if r, _ := last.Get(procstats.ProcessIORead); r.Present() || r.Reason() != reasonEnded || len(last) != 6 {
		t.Errorf("%v", printReadings(last))
	}
	noError(t, tree.Close())
}

// TestStoredNeverFalls holds the lower bound of what has reached storage to what the machine has yet to write, and to
// what is not known of.
func TestStoredNeverFalls(t *testing.T) {
	const mib = 1 << 20
	root := kernel.FS{Proc: t.TempDir(), Sys: t.TempDir()}
	var reaped Reaped
	io := ioOf(t, Target{FS: root, Roots: func() []int { return nil }, Reaped: func() Reaped { return reaped }}, nil)
	dirty := func(mebibytes int) {
		writeProc(t, root, "meminfo", fmt.Sprintf("Dirty: %d kB\nWriteback: 0 kB\n", mebibytes<<10))
	}
	steps := []struct {
		name   string
		change func()
		want   float64 // MiB, less the lag of the counters
	}{
		{"nothing was written", func() { dirty(0) }, 0},
		{"all of it is dirty", func() { dirty(64); reaped.IO.WriteBytes = 64 * mib }, 0},
		{"a part was written back", func() { dirty(40) }, 24},
		{"other tasks write", func() { dirty(500) }, 24},
		{"all was written back", func() { dirty(0) }, 64},
		{"more was written and deleted", func() { reaped.IO.WriteBytes = 128 * mib; reaped.IO.CancelledWriteBytes = 64 * mib }, 64},
		{"and more was not deleted", func() { reaped.IO.WriteBytes = 160 * mib }, 96},
		{"a process ended of which nothing is known", func() { reaped.IO.WriteBytes = 192 * mib; reaped.IOMissed = 1 }, 96},
	}
	var s procstats.Sample
	for _, step := range steps {
		step.change()
		collect(&s, io)
		want := step.want * mib
		if want > 0 {
			want -= float64(io.unwritten.Lag())
		}
		if got := mustNumber(t, &s, procstats.TreeIOStored); got != want {
			t.Errorf("%s: %v bytes, want %v", step.name, got, want)
		}
	}
	unknown := ioOf(t, Target{FS: root, Roots: func() []int { return nil }, Reaped: func() Reaped { return reaped }}, nil)
	collect(&s, unknown)
	if r, _ := s.Task.Get(procstats.TreeIOStored); r.Present() || !strings.Contains(r.Reason(), "1 process ended before") {
		t.Errorf("%+v", r)
	}
}

// TestStoredGoesOn holds that a second reader goes on with what the first one has seen reach storage, and with why it
// does not know: the process that ignored SIGCHLD has ended.
func TestStoredGoesOn(t *testing.T) {
	root := kernel.FS{Proc: t.TempDir(), Sys: t.TempDir()}
	writeProc(t, root, "meminfo", "Dirty: 999999 kB\nWriteback: 0 kB\n")
	target := Target{FS: root, Roots: func() []int { return nil }, Reaped: func() Reaped {
		return Reaped{IO: kernel.ProcIO{WriteBytes: 64 << 20}}
	}}
	earlier := map[string]procstats.Reading{
		"bytes":  procstats.NumberReading(procstats.TreeIOStored, 48<<20),
		"reason": procstats.AbsentReading(procstats.TreeIOStored, reasonLost),
	}
	for name, want := range earlier {
		t.Run(name, func(t *testing.T) {
			var first, s procstats.Sample
			first.Task.Put(want)
			io := ioOf(t, target, nil)
			io.continueFrom(&first)
			collect(&s, io)
			if got, _ := s.Task.Get(procstats.TreeIOStored); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
