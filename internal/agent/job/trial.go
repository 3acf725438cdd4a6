// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"time"
)

// Limits of the process of a trial, beside the time that runTrial gives it.
const (
	maxTrialMemory = 256 << 20
	maxStack       = 64 << 20
	// abandoned ends a process whose agent is gone.
	abandoned = 5 * time.Minute
)

// trialMarker is in the environment of the process, which starts none itself: an executable that does not call
// TrialMain would otherwise start itself without end.
const trialMarker = "TACHO_TRIAL"

// TrialCommand is the subcommand of tacho agent that calls TrialMain.
const TrialCommand = "trial"

// errTrialFailed is returned for an evaluation that failed, crashed or took too much memory, errTrialTime for one that
// did not end in time.
var (
	errTrialFailed = errors.New("failed in a process of its own")
	errTrialTime   = errors.New("did not end in time in a process of its own")
)

// runTrial evaluates the input in another process of this executable, for as long as a limit, before the agent does it:
// it may be so costly that it ends the process, or never ends itself.
func runTrial(ctx context.Context, input []byte, limit time.Duration) error {
	if os.Getenv(trialMarker) != "" {
		return errors.New("a trial starts no other trial")
	}
	const self = "/proc/self/exe" // valid even after an upgrade has replaced the file
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, self, "agent", TrialCommand)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), trialMarker+"=1")
	cmd.Stdin = bytes.NewReader(input)
	var crash bytes.Buffer
	cmd.Stderr = &crash
	err := cmd.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ended && limited.Err() != nil:
		return errTrialTime
	case ended && strings.Contains(crash.String(), "failed to create new OS thread"):
		return fmt.Errorf("create a thread for its evaluation: %w", syscall.EAGAIN)
	case ended && exit.Exited(): // a signal comes from elsewhere, such as the OOM killer, and says nothing of the input
		return errTrialFailed
	}
	return err
}

// TrialMain is the process that runTrial starts. It returns the exit status.
func TrialMain(stdin io.Reader) int {
	debug.SetMaxStack(maxStack)
	_ = os.WriteFile("/proc/self/comm", []byte("tacho"), 0) // instead of exe, where there is such a file
	go enforceLimits(time.Now())
	if evaluate(stdin) != nil {
		return 1
	}
	return 0
}

// enforceLimits ends this process once it has taken too much memory, or the agent is gone.
func enforceLimits(begun time.Time) {
	const interval = 5 * time.Millisecond
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for range time.Tick(interval) {
		if metrics.Read(heap); heap[0].Value.Uint64() > maxTrialMemory || time.Since(begun) > abandoned {
			os.Exit(1)
		}
	}
}
