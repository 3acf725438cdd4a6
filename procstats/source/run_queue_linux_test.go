// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// setThread writes the scheduler's account of a thread.
func setThread(t *testing.T, root kernel.FS, pid, tid, waited, voluntary, involuntary int) {
	t.Helper()
	dirs := []string{fmt.Sprintf("%d/task/%d", pid, tid)}
	if pid == tid {
		dirs = append(dirs, fmt.Sprint(pid))
	}
	for _, dir := range dirs {
		writeProc(t, root, dir+"/schedstat", fmt.Sprintf("1000 %d 3\n", waited*1e9))
		writeProc(t, root, dir+"/status", fmt.Sprintf("Name:\tsh\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n", voluntary, involuntary))
	}
}

// setThreads makes a process one of so many threads.
func setThreads(t *testing.T, root kernel.FS, pid, threads int) {
	t.Helper()
	writeProc(t, root, fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (sh) S 1 1 1 0 -1 4194304 72 0 0 0 50 0 0 0 20 0 %d 0 100 1 1 1 1 1 1 0 0 0 0 0 0 1\n", pid, threads))
}

// TestRunQueue takes a process through the life of its threads: what they waited is added up, and none of it is lost.
func TestRunQueue(t *testing.T) {
	root := kernel.FS{Proc: t.TempDir()}
	setCPU(t, root, 10, 1, 100, 50, 0)
	setChildren(t, root, 10, "")
	tree := treeOf(t, Target{FS: root, Roots: func() []int { return []int{10} }})
	for _, step := range []struct {
		name   string
		change func()
		want   string // delay, voluntary, involuntary; or why not
	}{
		{"one thread", func() { setThread(t, root, 10, 10, 2, 5, 6) }, "2 5 6"},
		{"two", func() {
			setThreads(t, root, 10, 2)
			setThread(t, root, 10, 10, 3, 6, 6)
			setThread(t, root, 10, 11, 4, 1, 1)
		}, "7 7 7"},
		{"one has ended", func() {
			setThreads(t, root, 10, 1)
			removeProc(t, root, "10/task/11")
			setThread(t, root, 10, 10, 4, 6, 6)
		}, "8 7 7"},
		{"its TID is another's", func() {
			setThreads(t, root, 10, 2)
			setThread(t, root, 10, 11, 1, 0, 1)
		}, "9 7 8"},
		{"and again another's", func() { setThread(t, root, 10, 11, 0, 0, 0) }, "9 7 8"},
		{"too many", func() {
			setThreads(t, root, 10, mostThreads+1)
			for tid := 12; tid < 12+mostThreads; tid++ {
				setThread(t, root, 10, tid, 1, 1, 1)
			}
		}, "it has more than 128 threads"},
		{"not counted", func() {
			setThreads(t, root, 10, 1)
			writeProc(t, root, "10/schedstat", "0 0 0\n")
		}, reasonNoSchedInfo},
		{"no such file", func() { removeProc(t, root, "10/schedstat") }, reasonNoSchedInfo},
		{"damaged", func() { writeProc(t, root, "10/schedstat", "1 2\n") }, "read /proc/10/schedstat: " + kernel.ErrFormat.Error()},
	} {
		step.change()
		var s procstats.Sample
		collect(&s, tree)
		if len(s.Processes) != 1 {
			t.Fatalf("%s: %d rows", step.name, len(s.Processes))
		}
		var got []string
		for _, id := range []procstats.ID{procstats.ProcessRunDelay, procstats.ProcessVoluntarySwitches, procstats.ProcessInvoluntarySwitches} {
			r, _ := s.Processes[0].Readings.Get(id)
			if value, ok := r.Number(); ok {
				got = append(got, fmt.Sprint(value))
			} else if len(got) == 0 {
				got = append(got, r.Reason())
				break
			}
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
}

// TestRunDelayOfLiving compares with an account that has nothing to do with it: a process that never sleeps has either
// used a CPU or waited for one since it was started.
func TestRunDelayOfLiving(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Skip("needs a shell: ", err)
	}
	t.Cleanup(func() { endOf(t, cmd) })
	tree := treeFor(t, rootsOf(cmd.Process.Pid), procstats.Select(procstats.ProcessCPU, procstats.ProcessRunDelay, procstats.ProcessElapsed))
	var s procstats.Sample
	var cpu, delay, elapsed float64
	for began := time.Now(); elapsed < 0.5 && time.Since(began) < 10*time.Second; {
		collect(&s, tree)
		if len(s.Processes) != 1 {
			t.Fatalf("%d rows", len(s.Processes))
		}
		r, _ := s.Processes[0].Readings.Get(procstats.ProcessRunDelay)
		if r.Reason() == reasonNoSchedInfo {
			t.Skip(r.Reason())
		}
		delay, _ = r.Number()
		cpu, _ = s.Processes[0].Readings.Number(procstats.ProcessCPU)
		elapsed, _ = s.Processes[0].Readings.Number(procstats.ProcessElapsed)
	}
	// It may wait right now, which counts later, and has waited for its program to be read: hence only what can never be.
	const tick = 0.02
	if cpu+delay > elapsed+tick || delay < 0 {
		t.Errorf("used %v s and waited %v s in %v s", cpu, delay, elapsed)
	}
}
