// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package eventlog_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/eventlog"
	"github.com/tachograph/tacho/internal/testkit"
)

func itself(n uint64) uint64 { return n }

func appendN(l *eventlog.Log[uint64], n int) {
	for range n {
		l.Append(itself)
	}
}

// drain reads what a follower can get without waiting.
func drain(t *testing.T, f *eventlog.Follower[uint64]) (all []uint64) {
	t.Helper()
	for {
		n, changed, err := f.Poll()
		testkit.Must(t, err)
		if changed != nil {
			return all
		}
		all = append(all, n)
	}
}

func TestFollowReadsTheNewest(t *testing.T) {
	const size, last = 3, 10
	for _, tt := range []struct {
		name  string
		count int
		after uint64
		want  []uint64
	}{
		{"empty", 0, 0, nil},
		{"empty, after the last one of before", 0, 10, nil},
		{"one", 1, 0, []uint64{11}},
		{"one, read before", 1, 11, nil},
		{"as many as it keeps", 3, 0, []uint64{11, 12, 13}},
		{"more than it keeps", 5, 0, []uint64{13, 14, 15}},
		{"missed some", 5, 10, []uint64{13, 14, 15}},
		{"missed none", 5, 12, []uint64{13, 14, 15}},
		{"the newest two", 5, 13, []uint64{14, 15}},
		{"nothing new", 5, 15, nil},
		{"ahead of the log", 5, 99, nil},
		{"around the ring and again", 11, 0, []uint64{19, 20, 21}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := eventlog.New[uint64](size, last)
			appendN(l, tt.count)
			if got := drain(t, l.Follow(tt.after)); !cmp.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			testkit.Equal(t, l.Last(), uint64(last+tt.count), "last")
		})
	}
}

// TestAheadOfTheLog holds that a follower with a number of the future gets events from then on, as one that the log
// of an earlier process numbered.
func TestAheadOfTheLog(t *testing.T) {
	l := eventlog.New[uint64](3, 0)
	f := l.Follow(2)
	appendN(l, 4)
	if got := drain(t, f); !cmp.Equal(got, []uint64{3, 4}) {
		t.Errorf("got %v, want 3 and 4", got)
	}
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventlog.New[uint64](3, 0)
		ctx, cancel := context.WithCancel(t.Context())
		got, ended := make(chan uint64, 2), make(chan error, 1)
		go func() {
			for f := l.Follow(0); ; {
				n, err := f.Next(ctx)
				if err != nil {
					ended <- err
					return
				}
				got <- n
			}
		}()
		synctest.Wait()
		appendN(l, 2)
		synctest.Wait()
		if a, b := <-got, <-got; a != 1 || b != 2 {
			t.Errorf("got %d, %d", a, b)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventlog.New[uint64](3, 0)
		behind, waiting := l.Follow(0), l.Follow(2)
		appendN(l, 2)
		ended := make(chan error, 1)
		go func() {
			_, err := waiting.Next(t.Context())
			ended <- err
		}()
		synctest.Wait()
		l.Close()
		l.Close()
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("a follower that waits: %v, want EOF", err)
		}
		if l.Append(itself) || l.Last() != 2 {
			t.Error("an event was added to a closed log")
		}
		for want := uint64(1); want <= 2; want++ {
			if n, err := behind.Next(t.Context()); n != want || err != nil {
				t.Errorf("event %d, %v, want %d", n, err, want)
			}
		}
		if _, err := behind.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("after the last event: %v, want EOF", err)
		}
	})
}

// TestConcurrent holds that each follower that is fast enough gets every event once and in order, with many writers.
func TestConcurrent(t *testing.T) {
	const writers, each = 4, 250
	l := eventlog.New[uint64](writers*each, 0)
	var writing, reading sync.WaitGroup
	for range 3 {
		reading.Go(func() {
			f := l.Follow(0)
			for want := uint64(1); ; want++ {
				n, err := f.Next(t.Context())
				if errors.Is(err, io.EOF) && want == writers*each+1 {
					return
				}
				if err != nil || n != want {
					t.Errorf("event %d, %v, want %d", n, err, want)
					return
				}
			}
		})
	}
	for range writers {
		writing.Go(func() { appendN(l, each) })
	}
	writing.Wait()
	l.Close()
	reading.Wait()
}
