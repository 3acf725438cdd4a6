// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package node

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadMount has a file system that does not answer for a while, as one does whose server is gone.
func TestDeadMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var asked atomic.Int64
		m := &Meter{askDisks: func(context.Context, string) diskUse {
			n := asked.Add(1)
			if n == 1 {
				<-answer
			}
			return diskUse{data: &Disk{Size: uint64(n)}}
		}}
		read := func() *Stats {
			time.Sleep(2 * freshness) //nolint:forbidigo // in a bubble of synctest
			return m.Read(t.Context(), "/", Resources{})
		}
		for i, longest := range []time.Duration{patience, 0, 0} {
			began := time.Now().Add(2 * freshness)
			s := read()
			if took := time.Since(began); took > longest {
				t.Errorf("reading %d took %s", i, took)
			}
			if s.DataDisk != nil || s.Reasons["disk"] == "" || !s.Time.Equal(began) {
				t.Errorf("reading %d at %v: %+v", i, began, s)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		close(answer)
		synctest.Wait()
		if s := read(); s.DataDisk == nil || s.DataDisk.Size != 2 || s.Reasons["disk"] != "" {
			t.Errorf("then %+v: what was read before is old", s)
		}
	})
}

func TestMeterReads(t *testing.T) {
	var m Meter
	s := m.Read(t.Context(), t.TempDir(), Resources{})
	if s.DataDisk == nil && s.Reasons["disk"] == "" || s.Memory.Total == 0 && s.Reasons["memory"] == "" || s.Reasons["cpu"] == "" {
		t.Errorf("%+v", s)
	}
	if again := m.Read(t.Context(), t.TempDir(), Resources{}); again != s {
		t.Error("read twice within a second")
	}
}
