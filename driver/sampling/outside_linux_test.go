// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestLeftGoesOn has a process leave the task's cgroup and end. A later reader of the task and the executor, which
// both have not seen it, know of it all the same: the peak is a lower bound for ever.
func TestLeftGoesOn(t *testing.T) {
	t.Parallel()
	const left = procstats.TreeLeftMemory
	k := run(t, "while ! [ -p go ]; do sleep 0.01; done; sleep 1000 & echo $! >pid; wait; read x <go", nil)
	for _, fifo := range []string{"pid", "go"} {
		must(t, unix.Mkfifo(filepath.Join(k.folder, fifo), 0o600))
	}
	text := testkit.Value(os.ReadFile(filepath.Join(k.folder, "pid")))(t)
	leaver := testkit.Value(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	c := k.Address().Cgroup
	outside := filepath.Join(filepath.Dir(cmp.Or(c.V1["memory"], c.V2)), "cgroup.procs")
	if err := os.WriteFile(outside, text, 0); err != nil {
		t.Skipf("no process can be moved: %v", err)
	}
	first := newLoop(t)
	s := open(t, first, k, 20*time.Millisecond)
	count := func(sample *procstats.Sample) float64 {
		n, _ := sample.Task.Number(left)
		return n
	}
	for count(recv(t, s)) == 0 {
	}
	must(t, unix.Kill(leaver, unix.SIGKILL))
	first.Close()
	s = open(t, newLoop(t), k, 20*time.Millisecond)
	for range 3 {
		if n := count(recv(t, s)); n != 1 {
			t.Fatalf("%v processes have left after the reader was started again, want 1", n)
		}
	}
	must(t, os.WriteFile(filepath.Join(k.folder, "go"), []byte("\n"), 0o600))
	<-k.done
	peak := k.final.Headline[procstats.HeadlineMemoryPeak.String()]
	if n := k.final.Measurements[left.String()]; n != 1.0 || peak.Guarantee == procstats.Exact {
		t.Errorf("the record has %v that left, and a peak that is %s", n, peak.Guarantee)
	}
}
