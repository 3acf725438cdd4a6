// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestChild(t *testing.T) {
	f := start(t, "plain,plain", 2)
	child, grandchild := Child(f.Process.Pid), Child(f.ids[0].PID)
	if child == grandchild {
		grandchild = Child(f.ids[1].PID)
	}
	for _, other := range []Child{grandchild, 0, -1, -child} {
		if err := other.Signal(unix.SIGKILL); !errors.Is(err, ErrGone) {
			t.Errorf("signal %d, which is not a child: %v", other, err)
		}
		if err := other.SignalGroup(unix.SIGKILL); !errors.Is(err, ErrGone) {
			t.Errorf("signal the group of %d, which is not a child: %v", other, err)
		}
	}
	if got := f.alive(); len(got) != 2 {
		t.Fatalf("%v are left", got)
	}
	testkit.NoError(t, child.Signal(unix.SIGTERM))
	testkit.Equal(t, signalOf(t, f.Wait()), unix.SIGTERM, "it ended by")
	if err := child.Signal(unix.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("signal what was reaped: %v", err)
	}
	if got := f.alive(); len(got) != 1 {
		t.Errorf("%v are left, want the grandchild", got)
	}
}

// A group has the number of its leader until the last member is gone, also while the leader is a zombie.
func TestSignalGroup(t *testing.T) {
	f := start(t, "plain,plain", 2, ownGroup)
	leader := Child(f.Process.Pid)
	must(t, leader.Signal(unix.SIGKILL))
	f.await("zombie", func() bool { return len(f.alive()) == 1 })
	testkit.NoError(t, leader.SignalGroup(unix.SIGKILL))
	f.await("end of the group", func() bool { return len(f.alive()) == 0 })
	f.reap()
	if err := leader.SignalGroup(unix.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("signal the group of what was reaped: %v", err)
	}
}

func TestKillChildren(t *testing.T) {
	// Of the processes below it one leads a session, and one has lost its parent.
	f := start(t, "kills,plain,session,orphans,plain", 3)
	must(t, f.hold.Close())
	if err := f.Wait(); err != nil {
		t.Errorf("children are left: %v", err)
	}
	if got := f.alive(); len(got) > 0 {
		t.Errorf("%v are left", got)
	}
}
