// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

func TestState(t *testing.T) {
	host := kernel.HostFS()
	tests := []struct {
		name string
		end  func(f *family) error
		want State
	}{
		{"runs", func(*family) error { return nil }, Alive},
		{"killed", func(f *family) error { return Child(f.Process.Pid).Signal(unix.SIGKILL) }, Killed},
		{"asked to end", func(f *family) error { return Child(f.Process.Pid).Signal(unix.SIGTERM) }, Gone},
		{"ended by itself", func(f *family) error { return f.hold.Close() }, Gone},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, "plain", 1)
			p := testkit.Value(Open(host, f.ids[0]))(t)
			defer p.Close()
			other := f.ids[0]
			other.Start++
			if got := StateOf(host, other); got != Gone {
				t.Errorf("another process of the same number: %v, want %v", got, Gone)
			}
			must(t, test.end(f))
			if test.want != Alive {
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				must(t, p.Wait(ctx))
			}
			if got := StateOf(host, f.ids[0]); got != test.want {
				t.Errorf("state %v, want %v", got, test.want)
			}
			if test.want != Alive {
				f.reap()
				if got := StateOf(host, f.ids[0]); got != Gone {
					t.Errorf("reaped: state %v, want %v", got, Gone)
				}
			}
		})
	}
}

// A process whose first thread has ended is shown as a zombie, and runs.
func TestFirstThreadHasEnded(t *testing.T) {
	host := kernel.HostFS()
	f := start(t, "leaderless", 1)
	if got := StateOf(host, f.ids[0]); got != Alive {
		t.Errorf("state %v, want %v", got, Alive)
	}
	p := testkit.Value(Open(host, f.ids[0]))(t)
	testkit.NoError(t, errors.Join(p.Signal(unix.SIGKILL), p.Close()))
	f.await("end", func() bool { return StateOf(host, f.ids[0]) != Alive })
	if got := StateOf(host, f.ids[0]); got != Killed {
		t.Errorf("state %v, want %v", got, Killed)
	}
}
