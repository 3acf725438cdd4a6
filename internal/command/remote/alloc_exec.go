// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
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
