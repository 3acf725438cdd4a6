// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package snapshot

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
)

func TestPublish(t *testing.T) {
	f := NewFeed(3, 6)
	first, second := &allocation.Allocation{}, &allocation.Allocation{CreateIndex: 7}
	if index := f.Publish(Event{Topic: TopicAllocation, Allocation: first}); index != 7 || f.Index() != 7 {
		t.Errorf("index %d, %d, want 7", index, f.Index())
	}
	at := time.Now().Add(-time.Hour)
	f.Publish(Event{Time: at, Allocation: second})
	if first.CreateIndex != 7 || first.ModifyIndex != 7 || second.CreateIndex != 7 || second.ModifyIndex != 8 {
		t.Errorf("indexes %+v, %+v", first, second)
	}
	s := f.Subscribe(6)
	if e, err := s.Next(t.Context()); err != nil || e.Index != 7 || e.Topic != TopicAllocation || e.Time.IsZero() {
		t.Errorf("first event %+v, %v", e, err)
	}
	if e, err := s.Next(t.Context()); err != nil || e.Index != 8 || !e.Time.Equal(at) {
		t.Errorf("second event %+v, %v", e, err)
	}
}
