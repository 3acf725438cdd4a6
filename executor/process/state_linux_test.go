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
			testkit.Equal(t, StateOf(host, other), Gone, "another process of the same number")
			must(t, test.end(f))
			if test.want != Alive {
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				must(t, p.Wait(ctx))
			}
			testkit.Equal(t, StateOf(host, f.ids[0]), test.want, "state")
			if test.want != Alive {
				f.reap()
				testkit.Equal(t, StateOf(host, f.ids[0]), Gone, "reaped: state")
			}
		})
	}
}

// A process whose first thread has ended is shown as a zombie, and runs.
func TestFirstThreadHasEnded(t *testing.T) {
	host := kernel.HostFS()
	f := start(t, "leaderless", 1)
	testkit.Equal(t, StateOf(host, f.ids[0]), Alive, "state")
	p := testkit.Value(Open(host, f.ids[0]))(t)
	testkit.NoError(t, errors.Join(p.Signal(unix.SIGKILL), p.Close()))
	f.await("end", func() bool { return StateOf(host, f.ids[0]) != Alive })
	testkit.Equal(t, StateOf(host, f.ids[0]), Killed, "state")
}
