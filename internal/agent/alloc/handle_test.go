// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
)

// TestBlame holds that what the driver calls worth another try, because the machine is short of something, is not the
// task's fault.
func TestBlame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		host bool
	}{
		"the machine lacks processes": {driver.Recoverable(errors.New("EAGAIN"), true), true},
		"state cannot be persisted":   {driver.Recoverable(errors.New("damaged"), true), true},
		"no descriptors":              {fmt.Errorf("open: %w", syscall.EMFILE), true},
		"no processes":                {fmt.Errorf("start executor: fork/exec: %w", syscall.EAGAIN), true},
		"no memory":                   {fmt.Errorf("start executor: fork/exec: %w", syscall.ENOMEM), true},
		"no such command":             {driver.Recoverable(errors.New("not found"), false), false},
		"a mistake":                   {errors.New("unknown user"), false},
	} {
		fault, ok := errors.AsType[hook.HostFault](blame(test.err))
		if host := ok && fault.HostFault(); host != test.host {
			t.Errorf("%s: the host's fault: %t, want %t", name, host, test.host)
		}
	}
}

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
