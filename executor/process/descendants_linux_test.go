// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// reapingTest makes this process a subreaper for the time of a test.
func reapingTest(t *testing.T) {
	t.Helper()
	set := func(on uintptr) error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0) }
	must(t, set(1))
	t.Cleanup(func() { must(t, set(0)) })
}

// killDescendants signals every process below this one and returns their numbers.
func killDescendants(t *testing.T) (pids []int) {
	t.Helper()
	list := testkit.Value(Descendants(kernel.HostFS(), new(sync.Mutex)))(t)
	for _, p := range list {
		pids = append(pids, p.PID())
		testkit.NoError(t, errors.Join(p.Signal(unix.SIGKILL), p.Close()))
	}
	slices.Sort(pids)
	return pids
}

// Every process below this one is found, whatever it did; without pidfds it takes a round for each generation.
func TestDescendants(t *testing.T) {
	eachWay(t, func(t *testing.T, pidfds bool) {
		reapingTest(t)
		const roles = "plain,session,execs,orphans,plain"
		f := start(t, roles, 4)
		f.await("orphan reparented", func() bool {
			children, err := kernel.Children(kernel.HostFS(), os.Getpid())
			return err == nil && len(children) == 2
		})
		var want []int
		for _, id := range f.ids {
			want = append(want, id.PID)
		}
		slices.Sort(want)
		got := killDescendants(t)
		if pidfds {
			testkit.Diff(t, "descendants", want, got)
		} else if len(got) != 2 || !slices.Contains(got, f.Process.Pid) {
			t.Errorf("without pidfds: %d of %v, want the two children", got, want)
		}
		f.await("end of all", func() bool {
			killDescendants(t)
			return reapEnded()
		})
		if got := f.alive(); len(got) > 0 {
			t.Errorf("%v are left", got)
		}
	})
}

// A child that a list names under a number is below us only if its parent has that number still.
func TestParentUsedAgain(t *testing.T) {
	parent, child := start(t, "plain", 1), start(t, "plain", 1)
	held := testkit.Value(Open(kernel.HostFS(), parent.ids[0]))(t)
	defer held.Close()
	host := kernel.FS{Proc: t.TempDir()}
	pid := child.ids[0].PID
	setParent := func(ppid int) {
		t.Helper()
		dir := filepath.Join(host.Proc, strconv.Itoa(pid))
		must(t, os.MkdirAll(dir, 0o755))
		stat := testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t)
		stat = slices.Concat([]byte(fmt.Sprintf("%d (x) S %d", pid, ppid)), afterParent(stat))
		must(t, os.WriteFile(filepath.Join(dir, "stat"), stat, 0o644))
	}
	tree := &tree{host: host, self: os.Getpid()}
	below := func(ppid int, of *Process) bool {
		setParent(ppid)
		return tree.isBelow(pid, of)
	}
	if !below(tree.self, nil) || !below(tree.self, held) {
		t.Error("our own child is not below us")
	}
	if !below(held.PID(), held) {
		t.Error("the child of a process that runs is not below it")
	}
	if below(held.PID(), nil) || below(1, held) {
		t.Error("another's child is below us")
	}
	must(t, held.Signal(unix.SIGKILL))
	must(t, held.Wait(t.Context()))
	if !below(held.PID(), held) {
		t.Error("the PID of a zombie belongs to another process")
	}
	parent.reap()
	if below(held.PID(), held) {
		t.Error("a child of a process that reuses the PID is below us")
	}
}

// afterParent is what follows the fourth field of a stat file.
func afterParent(stat []byte) []byte {
	fields := 0
	for i := slices.Index(stat, ')'); i < len(stat); i++ {
		if stat[i] == ' ' {
			if fields++; fields == 3 {
				return stat[i:]
			}
		}
	}
	return nil
}
