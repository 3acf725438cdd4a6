// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/driver"
)

// script is a stream that says some numbers and ends with an error.
type script struct {
	numbers []int
	err     error
}

func (s *script) Recv() (int, error) {
	if len(s.numbers) == 0 {
		return 0, s.err
	}
	n := s.numbers[0]
	s.numbers = s.numbers[1:]
	return n, nil
}

// TestFollow holds when a stream that ended is opened again.
func TestFollow(t *testing.T) {
	failed := errors.New("failed")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		streams := []*script{
			{[]int{1, 2}, io.EOF}, // asks what was handled
			{nil, io.EOF},         // ends at once: not to be asked all the time
			{[]int{3}, failed},
			{[]int{4}, driver.ErrNotSupported},
		}
		began := time.Now()
		var opened []time.Duration
		var got []int
		var broken []error
		follow(ctx, func() (driver.Stream[int], error) {
			opened = append(opened, time.Since(began))
			if len(streams) == 0 {
				cancel()
				return nil, failed
			}
			next := streams[0]
			streams = streams[1:]
			return next, nil
		}, func(n int) { got = append(got, n) }, func(err error) { broken = append(broken, err) })
		if d := cmp.Diff([]time.Duration{0, 0, time.Second, 2 * time.Second}, opened); d != "" {
			t.Errorf("opened (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]int{1, 2, 3, 4}, got); d != "" {
			t.Errorf("got (-want +got):\n%s", d)
		}
		if len(broken) != 1 || !errors.Is(broken[0], failed) {
			t.Errorf("broken %v", broken)
		}
	})
}
