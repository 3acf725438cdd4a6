// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

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
			p, err := Open(host, f.ids[0])
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			other := f.ids[0]
			other.Start++
			if got := StateOf(host, other); got != Gone {
				t.Errorf("another process of the same number: %v, want %v", got, Gone)
			}
			if err := test.end(f); err != nil {
				t.Fatal(err)
			}
			if test.want != Alive {
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				if err := p.Wait(ctx); err != nil {
					t.Fatal(err)
				}
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

func TestSigkillPending(t *testing.T) {
	for text, want := range map[string]bool{
		"Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n": true,
		"Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n": true,
		"Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n": false, // SIGTERM
		"Name:\tx\nSigBlk:\t0000000000000100\nSigCgt:\t0000000000000100\n": false,
		"SigPnd:\tx\n": false,
		"":             false,
	} {
		if got := sigkillPending([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
