// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestPriority holds that an executor goes before others where it may, and that its task does not.
func TestPriority(t *testing.T) {
	own := niceOf(t, "/proc/self/stat")
	if err := exec.Command("nice", "-n", "-1", "true").Run(); err != nil || own != 0 {
		t.Skipf("no process may go before others here: %v (nice value %d)", err, own)
	}
	f := start(t)
	f.run("mkfifo go; cat /proc/self/stat; echo ready; read x < go")
	f.expect("ready")
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(f.Address().Executor.PID) + "/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]int{}
	for _, thread := range threads {
		seen[niceOf(t, thread)]++
	}
	// The thread that forks is as everybody.
	if seen[0] != 1 || seen[-20] != len(threads)-1 || len(threads) < 2 {
		t.Errorf("threads by nice value: %v, want one at 0 and the others at -20", seen)
	}
	// Where the kernel groups by session, that of the executor goes before others.
	group, err := os.ReadFile("/proc/" + strconv.Itoa(f.Address().Executor.PID) + "/autogroup")
	if err == nil && !strings.HasSuffix(strings.TrimSpace(string(group)), "nice -20") {
		t.Errorf("autogroup %q, want it at -20", group)
	}
	f.write("go", "go\n")
	f.wait()
	if nice := parseNice(t, strings.TrimSuffix(f.stdout(), "ready\n")); nice != own {
		t.Errorf("the task has nice value %d, want %d", nice, own)
	}
}

func niceOf(t *testing.T, stat string) int {
	t.Helper()
	text, err := os.ReadFile(stat)
	if err != nil {
		t.Fatal(err)
	}
	return parseNice(t, string(text))
}

// parseNice returns field 19 of a stat file; the name before it may have anything in it.
func parseNice(t *testing.T, stat string) int {
	t.Helper()
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	nice, err := strconv.Atoi(fields[19-3])
	if err != nil {
		t.Fatal(err)
	}
	return nice
}
