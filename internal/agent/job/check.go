// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Limits of the process that evaluates a job file before this one does.
const (
	maxEvaluation = 5 * time.Second
	maxMemory     = 256 << 20
	maxStack      = 64 << 20
)

// CheckCommand names the subcommand that calls CheckMain.
const CheckCommand = "check-job"

// Check evaluates a job file with its templates in a process of its own, because neither an expression nor a template
// can be stopped from outside. It returns an error only for a file that costs too much: Read reports all other mistakes.
func Check(ctx context.Context, source Source) error {
	if len(source.Text) > MaxSource {
		return nil // Read rejects it
	}
	input, err := json.Marshal(source)
	if err != nil {
		return fmt.Errorf("check job file: %w", err)
	}
	self := "/proc/self/exe" // valid even after an upgrade has replaced the file
	if runtime.GOOS != "linux" {
		if self, err = os.Executable(); err != nil {
			return fmt.Errorf("check job file: %w", err)
		}
	}
	limited, cancel := context.WithTimeout(ctx, maxEvaluation)
	defer cancel()
	cmd := exec.CommandContext(limited, self, "agent", CheckCommand)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin = bytes.NewReader(input)
	err = cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		return Mistakes(tooLarge(startOf(source.Filename), fmt.Sprintf("its evaluation takes more than %s or %d MiB; "+
			"let the task compute large values, or write fewer and shorter loops", maxEvaluation, maxMemory>>20)))
	}
	if err != nil {
		return fmt.Errorf("check job file: %w", err)
	}
	return nil
}

// CheckMain is the process that Check starts. Its exit status is 0 if the source on its input can be evaluated within
// the limits, with or without mistakes.
func CheckMain(stdin io.Reader) int {
	debug.SetMaxStack(maxStack)
	go enforceLimits(time.Now())
	var source Source
	if err := json.NewDecoder(stdin).Decode(&source); err != nil {
		return 1
	}
	file, err := Read(source)
	if err != nil {
		return 0
	}
	for _, g := range file.Job.Groups {
		for _, t := range g.Tasks {
			for _, x := range t.Templates {
				_, _ = x.Expand(t.Env) // the agent reports the error
			}
		}
	}
	return 0
}

// enforceLimits ends this process once it has taken too much memory, or too long because the agent is gone.
func enforceLimits(begun time.Time) {
	const interval = 5 * time.Millisecond
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for range time.NewTicker(interval).C {
		if metrics.Read(heap); heap[0].Value.Uint64() > maxMemory || time.Since(begun) > maxEvaluation {
			os.Exit(1)
		}
	}
}
