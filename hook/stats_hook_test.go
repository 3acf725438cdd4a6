// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/testkit"
)

// bench is a stats hook between a scripted driver and a counter. Each test runs in a bubble of fake time, which also
// fails when a goroutine is left at its end.
type bench struct {
	t      *testing.T
	driver *statsDriver
	seen   *updates
	log    *journal
	*hook.StatsHook
}

func benchTest(t *testing.T, publish bool, script []opening, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, driver: &statsDriver{script: script}, seen: &updates{}, log: &journal{}}
		b.StatsHook = hook.NewStatsHook(hook.StatsConfig{Publish: publish, Updater: b.seen, Logger: b.log.logger()})
		test(t, b)
	})
}

func (b *bench) poststart() {
	b.t.Helper()
	if err := b.Poststart(b.t.Context(), &hook.PoststartRequest{Stats: b.driver}); err != nil {
		b.t.Fatalf("Poststart: %v", err)
	}
}

func (b *bench) setPublish(on bool) {
	b.t.Helper()
	if err := b.SetPublish(b.t.Context(), on); err != nil {
		b.t.Errorf("SetPublish(%v): %v", on, err)
	}
}

// exited ends the task and checks that nothing took time and no stream is left.
func (b *bench) exited() {
	b.t.Helper()
	before := time.Now()
	if err := b.Exited(b.t.Context(), &hook.ExitedRequest{}); err != nil {
		b.t.Fatalf("Exited: %v", err)
	}
	if took := time.Since(before); took != 0 {
		b.t.Errorf("Exited took %v, want it at once", took)
	}
	synctest.Wait()
	testkit.Equal(b.t, b.driver.openNow(), 0, "open streams after Exited")
	seen := b.seen.count()
	after(time.Hour)
	if n := b.seen.count(); n != seen {
		b.t.Errorf("%d samples came after Exited", n-seen)
	}
	if err := b.Err(); b.driver.script != nil && !errors.Is(err, hook.ErrNotRunning) && !errors.Is(err, hook.ErrNotPublished) {
		b.t.Errorf("Err after Exited = %v", err)
	}
}

func (b *bench) wantWaits(want ...time.Duration) {
	b.t.Helper()
	same(b.t, "times between openings", want, b.driver.waits())
}

func (b *bench) wantOpenings(want int) {
	b.t.Helper()
	if n := len(b.driver.openings()); n != want {
		b.t.Errorf("%d openings, want %d", n, want)
	}
}

func (b *bench) wantErrors(want int) {
	b.t.Helper()
	if _, got := b.log.counts(); got != want {
		b.t.Errorf("%d errors in the log, want %d", got, want)
	}
}

// after lets fake time pass until everything due at its end has happened.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestStatsFlow(t *testing.T) {
	benchTest(t, true, []opening{{stream: samples(100)}}, func(t *testing.T, b *bench) {
		wantErr(t, b.Err(), hook.ErrNotRunning)
		b.poststart()
		after(10 * time.Second)
		if got := b.seen.count(); got != 11 {
			t.Errorf("%d samples in 10 s, want 11: the first at once", got)
		}
		wantErr(t, b.Err(), nil)
		b.exited()
		b.wantWaits()
		b.wantErrors(0)
	})
}

func TestStatsClosedStreamIsOpenedAfterOneInterval(t *testing.T) {
	script := []opening{{stream: samples(3, endOfStream)}, {stream: samples(1, endOfStream)}, {stream: samples(1)}}
	benchTest(t, true, script, func(t *testing.T, b *bench) {
		b.poststart()
		after(2 * time.Second)
		wantErr(t, b.Err(), io.EOF)
		after(3 * time.Second)
		b.wantWaits(3*time.Second, time.Second)
		b.wantErrors(0)
		b.exited()
	})
}

func TestStatsDriverThatClosesAtOnceMakesNoHotLoop(t *testing.T) {
	benchTest(t, true, []opening{{stream: []message{endOfStream}}}, func(t *testing.T, b *bench) {
		b.poststart()
		after(59*time.Second + time.Second/2)
		b.wantOpenings(60)
		b.wantErrors(0)
		b.exited()
	})
	synctest.Test(t, func(t *testing.T) {
		driver := &statsDriver{script: []opening{{stream: []message{endOfStream}}}}
		h := hook.NewStatsHook(hook.StatsConfig{Publish: true, Interval: time.Nanosecond, Updater: &updates{}})
		_ = h.Poststart(t.Context(), &hook.PoststartRequest{Stats: driver})
		after(time.Second)
		if n := len(driver.openings()); n > 11 {
			t.Errorf("%d openings in a second of an absurd interval, want at most 11", n)
		}
		wantErr(t, h.Shutdown(t.Context()), nil)
	})
}

func TestStatsBackoff(t *testing.T) {
	cases := map[string][]opening{
		"opening fails":    {{err: errBroken}},
		"first Recv fails": {{stream: []message{{err: errBroken}}}},
		"recoverable":      {{err: flaw(true)}},
		"plugin restarts":  {{err: hook.ErrPluginRestarting}},
	}
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			benchTest(t, true, script, func(t *testing.T, b *bench) {
				b.poststart()
				after(time.Minute)
				wantBackoff(t, b.driver.waits(), 1, 2, 4, 5, 5, 5, 5)
				if err := b.Err(); err == nil {
					t.Error("Err of a failing stream is nil")
				}
				b.exited()
			})
		})
	}
}

// wantBackoff checks the first waits: at most the seconds given, at most a quarter shorter, and not all the same part.
func wantBackoff(t *testing.T, waits []time.Duration, seconds ...int) {
	t.Helper()
	if len(waits) < len(seconds) {
		t.Fatalf("%d waits, want at least %d: %v", len(waits), len(seconds), waits)
	}
	parts := make(map[string]bool)
	for i, s := range seconds {
		most := time.Duration(s) * time.Second
		if waits[i] > most || waits[i] < most-most/4 {
			t.Errorf("wait %d = %v, want within a quarter below %v", i, waits[i], most)
		}
		parts[fmt.Sprintf("%.6f", float64(waits[i])/float64(most))] = true
	}
	if len(parts) == 1 {
		t.Errorf("waits have no jitter: %v", waits)
	}
}

func TestStatsBackoffBeginsAnewAfterASample(t *testing.T) {
	failing := opening{err: errBroken}
	script := []opening{failing, failing, failing, {stream: samples(1, endOfStream)}, failing, failing, {stream: samples(1)}}
	benchTest(t, true, script, func(t *testing.T, b *bench) {
		b.poststart()
		after(time.Minute)
		waits := b.driver.waits()
		wantBackoff(t, waits, 1, 2, 4)
		if waits[3] != time.Second {
			t.Errorf("wait after the closed stream = %v, want one interval", waits[3])
		}
		wantBackoff(t, waits[4:], 1, 2)
		b.exited()
	})
}

func TestStatsBackoffIsEndedAtOnce(t *testing.T) {
	for name, end := range map[string]func(b *bench){
		"Exited":         (*bench).exited, // checks that it takes no time, and waits an hour
		"publishing off": func(b *bench) { b.setPublish(false); after(time.Hour) },
	} {
		benchTest(t, true, []opening{{err: errBroken}}, func(t *testing.T, b *bench) {
			b.poststart()
			after(20 * time.Second)
			n := len(b.driver.openings())
			end(b)
			if got := len(b.driver.openings()); got != n {
				t.Errorf("%d openings after %s", got-n, name)
			}
			b.exited()
		})
	}
}

func TestStatsEndsQuietly(t *testing.T) {
	cases := map[string]struct {
		script []opening
		want   error
	}{
		"not implemented":               {[]opening{{err: fmt.Errorf("driver: %w", hook.ErrStatsNotImplemented)}}, hook.ErrStatsNotImplemented},
		"not implemented at first Recv": {[]opening{{stream: []message{{err: hook.ErrStatsNotImplemented}}}}, hook.ErrStatsNotImplemented},
		"unrecoverable":                 {[]opening{{err: fmt.Errorf("driver: %w", flaw(false))}}, flaw(false)},
		"unrecoverable later":           {[]opening{{stream: samples(1, message{err: flaw(false)})}}, flaw(false)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			benchTest(t, true, c.script, func(t *testing.T, b *bench) {
				b.poststart()
				after(time.Hour)
				b.wantOpenings(1)
				wantErr(t, b.Err(), c.want)
				if debugs, errors := b.log.counts(); debugs != 1 || errors != 0 {
					t.Errorf("log has %d debug lines and %d errors, want 1 and 0", debugs, errors)
				}
				b.exited()
			})
		})
	}
}

func TestStatsDriverWithoutStats(t *testing.T) {
	benchTest(t, true, nil, func(t *testing.T, b *bench) {
		b.exited() // without a Poststart
		testkit.Must(t, b.Poststart(t.Context(), &hook.PoststartRequest{}))
		wantErr(t, b.Err(), hook.ErrStatsNotImplemented)
		b.exited()
	})
}

func TestStatsErrorsAreLoggedOncePerKind(t *testing.T) {
	broken := opening{stream: samples(1, message{err: errBroken})}
	cases := map[string]struct {
		script []opening
		want   int
	}{
		"restarting plugin is debug": {[]opening{{err: fmt.Errorf("open: %w", hook.ErrPluginRestarting)}}, 0},
		"broken by restart is debug": {[]opening{{stream: samples(1, message{err: hook.ErrPluginRestarting})}}, 0},
		"one kind":                   {[]opening{{err: errBroken}}, 1},
		"texts differ, kind does not": {
			[]opening{{err: errors.New("try 1")}, {err: errors.New("try 2")}, {err: errors.New("try 3")}}, 1,
		},
		"flapping":            {[]opening{broken}, 1},
		"two kinds":           {[]opening{{err: errBroken}, {err: flaw(true)}, {err: errBroken}, {err: flaw(true)}}, 2},
		"opening and broken":  {[]opening{{err: errBroken}, broken, {err: errBroken}, broken}, 2},
		"stalled and opening": {[]opening{{stream: samples(1)}, {err: errBroken}, {stream: samples(1)}}, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			benchTest(t, true, c.script, func(t *testing.T, b *bench) {
				b.poststart()
				after(5 * time.Minute)
				b.wantErrors(c.want)
				if debugs, _ := b.log.counts(); debugs < 10 {
					t.Errorf("%d debug lines, want one per further try", debugs)
				}
				b.exited()
			})
		})
	}
}

func TestStatsErrorIsToldAgainAfterALongGoodTime(t *testing.T) {
	broken := message{err: errBroken}
	script := []opening{{stream: samples(3, broken)}, {stream: samples(3, broken)}, {stream: samples(601, broken)}, {stream: samples(1000)}}
	benchTest(t, true, script, func(t *testing.T, b *bench) {
		b.poststart()
		after(15 * time.Minute)
		b.wantErrors(2)
		b.exited()
	})
}

func TestStatsSilentStream(t *testing.T) {
	cases := map[string]struct {
		script []opening
		want   time.Duration // between the first two openings
		backed bool          // the wait after the silence is a backoff of 1 s
	}{
		"after samples":       {[]opening{{stream: samples(3)}, {stream: samples(1000)}}, 2*time.Second + 10*time.Second + time.Second, false},
		"before the first":    {[]opening{{}, {stream: samples(1000)}}, 10*time.Second + time.Second, true},
		"in the opening":      {[]opening{{hang: true}, {stream: samples(1000)}}, 10*time.Second + time.Second, true},
		"late is not silent":  {[]opening{{stream: []message{{}, {after: 9 * time.Second}, endOfStream}}, {stream: samples(1000)}}, 10 * time.Second, false},
		"stretched":           {[]opening{{paced: 30 * time.Second, stream: []message{{}, {after: 28 * time.Second}, endOfStream}}, {stream: samples(1000)}}, 29 * time.Second, false},
		"not so far":          {[]opening{{paced: 3 * time.Second, stream: []message{{}, {after: time.Hour}}}, {stream: samples(1000)}}, 16 * time.Second, false},
		"too late is silence": {[]opening{{stream: []message{{}, {after: 11 * time.Second}, endOfStream}}, {stream: samples(1000)}}, 11 * time.Second, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			benchTest(t, true, c.script, func(t *testing.T, b *bench) {
				b.poststart()
				after(time.Minute)
				waits := b.driver.waits()
				if len(waits) != 1 {
					t.Fatalf("%d streams opened again, want 1: %v", len(waits), waits)
				}
				slack := time.Duration(0)
				if c.backed {
					slack = time.Second / 4
				}
				if waits[0] > c.want || waits[0] < c.want-slack {
					t.Errorf("opened again after %v, want %v", waits[0], c.want)
				}
				if b.driver.openNow() != 1 {
					t.Errorf("%d streams are open, want 1: the silent one is ended", b.driver.openNow())
				}
				b.exited()
			})
		})
	}
}

func TestStatsSilenceFollowsTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &statsDriver{script: []opening{{stream: samples(1)}}}
		h := hook.NewStatsHook(hook.StatsConfig{Publish: true, Interval: time.Minute, Updater: &updates{}})
		_ = h.Poststart(t.Context(), &hook.PoststartRequest{Stats: driver})
		after(7 * time.Minute)
		same(t, "opened again after five silent intervals and one more", []time.Duration{6 * time.Minute}, driver.waits())
		wantErr(t, h.Exited(t.Context(), nil), nil)
	})
}

func TestStatsSlowUpdaterIsNoSilence(t *testing.T) {
	benchTest(t, true, []opening{{stream: samples(1000)}}, func(t *testing.T, b *bench) {
		b.seen.each = func() { <-time.After(15 * time.Second) }
		b.poststart()
		after(2 * time.Minute)
		b.wantWaits()
		b.seen.mu.Lock()
		b.seen.each = nil
		b.seen.mu.Unlock()
		after(20 * time.Second)
		b.exited()
	})
}
