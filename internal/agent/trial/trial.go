// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package trial does work in a process of its own before the agent does it, because what the work reads may be so
// damaged or so costly that it ends the process, or never ends itself.
package trial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Limits of the process, beside the time that Run gives it.
const (
	MaxMemory = 256 << 20
	maxStack  = 64 << 20
	// abandoned ends a process whose agent is gone.
	abandoned = 5 * time.Minute
)

// marker is in the environment of the process, which starts none itself: an executable that does not call Main would
// otherwise start itself without end.
const marker = "TACHO_TRIAL"

// Command is the subcommand of tacho agent that calls Main, with the kind of work as its argument.
const Command = "trial"

// ErrFailed is returned for work that failed, crashed or took too much memory, ErrTime for work that did not end in
// time.
var (
	ErrFailed = errors.New("failed in a process of its own")
	ErrTime   = errors.New("did not end in time in a process of its own")
)

// Work reads its input.
type Work func(stdin io.Reader) error

// Run does work of a kind in another process of this executable, for as long as a limit.
func Run(ctx context.Context, kind string, input []byte, limit time.Duration) error {
	if os.Getenv(marker) != "" {
		return errors.New("a trial starts no other trial")
	}
	self := "/proc/self/exe" // valid even after an upgrade has replaced the file
	if runtime.GOOS != "linux" {
		var err error
		if self, err = os.Executable(); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, self, "agent", Command, kind)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdin = bytes.NewReader(input)
	err := cmd.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ended && limited.Err() != nil:
		return ErrTime
	case ended && exit.Exited(): // a signal comes from elsewhere, such as the OOM killer, and says nothing of the input
		return ErrFailed
	}
	return err
}

// Main is the process that Run starts, for one kind of some works. It returns the exit status.
func Main(kind string, works map[string]Work, stdin io.Reader) int {
	debug.SetMaxStack(maxStack)
	go enforceLimits(time.Now())
	if work := works[kind]; work == nil || work(stdin) != nil {
		return 1
	}
	return 0
}

// enforceLimits ends this process once it has taken too much memory, or the agent is gone.
func enforceLimits(begun time.Time) {
	const interval = 5 * time.Millisecond
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for range time.NewTicker(interval).C {
		if metrics.Read(heap); heap[0].Value.Uint64() > MaxMemory || time.Since(begun) > abandoned {
			os.Exit(1)
		}
	}
}
