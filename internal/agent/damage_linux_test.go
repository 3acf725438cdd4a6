// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestStateIsLost replaces the state of running tasks by something else: they run on, and what they wrote is not
// removed.
func TestStateIsLost(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	first := begin(t, c)
	l := first.submit(inGroup(1, shell("t", "", "exec sleep 1000")))[0]
	l = first.await(l.ID, "running", isRunning)
	dir := datadir.In(first.host.Dir, l.ID)
	first.end(false)
	good := testkit.Value(os.ReadFile(filepath.Join(c.DataDir, "state.db")))(t)
	must(t, os.WriteFile(filepath.Join(c.DataDir, "state.db"), []byte(strings.Repeat("damage ", 3000)), 0o600))
	own := filepath.Join(c.DataDir, "alloc", "not-ours")
	must(t, os.Mkdir(own, 0o700))
	for range 2 { // the second one finds a state that is whole
		r := begin(t, c)
		if pid, err := strconv.Atoi(l.Tasks["t"].Attributes["pid"]); err != nil || syscall.Kill(pid, 0) != nil {
			t.Errorf("the task has ended: %v", err)
		}
		if removed, err := r.CollectGarbage(); removed != 0 || err != nil {
			t.Errorf("%d directories were removed, %v", removed, err)
		}
		r.end(false)
	}
	for _, path := range []string{own, dir.Logs()} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	must(t, os.WriteFile(filepath.Join(c.DataDir, "state.db"), good, 0o600))
	last := begin(t, c)
	last.await(l.ID, "running", isRunning)
	last.end(true)
	if left := processesOf(t, c); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// TestDamagedState damages the state of running tasks at random places. The agent starts each time, kills none of
// them, and supervises those whose job is not lost. TACHO_DAMAGES says how often.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	tries := 20
	if given := os.Getenv("TACHO_DAMAGES"); given != "" {
		var err error
		tries, err = strconv.Atoi(given)
		must(t, err)
	}
	c := testConfig(shortDir(t))
	path := filepath.Join(c.DataDir, "state.db")
	r := begin(t, c)
	pids := make(map[string]string)
	for _, l := range r.submit(inGroup(2, shell("t", "", "exec sleep 1000"), shell("u", "", "exec sleep 1000"))) {
		l = r.await(l.ID, "running", allRun)
		for name, task := range l.Tasks {
			pids[l.ID+"/"+name] = task.Attributes["pid"]
		}
	}
	r.end(false)
	good := testkit.Value(os.ReadFile(path))(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	supervised := 0
	for try := range tries {
		must(t, os.WriteFile(path, damaged(random, good), 0o600))
		r := begin(t, c)
		for key, pid := range pids {
			if number, err := strconv.Atoi(pid); err != nil || syscall.Kill(number, 0) != nil {
				t.Fatalf("try %d: task %s has ended: %v", try, key, err)
			}
		}
		if j, err := r.Snapshot().Job("test"); err == nil && len(j.Job.Groups) > 0 {
			r.checkSupervised(try, pids)
			supervised++
		}
		r.end(false)
	}
	t.Logf("%d of %d agents had the job", supervised, tries)
	must(t, os.WriteFile(path, good, 0o600))
	last := begin(t, c)
	last.checkSupervised(tries, pids)
	last.end(true)
	if left := processesOf(t, c); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// allRun reports whether each task of an allocation runs.
func allRun(l *allocation.Allocation) bool {
	for _, t := range l.Tasks {
		if t.State.Phase != hook.PhaseRunning || t.Attributes["pid"] == "" {
			return false
		}
	}
	return true
}

// checkSupervised holds that tasks run as the processes that they were.
func (r *running) checkSupervised(try int, pids map[string]string) {
	r.t.Helper()
	for key, pid := range pids {
		id, name, _ := strings.Cut(key, "/")
		l := r.await(id, "running", allRun)
		if got := l.Tasks[name].Attributes["pid"]; got != pid {
			r.t.Errorf("try %d: task %s is process %q, was %s", try, key, got, pid)
		}
	}
}

// damaged returns a file with some bits flipped, a block overwritten, or its end cut off.
func damaged(random *rand.Rand, good []byte) []byte {
	text := slices.Clone(good)
	switch random.IntN(4) {
	case 0:
		return text[:random.IntN(len(text))]
	case 1:
		at := random.IntN(len(text) - 512)
		clear(text[at : at+512])
	default:
		for range 1 + random.IntN(28) {
			text[random.IntN(len(text))] ^= 1 << random.IntN(8)
		}
	}
	return text
}

// processesOf are the processes, but this one, that have the data directory in their command line or environment.
func processesOf(t *testing.T, c config.Config) (pids []string) {
	t.Helper()
	folders := testkit.Value(filepath.Glob("/proc/[0-9]*"))(t)
	for _, dir := range folders {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // nothing of what has ended
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if len(line) > 0 && strings.Contains(string(line)+string(environ), c.DataDir+"/") {
			pids = append(pids, filepath.Base(dir))
		}
	}
	return pids
}
