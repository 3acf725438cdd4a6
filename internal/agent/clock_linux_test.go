// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// clocks are those of a machine whose wall clock is set, and whose time passes faster than that of the test.
type clocks struct {
	mu       sync.Mutex // guards following
	wall, up time.Duration
	boot     string
}

func (c *clocks) now() hook.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return hook.Instant{Wall: time.Now().Add(c.wall).Round(0), Boot: c.boot, Up: kernel.SinceBoot() + c.up}
}

// set sets the wall clock.
func (c *clocks) set(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}

// pass lets time pass.
func (c *clocks) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.up = c.wall+d, c.up+d
}

// timed is a bench with a clock of its own.
type timed struct {
	bench
	clocks
	kill func()
}

const (
	restartDelay = 3 * time.Second
	replaceDelay = 5 * time.Second
)

// afterSteps runs a test for each step of the wall clock and each kill. A step is undone by the next.
func afterSteps(t *testing.T, test func(b *timed, step time.Duration, exact bool)) {
	t.Parallel()
	const hour = time.Hour
	for _, step := range []time.Duration{6 * hour, -6 * hour, -24 * hour, 13 * 365 * 24 * hour} {
		for _, kill := range []string{"nothing", "agent", "machine"} {
			t.Run(step.String()+" "+kill, func(t *testing.T) {
				t.Parallel()
				b := &timed{clocks: clocks{boot: "first"}}
				b.config = testConfig(shortDir(t))
				agent := func() *running {
					a := newAgent(t, b.config)
					a.host.Clock = b.now
					return run(t, a)
				}
				b.running = agent()
				defer func() { b.end(true) }()
				b.kill = func() {
					if kill == "nothing" {
						return
					}
					b.end(false)
					if kill == "machine" {
						b.boot, b.up = b.boot+"+", time.Minute-kernel.SinceBoot()
					}
					b.running = agent()
				}
				test(b, step, kill != "machine")
			})
		}
	}
}

// comes holds that something comes no more than its delay too late, and no earlier than its delay if it is exact.
func (b *timed) comes(what string, delay time.Duration, exact bool, is func() bool) {
	b.t.Helper()
	began := time.Now()
	b.eventually(what, is)
	// It began a moment ago. The machine may be busy: a step that counts shifts by hours.
	if took := time.Since(began); exact && took < delay-2*time.Second {
		b.t.Errorf("%s came after %s of %s", what, took, delay)
	}
}

// TestClockIsSet sets the wall clock while a restart, a replacement, the attempts of a day and the removal of what has
// ended are awaited.
func TestClockIsSet(t *testing.T) {
	afterSteps(t, func(b *timed, step time.Duration, exact bool) {
		text := strings.Replace(worker("batch", 1, 1), "50ms", fmt.Sprint(restartDelay), 1)
		first := b.submit(text)[0]
		for starts, id := 1, first.ID; starts < 4; starts++ {
			b.await(id, "running", isRunning)
			b.fail(id)
			var last *allocation.Allocation
			waits := func(l *allocation.Allocation) bool {
				last = l
				return !l.Tasks["t"].State.RestartAt.IsZero() || !l.Rescheduled.IsZero()
			}
			b.await(id, "waiting for a restart or a replacement", waits)
			b.set(step)
			b.kill()
			step = -step
			if last.Rescheduled.IsZero() {
				b.comes("a restart", restartDelay, exact, func() bool {
					return isRunning(testkit.Value(b.Snapshot().Allocation(id))(b.t))
				})
			} else {
				b.comes("a replacement", replaceDelay, exact, func() bool {
					next := testkit.Value(b.Snapshot().Allocation(id))(b.t).Next
					id = map[bool]string{true: next, false: id}[next != ""]
					return next != ""
				})
			}
		}
		newest := b.Snapshot().Allocations[0]
		if used := len(b.findByID(newest.ID).Persisted().All()); exact && used != 1 {
			b.t.Errorf("%d attempts used to replace it", used)
		}
		b.await(newest.ID, "running", isRunning)
		b.fail(newest.ID)
		if exact { // its one restart and its one replacement of the day are used
			b.settled("dead")
		}
		must(b.t, b.StopJob("test", false, nil))
		b.settled("dead")
		b.collects(step, exact)
	})
}

// collects holds when ended allocations and an orphaned directory are removed.
func (b *timed) collects(step time.Duration, exact bool) {
	b.t.Helper()
	b.eventually("the ends", func() bool { return len(b.endedAllocs()) == len(b.list()) })
	must(b.t, os.Mkdir(filepath.Join(b.host.Dir, allocation.NewID()), 0o755))
	left := func() int { return len(testkit.Value(os.ReadDir(b.host.Dir))(b.t)) }
	all := left()
	collect := func() {
		if _, err := b.removeGarbage(false); err != nil {
			b.t.Error(err)
		}
	}
	collect()
	age := b.config.Client.GCAge
	for range 2 {
		b.pass(age/2 - time.Hour)
		b.set(step)
		step = -step
		b.kill()
		collect()
		if exact {
			testkit.Equal(b.t, left(), all, "directories before their time")
		}
	}
	b.pass(3 * time.Hour)
	if !exact { // a boot asks the wall clock, which may say that no time has passed
		b.pass(age)
	}
	b.eventually("the ends", func() bool { collect(); return left() == 0 })
}
