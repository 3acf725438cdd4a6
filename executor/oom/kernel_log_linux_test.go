// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestReader goes through this machine's log twice: the second time there is hardly anything left.
func TestReader(t *testing.T) {
	r, err := OpenLog()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the kernel's log cannot be read here: %v", err)
	}
	must(t, err)
	defer func() { testkit.NoError(t, r.Close()) }()
	began := time.Now()
	first := testkit.Value(r.Next())(t)
	t.Logf("%d kills in the log, read in %s", len(first), time.Since(began))
	var last time.Duration
	for _, kill := range first {
		if kill.Time < last {
			t.Errorf("the kill at %s comes after that at %s", kill.Time, last)
		}
		last = kill.Time
	}
	testkit.NoError(t, r.Wait(time.Millisecond))
	again := testkit.Value(r.Next())(t)
	for _, kill := range again {
		if kill.Time <= last {
			t.Errorf("the kill at %s was read twice", kill.Time)
		}
	}
}
