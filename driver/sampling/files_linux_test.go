// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/driver/sampling"
	"github.com/tachograph/tacho/internal/testkit"
)

// newLimitedLoop returns a loop of a process that may have so many files open.
func newLimitedLoop(t *testing.T, files uint64) *sampling.Loop {
	t.Helper()
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: limit.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	return newLoop(t)
}

// TestMoreTasks holds how many descriptors a task takes, and that the executors of tasks for which there are none left
// read them.
func TestMoreTasks(t *testing.T) {
	one, other := run(t, busy, nil), run(t, busy, nil)
	loop := newLimitedLoop(t, 60)
	before := openFiles(t)
	recv(t, open(t, loop, one, 20*time.Millisecond))
	if n := openFiles(t) - before; n > 34 {
		t.Errorf("the task takes %d open files, want at most 34", n)
	}
	for _, loop := range []*sampling.Loop{loop, newLimitedLoop(t, 16)} {
		if _, err := loop.Open(t.Context(), other.task(), time.Second); !errors.Is(err, sampling.ErrUnreadable) {
			t.Errorf("a stream of a task too many: %v, want ErrUnreadable", err)
		}
	}
}

// openFiles counts the descriptors of this process, but for those of the exit records, which all tasks share.
func openFiles(t *testing.T) int {
	t.Helper()
	entries := testkit.Value(os.ReadDir("/proc/self/fd"))(t)
	n := 0
	for _, entry := range entries {
		name, _ := os.Readlink("/proc/self/fd/" + entry.Name())
		if !strings.HasPrefix(name, "anon_inode:bpf") && name != "anon_inode:[eventpoll]" && name != "anon_inode:[eventfd]" {
			n++
		}
	}
	return n
}
