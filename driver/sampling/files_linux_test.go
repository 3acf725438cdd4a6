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
	defer func() {
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	}()
	return newLoop(t)
}

// TestFewFiles holds that with few descriptors a task is read all the same, and says what its executor says; and that
// the executor reads it if there are too few.
func TestFewFiles(t *testing.T) {
	k := run(t, busy, nil)
	before := openFiles(t)
	s := open(t, newLimitedLoop(t, 40), k, 20*time.Millisecond)
	for range 3 {
		compareBoth(t, s, k)
	}
	if n := openFiles(t) - before; n > 20 {
		t.Errorf("the task takes %d open files, want at most 20", n)
	}
	if _, err := newLimitedLoop(t, 16).Open(t.Context(), k.task(), time.Second); !errors.Is(err, sampling.ErrUnreadable) {
		t.Errorf("a stream of a process that may open 16 files: %v, want ErrUnreadable", err)
	}
}

// TestMoreTasks holds that a task whose files stay open makes room for another one's, and that both are read on as
// their executors do.
func TestMoreTasks(t *testing.T) {
	one, other := run(t, busy, nil), run(t, busy, nil)
	loop := newLimitedLoop(t, 60)
	before := openFiles(t)
	first := open(t, loop, one, 20*time.Millisecond)
	recv(t, first)
	alone := openFiles(t) - before
	second := open(t, loop, other, 20*time.Millisecond)
	if both := openFiles(t) - before; alone <= 20 || both > 40 {
		t.Errorf("one task takes %d open files, want more than 20; two take %d, want at most 40", alone, both)
	}
	compareBoth(t, first, one)
	compareBoth(t, second, other)
	third := run(t, busy, nil)
	if _, err := loop.Open(t.Context(), third.task(), time.Second); !errors.Is(err, sampling.ErrUnreadable) {
		t.Errorf("a stream of a third task: %v, want ErrUnreadable", err)
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
