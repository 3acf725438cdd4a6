// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

// execOptions are the flags of tacho alloc exec.
type execOptions struct {
	task       string
	stdin, tty bool
}

func newAllocExec() *cobra.Command {
	cmd := cli.Launcher(cli.Described(help, "alloc exec"))
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		command := commandOf(args)
		return cli.Arguments("ID", "COMMAND")(cmd, slices.Concat(args[:min(len(args), 1)], command[:min(len(command), 1)]))
	}
	o := &execOptions{}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after the id are the command's
	f.StringVar(&o.task, "task", "", "`TASK` to run the command in; required if there are several")
	f.BoolVarP(&o.stdin, "stdin", "i", true, "pass stdin to the command")
	f.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal (default: if stdin and stdout are one)")
	return withAllocation(cmd, completeAllocations, func(c *call) error {
		ctx, stop := signal.NotifyContext(c.ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		c.ctx = ctx
		if !c.cmd.Flags().Changed("tty") {
			o.tty = o.stdin && cli.IsTerminal(c.cmd.InOrStdin()) && cli.IsTerminal(c.out)
		}
		id, task, err := findTask(c, o.task)
		if err != nil {
			return err
		}
		code, err := o.run(c, id, client.ExecOptions{Task: task, Command: commandOf(c.args), TTY: o.tty})
		if err != nil || code == 0 {
			return err
		}
		return cli.ExitWith(code, nil)
	})
}

// commandOf returns the command behind the id, and behind --, which is optional there. Its arguments may be empty.
func commandOf(args []string) []string {
	command := args[min(len(args), 1):]
	if len(command) > 0 && command[0] == "--" {
		return command[1:]
	}
	return command
}

// run runs the command and returns its exit code.
func (o *execOptions) run(c *call, id string, options client.ExecOptions) (code int, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	running, err := c.Exec(ctx, id, options)
	if err != nil {
		return 0, err
	}
	defer running.Close()
	if o.tty {
		restore, err := rawTerminal(c.cmd.InOrStdin())
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, restore()) }()
		defer followSize(running, c.out)()
	}
	if o.stdin {
		go passStdin(running, c.cmd.InOrStdin())
	}
	if o.tty { // the command draws on it
		return copyExec(running, c.out, c.cmd.ErrOrStderr())
	}
	return copyExec(running, cli.TameTerminal(c.out), cli.TameTerminal(c.cmd.ErrOrStderr()))
}

// copyExec prints the output of the command until its end.
func copyExec(running *client.Exec, stdout, stderr io.Writer) (code int, err error) {
	for {
		out, err := running.Recv()
		if err != nil {
			return 0, err
		}
		if _, err := stdout.Write(out.Stdout.Data); err != nil {
			return 0, err
		}
		if _, err := stderr.Write(out.Stderr.Data); err != nil {
			return 0, err
		}
		if out.Result != nil {
			return out.Result.ExitCode, nil
		}
	}
}

// rawTerminal makes the terminal raw, so that the command gets every key; restore undoes it.
func rawTerminal(stdin io.Reader) (restore func() error, err error) {
	in, ok := stdin.(*os.File)
	if !ok || !cli.IsTerminal(in) {
		return func() error { return nil }, nil // the command has a terminal, its input is a file
	}
	cooked, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set terminal to raw mode: %w", err)
	}
	return func() error { return term.Restore(int(in.Fd()), cooked) }, nil
}

// followSize sets the size of the command's terminal to the size of ours, now and on every change, until end is called.
func followSize(running *client.Exec, stdout io.Writer) (end func()) {
	resized := make(chan os.Signal, 1)
	resized <- nil // the size now
	stop := notifyResize(resized)
	go func() {
		for range resized {
			// An error of the connection is returned by Recv, too.
			if columns, rows := cli.TerminalSize(stdout); rows > 0 && running.Resize(rows, columns) != nil {
				return
			}
		}
	}()
	return func() {
		stop()
		close(resized)
	}
}

// passStdin sends stdin to the command until its end. A read cannot be interrupted: if the command ends before its
// input, this ends with the process, which exits next.
func passStdin(running *client.Exec, stdin io.Reader) {
	// An error of the connection is returned by Recv, too; the command may end before its input does.
	if _, err := io.Copy(running, stdin); err == nil {
		_ = running.CloseWrite()
	}
}

// logsOptions are the flags of tacho alloc logs.
type logsOptions struct {
	follow, stderr, raw bool
	tail                int
}

// everything is the tail if --tail is not given: all lines.
const everything = -1

func newAllocLogs() *cobra.Command {
	cmd := cli.Described(help, "alloc logs")
	o := &logsOptions{}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "follow the output")
	cmd.Flags().BoolVar(&o.stderr, "stderr", false, "print stderr instead of stdout")
	cmd.Flags().BoolVar(&o.raw, "raw", false, "pass everything on to a terminal, not only text and colors")
	o.tail = everything
	cmd.Flags().VarP(cli.Number(&o.tail, 0, math.MaxInt), "tail", "n", "start with the last `N` lines (default: all)")
	return withAllocation(cmd, completeTasks, untilInterrupted(func(c *call) error {
		id, task, err := findTask(c, c.task())
		if err != nil {
			return err
		}
		q := client.LogQuery{Task: task, Stream: "stdout", Follow: o.follow}
		if o.stderr {
			q.Stream = "stderr"
		}
		if o.tail != everything {
			if q.Offset, err = o.findTail(c, id, q); err != nil {
				return err
			}
			q.FromEnd = true
		}
		out := c.out
		if !o.raw {
			out = cli.TameTerminal(out)
		}
		return copyLog(c, id, q, out)
	}))
}

// findTask returns the full id of the allocation of a call, and its named or only task.
func findTask(c *call, named string) (id, task string, err error) {
	a, err := c.Allocation(c.ctx, c.args[0], client.Wait{})
	if err != nil {
		return "", "", err
	}
	id = a.Value.ID
	tasks := slices.Sorted(maps.Keys(a.Value.TaskStates))
	switch {
	case slices.Contains(tasks, named):
		return id, named, nil
	case named != "":
		return "", "", fmt.Errorf("allocation %s has no task %q, only %s", shortID(id), named, strings.Join(tasks, ", "))
	case len(tasks) == 1:
		return id, tasks[0], nil
	}
	return "", "", cli.Usagef("allocation %s has several tasks; choose %s", shortID(id), cli.OrList(tasks))
}

func copyLog(c *call, id string, q client.LogQuery, out io.Writer) error {
	log, err := c.Logs(c.ctx, id, q)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err = io.Copy(out, log); err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	return nil
}

// findTail reads the last firstTail bytes of a log, and doubles them up to mostTail until they have enough lines.
const (
	firstTail = 64 << 10
	mostTail  = 16 << 20
)

// findTail returns how many bytes before the end of a log its last lines start. If the log grows meanwhile, the start
// moves towards the end: lines may be missing that are not among the last ones any more.
func (o *logsOptions) findTail(c *call, id string, q client.LogQuery) (back int64, err error) {
	q.Follow, q.FromEnd = false, true
	for q.Offset = firstTail; ; q.Offset *= 2 {
		var log bytes.Buffer
		err := copyLog(c, id, q, &log)
		text := log.Bytes()
		if client.IsNotFound(err) && o.follow {
			return 0, nil // no output yet
		}
		if err != nil {
			return 0, err
		}
		start, enough := lastLines(text, o.tail)
		if enough || int64(len(text)) < q.Offset || q.Offset >= mostTail {
			return int64(len(text) - start), nil
		}
	}
}

// lastLines returns where the last n lines of a text start; enough is false if it has fewer.
func lastLines(text []byte, n int) (start int, enough bool) {
	for start = len(text); n > 0; n-- {
		end := bytes.LastIndexByte(text[:max(0, start-1)], '\n')
		if end < 0 {
			return 0, false
		}
		start = end + 1
	}
	return start, true
}
