// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package feed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/agent/allocation"
)

func publish(f *Feed, n int) {
	for range n {
		f.Publish(Event{Topic: TopicJob})
	}
}

func indexes(events []Event) (all []uint64) {
	for _, e := range events {
		all = append(all, e.Index)
	}
	return all
}

func TestAfterKeepsTheNewest(t *testing.T) {
	f := New(3, 10)
	if events, lost, _ := f.After(0); len(events) != 0 || lost != 10 {
		t.Errorf("an empty feed has %v, lost %d", events, lost)
	}
	publish(f, 5)
	tests := []struct {
		after uint64
		want  []uint64
		lost  uint64
	}{
		{10, []uint64{13, 14, 15}, 2}, {12, []uint64{13, 14, 15}, 0}, {13, []uint64{14, 15}, 0}, {15, nil, 0}, {99, nil, 0},
	}
	for _, tt := range tests {
		events, lost, _ := f.After(tt.after)
		if diff := cmp.Diff(tt.want, indexes(events)); diff != "" || lost != tt.lost {
			t.Errorf("after %d: lost %d, want %d; %s", tt.after, lost, tt.lost, diff)
		}
	}
}

func TestSubscriptionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(3, 0)
		ctx, cancel := context.WithCancel(t.Context())
		s := f.Subscribe(0)
		got := make(chan uint64, 10)
		ended := make(chan error, 1)
		go func() {
			for {
				e, err := s.Next(ctx)
				if err != nil {
					ended <- err
					return
				}
				got <- e.Index
			}
		}()
		synctest.Wait()
		publish(f, 2)
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

func TestSlowReaderLosesTheOldest(t *testing.T) {
	f := New(3, 0)
	s := f.Subscribe(0)
	publish(f, 10)
	e, err := s.Next(t.Context())
	if err != nil || e.Index != 8 {
		t.Errorf("event %d, error %v", e.Index, err)
	}
}

func TestPublishNumbersSnapshots(t *testing.T) {
	f := New(3, 6)
	first, second := &allocation.Allocation{}, &allocation.Allocation{CreateIndex: 7}
	f.Publish(Event{Allocation: first})
	f.Publish(Event{Allocation: second})
	if first.CreateIndex != 7 || first.ModifyIndex != 7 || second.CreateIndex != 7 || second.ModifyIndex != 8 {
		t.Errorf("indexes %+v, %+v", first, second)
	}
}
