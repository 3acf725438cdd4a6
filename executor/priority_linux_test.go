// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestPriority holds that an executor goes before others where it may, and that its task does not, also if the thread
// that forks the executor has the timer slack of the runtime's monitor: see client.BePatient.
func TestPriority(t *testing.T) {
	own := needPriority(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() != os.Getpid() { // the first thread is never the monitor, and has what the task is given back
		slack := testkit.Value(unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0))(t)
		testkit.Must(t, unix.Prctl(unix.PR_SET_TIMERSLACK, 500_000, 0, 0, 0))
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) }()
	}
	f := start(t)
	f.run("mkfifo go; cat /proc/self/stat; cat /proc/$$/timerslack_ns; echo ready; read x < go")
	f.expect("ready")
	pid := f.Address().Executor.PID
	wrong := ""
	defer func() {
		if wrong != "" {
			t.Log(wrong)
		}
	}()
	f.eventually(soon, "the executor goes before others", func() bool {
		wrong = notRaised(t, pid)
		return wrong == ""
	})
	f.write("go", "go\n")
	f.wait()
	stat, slack, _ := strings.Cut(f.stdout(), "\n")
	testkit.Equal(t, parseNice(t, stat), own, "the task has nice value")
	slack, _, _ = strings.Cut(slack, "\n")
	if ours := timerSlack(t, "self"); slack != ours {
		t.Errorf("the task has a timer slack of %s ns, want ours: %s", slack, ours)
	}
}

// TestPriorityOfRealTime holds that an executor is content with the timer slack that the kernel lets it have: real-time
// threads have none since Linux 6.13, whatever is written.
func TestPriorityOfRealTime(t *testing.T) {
	needPriority(t)
	f := start(t)
	f.run("mkfifo go; read x < go")
	pid := f.Address().Executor.PID
	for _, thread := range threadsOf(t, pid) {
		fifo := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
		if err := unix.SchedSetAttr(thread, &fifo, 0); errors.Is(err, unix.EPERM) {
			t.Skipf("no real-time threads here: %v", err)
		} else if err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
	f.eventually(soon, "all threads but the one that forks go before others", func() bool {
		threads, first := threadsOf(t, pid), 0
		for _, thread := range threads {
			if niceOf(t, fmt.Sprintf("/proc/%d/stat", thread)) == -20 {
				first++
			}
		}
		return first == len(threads)-1
	})
	f.write("go", "go\n")
	f.wait()
}

func threadsOf(t *testing.T, pid int) (threads []int) {
	t.Helper()
	for _, thread := range testkit.Value(os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task"))(t) {
		threads = append(threads, testkit.Value(strconv.Atoi(thread.Name()))(t))
	}
	return threads
}

// notRaised says what of an executor does not go before others; empty if everything does but the thread that forks.
func notRaised(t *testing.T, pid int) string {
	t.Helper()
	threads := testkit.Value(filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat"))(t)
	seen := map[int]int{}
	for _, thread := range threads {
		seen[niceOf(t, thread)]++
	}
	if seen[0] != 1 || seen[-20] != len(threads)-1 || len(threads) < 2 {
		return fmt.Sprintf("threads by nice value: %v, want one at 0 and the others at -20", seen)
	}
	if patient := patientThreads(t, pid); patient != len(threads)-1 {
		return fmt.Sprintf("%d of %d threads have the executor's timer slack, want all but the one that forks", patient, len(threads))
	}
	return ""
}

// needPriority skips where no process may go before others, and returns our nice value.
func needPriority(t *testing.T) (own int) {
	t.Helper()
	own = niceOf(t, "/proc/self/stat")
	// nice(1) without a command prints its nice value; where it may not lower it, it only warns.
	if nice, err := exec.Command("nice", "-n", "-1", "nice").Output(); err != nil || own != 0 || string(nice) != "-1\n" {
		t.Skipf("no process may go before others here: %v (nice value %d)", err, own)
	}
	return own
}

func patientThreads(t *testing.T, pid int) int {
	t.Helper()
	patient := 0
	for _, thread := range threadsOf(t, pid) {
		if timerSlack(t, strconv.Itoa(thread)) == "500000" {
			patient++
		}
	}
	return patient
}

func timerSlack(t *testing.T, process string) string {
	t.Helper()
	text := testkit.Value(os.ReadFile("/proc/" + process + "/timerslack_ns"))(t)
	return strings.TrimSpace(string(text))
}

func niceOf(t *testing.T, stat string) int {
	t.Helper()
	text := testkit.Value(os.ReadFile(stat))(t)
	return parseNice(t, string(text))
}

// parseNice returns field 19 of a stat file; the name before it may have anything in it.
func parseNice(t *testing.T, stat string) int {
	t.Helper()
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	nice := testkit.Value(strconv.Atoi(fields[19-3]))(t)
	return nice
}
