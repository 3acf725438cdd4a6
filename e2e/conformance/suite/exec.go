// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/driver"
)

func execCases() []Case {
	return []Case{
		{"exec", exec},
		{"exec gives the exit code", execExitCode},
		{"exec is ended in time", execTimeout},
		{"exec streams", execStreams},
		{"exec with a terminal", execTerminal},
		{"exec with an impossible terminal", execImpossible},
		{"exec is cancelled", execCancelled},
		{"exec of no command", execNothing},
	}
}

// sleeper starts a task to run commands in.
func sleeper(ctx context.Context, e *Env) *task {
	if !value(e.Capabilities(ctx)).GetExec() {
		must(skip("does not run commands in tasks"))
	}
	return e.run(ctx, "exec sleep 1000")
}

func exec(ctx context.Context, e *Env) error {
	t := sleeper(ctx, e)
	result := value(e.ExecTask(ctx, t.ID, []string{"/bin/sh", "-c", "echo out; echo err >&2; echo $" + markerName}, 20*time.Second))
	return errors.Join(
		expect("output, sorted", strings.Join(slices.Sorted(strings.Lines(string(result.Output))), ""),
			strings.Join(slices.Sorted(slices.Values([]string{"out\n", "err\n", e.marker + "\n"})), "")),
		expect("exit code", result.Exit.Code, 0),
	)
}

func execExitCode(ctx context.Context, e *Env) error {
	t := sleeper(ctx, e)
	result := value(e.ExecTask(ctx, t.ID, []string{"/bin/sh", "-c", "exit 9"}, 20*time.Second))
	return expect("exit code", result.Exit.Code, 9)
}

func execTimeout(ctx context.Context, e *Env) error {
	t := sleeper(ctx, e)
	began := time.Now()
	result, err := e.ExecTask(ctx, t.ID, []string{"/bin/sh", "-c", "sleep 77777 & wait"}, 300*time.Millisecond)
	if err == nil && result.Exit.Successful() {
		return fmt.Errorf("a command that was ended says %+v", result.Exit)
	}
	if took := time.Since(began); took > 10*time.Second {
		return fmt.Errorf("ended after %s", took)
	}
	if err := await(ctx, 5*time.Second, func() bool { return len(e.processes()) == 1 }); err != nil {
		return fmt.Errorf("processes of the command are left: %v", e.processes())
	}
	return nil
}

// collected is what an exec stream brought.
type collected struct {
	stdout, stderr bytes.Buffer
	exit           *driver.ExitResult
}

func collect(stream driver.ExecStream) (*collected, error) {
	c := &collected{}
	for {
		output, err := stream.Recv()
		if errors.Is(err, io.EOF) && c.exit != nil {
			return c, nil
		}
		if err != nil {
			return c, fmt.Errorf("after stdout %q: %w", c.stdout.String(), err)
		}
		c.stdout.Write(output.Stdout)
		c.stderr.Write(output.Stderr)
		if output.Exit != nil {
			c.exit = output.Exit
		}
	}
}

func execStreams(ctx context.Context, e *Env) error {
	t := sleeper(ctx, e)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := value(e.ExecTaskStreaming(ctx, t.ID, driver.ExecOptions{
		Command: []string{"/bin/sh", "-c", "cat; echo err >&2; exit 4"},
	}))
	input := strings.Repeat("0123456789abcdef", 8<<10) // more than a pipe holds
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(stream, strings.NewReader(input))
		sent <- errors.Join(err, stream.CloseWrite())
	}()
	got, err := collect(stream)
	must(errors.Join(err, <-sent))
	if got.stdout.String() != input {
		return fmt.Errorf("%d bytes came back of %d", got.stdout.Len(), len(input))
	}
	return errors.Join(expect("stderr", got.stderr.String(), "err\n"), expect("exit code", got.exit.Code, 4))
}

func execTerminal(ctx context.Context, e *Env) error {
	t := sleeper(ctx, e)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := value(e.ExecTaskStreaming(ctx, t.ID, driver.ExecOptions{
		Command: []string{"/bin/sh", "-c", "test -t 0 && test -t 1 && read line && stty size && echo \"got $line\""}, TTY: true,
	}))
	must(stream.Resize(driver.TerminalSize{Rows: 33, Columns: 101}))
	value(stream.Write([]byte("hello\n")))
	got := value(collect(stream))
	text := strings.ReplaceAll(got.stdout.String(), "\r\n", "\n")
	if got.exit.Code != 0 || !strings.Contains(text, "33 101\n") || !strings.Contains(text, "got hello\n") {
		return fmt.Errorf("exit %+v, the terminal showed %q", *got.exit, text)
	}
	return nil
}

// execImpossible holds that a terminal of a size that no terminal has ends the command, and that its client learns why.
func execImpossible(ctx context.Context, e *Env) error {
	value(wireOf(e))
	t := sleeper(ctx, e)
	stream := value(e.ExecTaskStreaming(ctx, t.ID, driver.ExecOptions{Command: []string{"/bin/cat"}, TTY: true}))
	must(stream.Resize(driver.TerminalSize{Rows: -1}))
	_, err := stream.Recv()
	return expectError("resize to -1 rows", err, driver.ErrInvalid)
}

func execCancelled(ctx context.Context, e *Env) error {
	t := sleeper(ctx, e)
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := value(e.ExecTaskStreaming(short, t.ID, driver.ExecOptions{
		Command: []string{"/bin/sh", "-c", "echo started; sleep 77777 & wait"},
	}))
	if output, err := stream.Recv(); err != nil || string(output.Stdout) != "started\n" {
		return fmt.Errorf("%q, %w", output.Stdout, err)
	}
	cancel()
	if err := await(ctx, 10*time.Second, func() bool { return len(e.processes()) == 1 }); err != nil {
		return fmt.Errorf("processes of a command without a client are left: %v", e.processes())
	}
	return nil
}

func execNothing(ctx context.Context, e *Env) error {
	t := sleeper(ctx, e)
	for _, command := range [][]string{nil, {""}, {"/no/such/command"}} {
		result, err := e.ExecTask(ctx, t.ID, command, 5*time.Second)
		if err == nil && result.Exit.Successful() {
			return fmt.Errorf("the command %q ended well", command)
		}
	}
	return nil
}
