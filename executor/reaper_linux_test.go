// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// reaperEnv is set in a process of its own: a reaper takes all children of its process, those of other tests too.
const reaperEnv = "TACHO_TEST_REAPER"

func aloneWithChildren(t *testing.T) bool {
	t.Helper()
	if os.Getenv(reaperEnv) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), reaperEnv+"=1", "TACHO_BIN="+os.Args[0]) // no executor is built: it starts none
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	return false
}

// startChild starts a shell as a child of the reaper.
func startChild(t *testing.T, r *reaper, script string) (pid int, end <-chan ended) {
	t.Helper()
	pid, end, err := r.start(func() (int, error) {
		return syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{})
	})
	testkit.Must(t, err)
	return pid, end
}

// reapUntilEnd reaps again and again, so that children end at any point of it.
func reapUntilEnd(t *testing.T, r *reaper, end <-chan ended) ended {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		r.reapAll()
		select {
		case e := <-end:
			return e
		default:
		}
	}
	t.Fatal("a child was not reaped")
	return ended{}
}

// TestReaperReadsEveryChild holds that no child is reaped whose I/O was neither read nor counted as missed, whenever
// it ends.
func TestReaperReadsEveryChild(t *testing.T) {
	if !aloneWithChildren(t) {
		return
	}
	const children, written = 300, 1000
	r := newReaper(kernel.HostFS())
	r.readsIO = true
	for range children {
		_, end := startChild(t, r, "printf %01000d 0 >/dev/null")
		reapUntilEnd(t, r, end)
	}
	sum := r.reaped()
	if want := written * (sum.Processes - sum.IOMissed); sum.Processes != children || sum.IO.Wchar != want {
		t.Errorf("%d children have written %d bytes, want %d; %d were missed", sum.Processes, sum.IO.Wchar, want, sum.IOMissed)
	}
}

// TestReaperTellsOfStops holds that a child that is stopped is told of with its signal, once for each time, and is
// reaped when it has gone on and ended.
func TestReaperTellsOfStops(t *testing.T) {
	if !aloneWithChildren(t) {
		return
	}
	for name, looks := range map[string]bool{"reaps only": false, "reads I/O": true} {
		t.Run(name, func(t *testing.T) {
			r := newReaper(kernel.HostFS())
			if looks {
				r.readsIO = true
			}
			var signals []unix.Signal
			r.stopped = func(pid int, signal unix.Signal) {
				signals = append(signals, signal)
				testkit.NoError(t, process.Child(pid).Signal(unix.SIGCONT))
			}
			_, end := startChild(t, r, "kill -STOP $$; kill -STOP $$; exit 3")
			if e := reapUntilEnd(t, r, end); e.status.ExitStatus() != 3 {
				t.Errorf("status %v, want exit code 3", e.status)
			}
			if len(signals) != 2 || signals[0] != unix.SIGSTOP || signals[1] != unix.SIGSTOP {
				t.Errorf("signals %v", signals)
			}
		})
	}
}
