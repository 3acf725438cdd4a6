// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	output, err := cmd.StdoutPipe()
	must(t, err)
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
// child, init's in the worst case.
func TestTreeKeepsOrphans(t *testing.T) {
	parent := play(t, "parent")
	roots := []int{parent.Process.Pid}
	tree := treeOf(t, Target{FS: kernel.HostFS(), Roots: func() []int { return roots }})
	var s procstats.Sample
	collect(&s, tree)
	if want := []int{parent.Process.Pid, parent.child}; !cmp.Equal(pidsOf(&s), want) {
		t.Fatalf("PIDs %v, want %v", pidsOf(&s), want)
	}
	endOf(t, parent.Cmd)
	roots = nil
	collect(&s, tree)
	if want := []int{parent.child}; !cmp.Equal(pidsOf(&s), want) {
		t.Fatalf("after the parent's end: PIDs %v, want %v", pidsOf(&s), want)
	}
	if ppid := s.Processes[0].PPID; ppid == parent.Process.Pid {
		t.Errorf("its parent is still %d", ppid)
	}
}

// TestTreeReadsCommandLines holds that a command line is that of the program that runs, and harmless however hostile.
func TestTreeReadsCommandLines(t *testing.T) {
	cmd := exec.Command("sh")
	cmd.Args = []string{"a\x1b[2J", "-c", "read x; exec cat"}
	input, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { endOf(t, cmd) })
	tree := treeFor(t, rootsOf(cmd.Process.Pid), procstats.Select(procstats.ProcessCmdline))
	var s procstats.Sample
	line := func() string {
		collect(&s, tree)
		if len(s.Processes) == 0 {
			return ""
		}
		r, _ := s.Processes[0].Readings.Get(procstats.ProcessCmdline)
		text, _ := r.Text()
		return text + r.Reason()
	}
	await := func(want string) {
		t.Helper()
		// The kernel says that a program was started before it says with which arguments.
		for began := time.Now(); line() != want; {
			if time.Since(began) > 10*time.Second {
				t.Fatalf("%s, want %s", line(), want)
			}
		}
	}
	await(`"a\x1b[2J" -c "read x; exec cat"`)
	if _, err := fmt.Fprintln(input); err != nil {
		t.Fatal(err)
	}
	await("cat")
}

// TestTreeSeesWhatChanges holds that name and parent are right also where stat is not read in every sample.
func TestTreeSeesWhatChanges(t *testing.T) {
	parent := play(t, "parent")
	roots := []int{parent.Process.Pid}
	tree := treeFor(t, Target{FS: kernel.HostFS(), Roots: func() []int { return roots }}, procstats.Select(procstats.ProcessCPU))
	var s procstats.Sample
	collect(&s, tree)
	endOf(t, parent.Cmd)
	roots = nil
	collect(&s, tree)
	collect(&s, tree)
	if len(s.Processes) != 1 || s.Processes[0].PPID == parent.Process.Pid {
		t.Errorf("after the end of %d: %+v", parent.Process.Pid, s.Processes)
	}

	cmd := exec.Command("sh", "-c", "read x; exec cat")
	input, err := cmd.StdinPipe()
	must(t, err)
	output, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { endOf(t, cmd) })
	roots = []int{cmd.Process.Pid}
	command := func() string {
		collect(&s, tree)
		for _, row := range s.Processes {
			if row.PID == cmd.Process.Pid {
				return row.Command
			}
		}
		return ""
	}
	if got := command(); got != "sh" {
		t.Errorf("before the exec: %q", got)
	}
	if _, err := fmt.Fprint(input, "to the shell\nto cat\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if got := command(); got != "cat" {
		t.Errorf("after the exec: %q", got)
	}
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
