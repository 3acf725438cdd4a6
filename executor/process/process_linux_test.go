// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig/nopidfd"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// eachWay runs a test with pidfds and without.
func eachWay(t *testing.T, test func(t *testing.T, pidfds bool)) {
	t.Run("with pidfds", func(t *testing.T) { test(t, true) })
	t.Run("without", func(t *testing.T) { nopidfd.Run(t, func() { test(t, false) }) })
}

// unpinned is a pin that lets every signal through.
func unpinned(signal func() error) error { return signal() }

func signalOf(t *testing.T, err error) syscall.Signal {
	t.Helper()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("it ended with %v, want by a signal", err)
	}
	return exit.Sys().(syscall.WaitStatus).Signal() //nolint:forcetypeassert // it is one on Linux
}

// A PID that belongs to another process by now is never signalled, however late that is noticed.
func TestUsedAgain(t *testing.T) {
	eachWay(t, func(t *testing.T, pidfds bool) {
		f := start(t, "plain", 1)
		earlier := f.ids[0]
		earlier.Start--
		if p, err := Open(kernel.HostFS(), earlier); !errors.Is(err, ErrGone) {
			t.Errorf("open another process of the same number: %v, %v", p, err)
		}
		for _, pid := range []int{0, -1} {
			if p, err := Hold(pid, func() bool { return true }, unpinned); !errors.Is(err, ErrGone) {
				t.Errorf("hold %d: %v, %v", pid, p, err)
			}
		}
		if pidfds {
			return
		}
		meant := true
		p, err := Hold(f.ids[0].PID, func() bool { return meant }, func(signal func() error) error {
			meant = false // between the first look and the signal
			return signal()
		})
		must(t, err)
		if err := p.Signal(unix.SIGKILL); err != nil {
			t.Errorf("signal what is gone: %v", err)
		}
		if len(f.alive()) == 0 {
			t.Error("another process was killed")
		}
	})
}

func TestSignal(t *testing.T) {
	eachWay(t, func(t *testing.T, _ bool) {
		f := start(t, "plain", 1)
		id := f.ids[0]
		p, err := Hold(id.PID, func() bool { return kernel.Alive(kernel.HostFS(), id) }, unpinned)
		if err != nil || p.PID() != id.PID {
			t.Fatal(p.PID(), err)
		}
		testkit.NoError(t, p.Signal(unix.SIGTERM))
		testkit.Equal(t, signalOf(t, f.Wait()), unix.SIGTERM, "it ended by")
		if err := errors.Join(p.Signal(unix.SIGKILL), p.Close()); err != nil {
			t.Errorf("signal what is gone: %v", err)
		}
		if _, err := Open(kernel.HostFS(), id); !errors.Is(err, ErrGone) {
			t.Errorf("open what is gone: %v", err)
		}
	})
}

// Without a pidfd, and with nothing in its place, there is no signal.
func TestSignalNeedsProof(t *testing.T) {
	nopidfd.Run(t, func() {
		if err := Supported(); !errors.Is(err, unix.ENOSYS) {
			t.Errorf("supported: %v", err)
		}
		f := start(t, "plain", 1)
		p, err := Open(kernel.HostFS(), f.ids[0])
		must(t, err)
		if err := p.Signal(unix.SIGKILL); !errors.Is(err, unix.ENOSYS) {
			t.Errorf("signal without a pidfd: %v", err)
		}
		refused := errors.New("refused")
		p, err = Hold(f.ids[0].PID, func() bool { return true }, func(func() error) error { return refused })
		must(t, err)
		if err := p.Signal(unix.SIGKILL); !errors.Is(err, refused) {
			t.Errorf("signal with a pin that fails: %v", err)
		}
		if len(f.alive()) == 0 {
			t.Error("it was killed")
		}
	})
	if err := Supported(); err != nil {
		t.Logf("no pidfds here: %v", err)
	}
}

func TestWait(t *testing.T) {
	eachWay(t, func(t *testing.T, _ bool) {
		f := start(t, "plain", 1)
		p := testkit.Value(Open(kernel.HostFS(), f.ids[0]))(t)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		waited := make(chan error)
		go func() { waited <- p.Wait(ctx) }()
		cancel(cause)
		if err := <-waited; !errors.Is(err, cause) {
			t.Errorf("wait for what runs: %v", err)
		}
		if err := p.Wait(ctx); !errors.Is(err, cause) {
			t.Errorf("wait with a context that has ended: %v", err)
		}
		ctx, cancelTimeout := context.WithTimeout(t.Context(), soon)
		defer cancelTimeout()
		go func() { waited <- p.Wait(ctx) }()
		must(t, Child(f.ids[0].PID).Signal(unix.SIGKILL))
		if err := <-waited; err != nil {
			t.Errorf("wait for a zombie: %v", err)
		}
		if _, err := Open(kernel.HostFS(), f.ids[0]); !errors.Is(err, ErrGone) {
			t.Errorf("open a zombie: %v", err)
		}
		f.reap()
		if err := errors.Join(p.Wait(ctx), p.Close()); err != nil {
			t.Errorf("wait for what was reaped: %v", err)
		}
	})
}

// A process stays the same over execve(2) and setsid(2).
func TestExec(t *testing.T) {
	f := start(t, "execs,session", 2)
	for _, id := range f.ids {
		p := testkit.Value(Open(kernel.HostFS(), id))(t)
		testkit.NoError(t, errors.Join(p.Signal(unix.SIGKILL), p.Close()))
	}
	f.reap()
	f.await("end of both", func() bool { return len(f.alive()) == 0 })
}
