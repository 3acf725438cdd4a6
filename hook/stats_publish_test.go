// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestStatsSecondPoststartEndsTheFirstStream(t *testing.T) {
	benchTest(t, true, []opening{{stream: samples(1000)}}, func(t *testing.T, b *bench) {
		for range 5 {
			b.poststart()
		}
		after(3 * time.Second)
		b.poststart()
		after(3 * time.Second)
		if b.driver.openNow() != 1 || b.driver.most != 1 {
			t.Errorf("%d streams open now, %d at once at most, want 1 and 1", b.driver.openNow(), b.driver.most)
		}
		b.exited()
	})
}

func TestStatsPublishOffOpensNothing(t *testing.T) {
	benchTest(t, false, []opening{{stream: samples(1000)}}, func(t *testing.T, b *bench) {
		b.poststart()
		after(time.Hour)
		b.wantOpenings(0)
		wantErr(t, b.Err(), hook.ErrNotPublished)
		b.exited()
	})
}

func TestStatsPublishIsTurnedWhileRunning(t *testing.T) {
	benchTest(t, false, []opening{{stream: samples(10000)}}, func(t *testing.T, b *bench) {
		b.poststart()
		b.setPublish(true)
		b.setPublish(true)
		synctest.Wait()
		if b.driver.openNow() != 1 || b.seen.count() != 1 {
			t.Errorf("turned on: %d streams, %d samples, want 1 and 1", b.driver.openNow(), b.seen.count())
		}
		after(5*time.Second + time.Millisecond)
		b.setPublish(false)
		seen := b.seen.count()
		after(time.Hour)
		if b.driver.openNow() != 0 || b.seen.count() != seen {
			t.Errorf("turned off: %d streams, %d more samples", b.driver.openNow(), b.seen.count()-seen)
		}
		for range 10 {
			b.setPublish(true)
			b.setPublish(false)
		}
		b.setPublish(true)
		after(time.Second)
		if b.driver.openNow() != 1 || b.driver.most != 1 {
			t.Errorf("toggled: %d streams, %d at once at most, want 1 and 1", b.driver.openNow(), b.driver.most)
		}
		b.exited()
		b.setPublish(false)
		b.setPublish(true)
		after(time.Minute)
		if b.driver.openNow() != 0 {
			t.Error("turning on opened a stream of an ended task")
		}
	})
}

func TestStatsShutdownIsForGood(t *testing.T) {
	benchTest(t, true, []opening{{stream: samples(1000)}}, func(t *testing.T, b *bench) {
		b.poststart()
		after(time.Second)
		for range 2 {
			if err := b.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		}
		b.poststart()
		b.setPublish(false)
		b.setPublish(true)
		after(time.Minute)
		b.wantOpenings(1)
		b.exited()
	})
}

// What is not wanted any more when a hanging driver comes back is not opened.
func TestStatsDeafDriverAndNoTask(t *testing.T) {
	benchTest(t, true, []opening{{deaf: true}}, func(t *testing.T, b *bench) {
		b.poststart()
		after(time.Second)
		b.poststart()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := b.SetPublish(ctx, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("SetPublish(false) = %v, want the end of its ctx", err)
		}
		after(2 * time.Hour)
		b.wantOpenings(1)
		b.exited()
	})
}

// A sample that comes after its time is dropped, and says nothing about the stream that was opened meanwhile.
func TestStatsLateSample(t *testing.T) {
	script := []opening{{stream: []message{{after: time.Minute, deaf: true}}}, {}}
	benchTest(t, true, script, func(t *testing.T, b *bench) {
		b.poststart()
		after(time.Second)
		b.poststart()
		after(time.Minute)
		testkit.Equal(t, b.seen.count(), 0, "samples of a stream that was ended before")
		wantErr(t, b.Err(), hook.ErrStatsOpening)
		b.wantOpenings(2)
		b.exited()
	})
}

// The updater may ask for Err while another goroutine ends the collection and waits for the updater.
func TestStatsErrFromUpdater(t *testing.T) {
	benchTest(t, true, []opening{{stream: samples(1000)}}, func(t *testing.T, b *bench) {
		entered, gate := make(chan struct{}), make(chan struct{})
		b.seen.each = func() {
			if b.seen.count() == 1 {
				close(entered)
				<-gate
			}
			_ = b.Err()
		}
		b.poststart()
		<-entered
		off := make(chan struct{})
		go func() {
			b.setPublish(false)
			close(off)
		}()
		for !errors.Is(b.Err(), hook.ErrNotPublished) {
			runtime.Gosched()
		}
		select {
		case <-off:
			t.Error("SetPublish(false) returned while a sample was passed on")
		default:
		}
		close(gate)
		<-off
		testkit.Equal(t, b.seen.count(), 1, "samples")
		b.setPublish(true)
		after(time.Second)
		wantErr(t, b.Err(), nil)
		b.exited()
	})
}
