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
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Check evaluates a job file with its templates in a trial, because neither an expression nor a template can be stopped
// from outside. It returns an error only for a file that costs too much: Read reports all other mistakes.
func Check(ctx context.Context, source Source) error { return check(ctx, source, 5*time.Second) }

func check(ctx context.Context, source Source, limit time.Duration) error {
	if len(source.Text) > MaxSource {
		return nil // Read rejects it
	}
	input, err := json.Marshal(source)
	if err != nil {
		return fmt.Errorf("check job file: %w", err)
	}
	err = runTrial(ctx, input, limit)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTrialFailed), errors.Is(err, errTrialTime):
		return Mistakes(tooLarge(startOf(source.Filename), fmt.Sprintf("its evaluation takes more than %s or %d MiB; "+
			"let the task compute large values, or write fewer and shorter loops", limit, maxTrialMemory>>20)))
	}
	return fmt.Errorf("check job file: %w", err)
}

// evaluate evaluates a source and its templates. Mistakes are not an error.
func evaluate(stdin io.Reader) error {
	var source Source
	if err := json.NewDecoder(stdin).Decode(&source); err != nil {
		return err
	}
	file, err := Read(source)
	if err != nil {
		return nil //nolint:nilerr // the agent reports it
	}
	for _, g := range file.Groups {
		for _, t := range g.Tasks {
			for _, x := range t.Templates {
				_, _ = x.Expand(t.Env) // the agent reports the error
			}
		}
	}
	return nil
}

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
	var memory runtime.MemStats
	for range time.Tick(interval) {
		if runtime.ReadMemStats(&memory); memory.HeapAlloc > maxTrialMemory || time.Since(begun) > abandoned {
			os.Exit(1)
		}
	}
}

// Limits on the text of a job file. Evaluation in a trial bounds everything else, see Check.
const (
	// MaxSource bounds the text of a job file in bytes.
	MaxSource = 1 << 20
	// maxNesting bounds brackets and strings within each other: encoding/json reads the stored job, and stops at 10,000.
	maxNesting = 100
)

// checkText reports what is too large in a text for the parser.
func checkText(text []byte, filename string) hcl.Diagnostics {
	if len(text) > MaxSource {
		detail := fmt.Sprintf("%d bytes; a job file can have %d: let tasks read large data from files", len(text), MaxSource)
		return tooLarge(startOf(filename), detail)
	}
	depth := 0
	tokens, _ := hclsyntax.LexConfig(text, filename, hcl.InitialPos) // the parser reports what is wrong
	for _, t := range tokens {
		switch t.Type { //nolint:exhaustive // only what opens or closes something
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			depth = max(0, depth-1)
		}
		if depth > maxNesting {
			return tooLarge(t.Range, fmt.Sprintf(
				"brackets nested more than %d deep; give parts of the value names in a locals block", maxNesting))
		}
	}
	return nil
}

func tooLarge(at hcl.Range, detail string) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Too large", Detail: detail, Subject: &at}}
}

// startOf is the place of what is wrong with a file as a whole.
func startOf(filename string) hcl.Range {
	return hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
}
