// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
)

// TestDriverErrors holds what the runner and the stats hook make of the driver's errors.
func TestDriverErrors(t *testing.T) {
	t.Parallel()
	plain := errors.New("it broke")
	for name, test := range map[string]struct {
		err   error
		is    error
		final bool // another attempt cannot help
	}{
		"unknown task":      {driver.ErrTaskNotFound, driver.ErrTaskNotFound, true},
		"unrecoverable":     {fmt.Errorf("task 1: %w", driver.Recoverable(plain, false)), plain, true},
		"recoverable":       {driver.Recoverable(plain, true), plain, false},
		"executor is away":  {driver.ErrUnavailable, hook.ErrPluginRestarting, false},
		"task has ended":    {driver.ErrTaskNotRunning, hook.ErrNotRunning, false},
		"end of the stream": {io.EOF, io.EOF, false},
		"anything else":     {plain, plain, false},
	} {
		got := forRunner(test.err)
		known, ok := errors.AsType[hook.Recoverable](got)
		if final := ok && !known.Recoverable(); !errors.Is(got, test.is) || final != test.final {
			t.Errorf("%s: %v (final: %t), want %v (%t)", name, got, final, test.is, test.final)
		}
	}
}
