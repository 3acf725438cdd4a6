// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// faulty is a driver, its stream and an updater in one, each of whose methods can misbehave.
type faulty struct {
	// openStats, recv and updateStats are called first in the methods of these names; nil behaves well.
	openStats, recv, updateStats func()

	opened atomic.Int32
}

func (f *faulty) OpenStats(ctx context.Context, interval time.Duration) (hook.StatsStream, error) {
	f.opened.Add(1)
	misbehave(f.openStats)
	return &faultyStream{f, ctx, interval}, ctx.Err()
}

type faultyStream struct {
	*faulty
	ctx      context.Context
	interval time.Duration
}

func (s *faultyStream) Recv() (*procstats.Sample, error) {
	misbehave(s.recv)
	if !wait(s.ctx, s.interval) {
		return nil, s.ctx.Err()
	}
	return &procstats.Sample{}, nil
}

func (f *faulty) UpdateStats(*procstats.Sample) { misbehave(f.updateStats) }

func misbehave(f func()) {
	if f != nil {
		f()
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// hookGoroutines counts the goroutines that a stats hook has started.
func hookGoroutines() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("created by github.com/tachograph/tacho/hook.(*StatsHook)"))
}

// TestStatsBlockedCallHoldsOneGoroutine starts and ends a task again and again while a call does not return.
func TestStatsBlockedCallHoldsOneGoroutine(t *testing.T) {
	for _, place := range []string{"OpenStats", "UpdateStats", "Recv"} {
		t.Run(place, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				block := func() { <-release }
				f := map[string]*faulty{
					"OpenStats": {openStats: block}, "UpdateStats": {updateStats: block}, "Recv": {recv: block},
				}[place]
				h := hook.NewStatsHook(hook.StatsConfig{Publish: true, Updater: f})
				for range 50 {
					_ = h.Poststart(t.Context(), &hook.PoststartRequest{Stats: f})
					after(2 * time.Second)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					if err := h.Exited(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("Exited = %v, want the end of its context", err)
					}
					cancel()
				}
				synctest.Wait()
				testkit.Equal(t, hookGoroutines(), 1, "goroutines")
				if n := f.opened.Load(); n != 1 {
					t.Errorf("%d streams were opened beside the one that is held up", n-1)
				}
				close(release)
				synctest.Wait()
				testkit.Equal(t, hookGoroutines(), 0, "goroutines after the call has returned")
				_ = h.Poststart(t.Context(), &hook.PoststartRequest{Stats: f})
				after(2500 * time.Millisecond)
				wantErr(t, h.Err(), nil)
				wantErr(t, h.Shutdown(t.Context()), nil)
			})
		})
	}
}

// TestStatsAborted has a call end its goroutine: a task without samples is not said to have some.
func TestStatsAborted(t *testing.T) {
	for place, f := range map[string]*faulty{
		"OpenStats": {openStats: runtime.Goexit}, "Recv": {recv: runtime.Goexit}, "UpdateStats": {updateStats: runtime.Goexit},
	} {
		t.Run(place, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := hook.NewStatsHook(hook.StatsConfig{Publish: true, Updater: f})
				for range 2 { // another start begins anew
					_ = h.Poststart(t.Context(), &hook.PoststartRequest{Stats: f})
					wantErr(t, h.Err(), hook.ErrStatsOpening)
					after(2 * time.Second)
					wantErr(t, h.Err(), hook.ErrStatsAborted)
				}
				wantErr(t, h.Shutdown(t.Context()), nil)
			})
		})
	}
}

// TestStatsFaultsAreLogged has one line at error level for each kind of fault, which names hook, task and allocation.
func TestStatsFaultsAreLogged(t *testing.T) {
	const minute = time.Minute
	tests := map[string]struct {
		f    func(release <-chan struct{}) *faulty
		text string
		err  error // of Err, nil for any
	}{
		"blocked updater":  {func(c <-chan struct{}) *faulty { return &faulty{updateStats: func() { <-c }} }, "stats updater is blocked", hook.ErrUpdaterBlocked},
		"panicked updater": {func(<-chan struct{}) *faulty { return &faulty{updateStats: func() { panic(1) }} }, "update stats: panic: 1", nil},
		"panicked driver":  {func(<-chan struct{}) *faulty { return &faulty{openStats: func() { panic(1) }} }, "open stats stream: panic: 1", nil},
		"panicked stream":  {func(<-chan struct{}) *faulty { return &faulty{recv: func() { panic(1) }} }, "receive stats: panic: 1", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release, log := make(chan struct{}), &journal{}
				f := test.f(release)
				h := hook.NewStatsHook(hook.StatsConfig{
					Publish: true, Updater: f, Logger: log.logger().With("alloc_id", "7ab1", "task", "web"),
				})
				_ = h.Poststart(t.Context(), &hook.PoststartRequest{Stats: f})
				after(minute)
				lines := log.at(hclog.Error)
				if len(lines) != 1 {
					t.Fatalf("%d lines at error level, want 1: %v", len(lines), lines)
				}
				args := lines[0].args
				if err, _ := args["error"].(error); err == nil || err.Error() != test.text {
					t.Errorf("logged %v, want %s", args["error"], test.text)
				}
				if _, stack := args["stack"]; stack != strings.HasPrefix(name, "panicked") {
					t.Errorf("logged a stack: %v", stack)
				}
				if args["hook"] != "stats" || args["task"] != "web" || args["alloc_id"] != "7ab1" {
					t.Errorf("logged %v, want hook, task and allocation", args)
				}
				if err := h.Err(); err == nil || test.err != nil && !errors.Is(err, test.err) {
					t.Errorf("Err = %v, want %v", err, test.err)
				}
				close(release)
				after(time.Second)
				wantErr(t, h.Shutdown(t.Context()), nil)
			})
		})
	}
}

// TestStatsOrdinaryEventsAreQuiet has what is normal below info level: a task without publishing, a second Poststart.
func TestStatsOrdinaryEventsAreQuiet(t *testing.T) {
	for _, test := range []struct {
		name    string
		publish bool
		level   hclog.Level
		text    string
	}{
		{"publishing off", false, hclog.Trace, "collects no stats: publishing is off"},
		{"a second Poststart", true, hclog.Debug, "end the stats stream of an earlier poststart"},
	} {
		benchTest(t, test.publish, []opening{{stream: samples(1000)}}, func(t *testing.T, b *bench) {
			b.poststart()
			if test.publish {
				b.poststart()
			}
			if lines := b.log.lines; len(lines) != 1 || lines[0].level != test.level || lines[0].text != test.text {
				t.Errorf("%s: logged %v, want %q at %s", test.name, lines, test.text, test.level)
			}
			b.exited()
		})
	}
}
