// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig/nopidfd"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// sessionOf starts a session with two members, and a process below them that has made its own.
func sessionOf(t *testing.T) (f *family, leader procstats.ProcessID, outside procstats.ProcessID) {
	t.Helper()
	f = start(t, "session,plain,session", 3)
	for _, id := range f.ids {
		session := testkit.Value(unix.Getsid(id.PID))(t)
		switch {
		case id.PID == f.Process.Pid:
			leader = id
		case session == id.PID:
			outside = id
		}
	}
	return f, leader, outside
}

func TestKillSession(t *testing.T) {
	f, leader, outside := sessionOf(t)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for range 2 { // the second time it is empty
		testkit.NoError(t, KillSession(ctx, kernel.HostFS(), leader))
	}
	if got := f.alive(); len(got) != 1 || got[0] != outside {
		t.Errorf("%v are left, want %v", got, outside)
	}
	testkit.Equal(t, signalOf(t, f.Wait()), unix.SIGKILL, "the leader ended by")
}

// A session whose leader is gone has its members still.
func TestKillSessionWithoutLeader(t *testing.T) {
	f, leader, _ := sessionOf(t)
	must(t, Child(leader.PID).Signal(unix.SIGKILL))
	f.reap()
	testkit.NoError(t, KillSession(t.Context(), kernel.HostFS(), leader))
	if got := f.alive(); len(got) != 1 {
		t.Errorf("%v are left, want the one in a session of its own", got)
	}
}

// A session is not the one that was meant if another process has its leader's number, or if there was none.
func TestKillOtherSession(t *testing.T) {
	f, leader, _ := sessionOf(t)
	earlier, later := leader, leader
	earlier.Start--
	later.Start++
	for _, other := range []procstats.ProcessID{earlier, later, {}, {PID: -1}} {
		if err := KillSession(t.Context(), kernel.HostFS(), other); err != nil {
			t.Errorf("%v: %v", other, err)
		}
	}
	if got := f.alive(); len(got) != 3 {
		t.Errorf("%v are left, want all", got)
	}
}

func TestKillSessionWithoutPidfds(t *testing.T) {
	f, leader, _ := sessionOf(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	nopidfd.Run(t, func() {
		err := KillSession(ctx, kernel.HostFS(), leader)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, unix.ENOSYS) {
			t.Errorf("kill session: %v", err)
		}
	})
	if got := f.alive(); len(got) != 3 {
		t.Errorf("%v are left, want all", got)
	}
}
