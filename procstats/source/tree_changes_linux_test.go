// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestTreeFindsManyChildren has more children than the kernel lists in one read.
func TestTreeFindsManyChildren(t *testing.T) {
	const children = 1500
	held, hold, err := os.Pipe()
	must(t, err)
	cmd := exec.Command("sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do { read x <&3; } & i=$((i+1)); done; echo; wait", children))
	cmd.ExtraFiles = []*os.File{held}
	output := testkit.Value(cmd.StdoutPipe())(t)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_, _ = held.Close(), hold.Close()
		endOf(t, cmd)
	})
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	tree := treeFor(t, rootsOf(cmd.Process.Pid), procstats.Select(procstats.TreeProcesses))
	var s procstats.Sample
	collect(&s, tree)
	checkNumber(t, &s, procstats.TreeProcesses, 1+children)
}

// TestTreeKeepsOrphans holds that a process stays in the task when its parent has ended and it belongs to another
// child, init's in the worst case, and that its parent is right also where stat is not read in every sample.
func TestTreeKeepsOrphans(t *testing.T) {
	for _, sel := range []procstats.Selection{
		procstats.SourceSelection(procstats.SourceTree), procstats.Select(procstats.ProcessCPU),
	} {
		parent := play(t, "parent")
		roots := []int{parent.Process.Pid}
		tree := treeFor(t, Target{FS: kernel.HostFS(), Roots: func() []int { return roots }}, sel)
		var s procstats.Sample
		collect(&s, tree)
		want := []int{parent.Process.Pid, parent.child}
		slices.Sort(want) // rows are by PID, and those of the machine may begin anew between the two
		if !cmp.Equal(pidsOf(&s), want) {
			t.Fatalf("PIDs %v, want %v", pidsOf(&s), want)
		}
		endOf(t, parent.Cmd)
		roots = nil
		for range 2 {
			collect(&s, tree)
			if want := []int{parent.child}; !cmp.Equal(pidsOf(&s), want) {
				t.Fatalf("after the parent's end: PIDs %v, want %v", pidsOf(&s), want)
			}
		}
		if ppid := s.Processes[0].PPID; ppid == parent.Process.Pid {
			t.Errorf("its parent is still %d", ppid)
		}
	}
}

// TestTreeSeesNewPrograms holds that the name and the command line are those of the program that runs, also where stat
// is not read in every sample, and harmless however hostile.
func TestTreeSeesNewPrograms(t *testing.T) {
	cmd := exec.Command("sh")
	cmd.Args = []string{"a\x1b[2J", "-c", "read x; exec cat"}
	input := testkit.Value(cmd.StdinPipe())(t)
	output := testkit.Value(cmd.StdoutPipe())(t)
	must(t, cmd.Start())
	t.Cleanup(func() { endOf(t, cmd) })
	tree := treeFor(t, rootsOf(cmd.Process.Pid), procstats.Select(procstats.ProcessCPU, procstats.ProcessCmdline))
	program := func() string {
		var s procstats.Sample
		if collect(&s, tree); len(s.Processes) == 0 {
			return ""
		}
		r, _ := s.Processes[0].Readings.Get(procstats.ProcessCmdline)
		text, _ := r.Text()
		return s.Processes[0].Command + ": " + text + r.Reason()
	}
	// The kernel says that a program was started before it says with which arguments.
	for began := time.Now(); program() != `sh: "a\x1b[2J" -c "read x; exec cat"`; {
		if time.Since(began) > 60*time.Second {
			t.Fatal(program())
		}
	}
	if _, err := fmt.Fprint(input, "to the shell\nto cat\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, program(), "cat: cat", "after the exec")
}

// TestTreeReadsAgain has a collection that is interrupted while it reads the clocks: what the processes use meanwhile
// must not count for the time before.
func TestTreeReadsAgain(t *testing.T) {
	pid := sleepers(t, 1)[0]
	tests := []struct {
		name string
		took []time.Duration // by each reading
		want int             // the reading that counts
	}{
		{"at once", []time.Duration{time.Millisecond}, 0},
		{"interrupted", []time.Duration{time.Second, time.Millisecond}, 1},
		{"always interrupted", []time.Duration{time.Second, time.Second, time.Second}, 2},
	}
	for _, test := range tests {
		tree := treeFor(t, rootsOf(pid), procstats.Select(procstats.TreeCPU))
		at, readings, began := time.Hour, 0, []time.Duration{}
		tree.now = func() procstats.Stamp {
			if len(began) == readings {
				began = append(began, at)
			} else {
				at += test.took[readings]
				readings++
			}
			return procstats.Stamp{Mono: at}
		}
		var s procstats.Sample
		collect(&s, tree)
		if got := s.Sources.At(procstats.SourceTree).Mono; len(began) != len(test.took) || got != began[test.want] {
			t.Errorf("%s: %d readings, stamp %v; want that of reading %d of %v", test.name, len(began), got, test.want, began)
		}
	}
}
