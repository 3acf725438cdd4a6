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
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tachograph/tacho/agent/client"
	"github.com/tachograph/tacho/command/cli"
)

// execOptions are the flags of tacho alloc exec.
type execOptions struct {
	task       string
	stdin, tty bool
}

func newAllocExec() *cobra.Command {
	cmd := cli.Launcher(&cobra.Command{
		Use:   "exec ID COMMAND [ARG...]",
		Short: "Run a command beside a task, in its folder, with its environment and its cgroup",
		Long: allocWord + `

The command gets a terminal where standard input and output are one. The exit code is the command's; a fault of tacho's
own is 125; 126 the command cannot be executed; 127 there is no such command. When tacho ends, so does the command.`,
		Example: `  tacho alloc exec 5f3a sh
  tacho alloc exec --task web 5f3a cat /proc/self/cgroup
  tacho alloc exec 5f3a sh -c 'cat > local/config' < config`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return nil
			}
			return cli.Arguments("ID", "COMMAND")(cmd, args)
		},
	})
	o := &execOptions{}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags behind the id are the command's
	f.StringVar(&o.task, "task", "", "run it beside this `TASK`; needed where there are several")
	f.BoolVarP(&o.stdin, "stdin", "i", true, "pass the standard input on")
	f.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal (default: where standard input and output are one)")
	flags := connectionFlags(cmd)
	cmd.ValidArgsFunction = completeAllocations(flags)
	cmd.RunE = withAgent(flags, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if !cmd.Flags().Changed("tty") {
			o.tty = o.stdin && cli.IsTerminal(cmd.InOrStdin()) && cli.IsTerminal(cmd.OutOrStdout())
		}
		a, err := agent.Allocation(ctx, args[0], client.Wait{})
		if err != nil {
			return err
		}
		task, err := onlyTask(&a.Value, o.task)
		if err != nil {
			return err
		}
		code, err := o.run(ctx, cmd, agent, a.Value.ID, client.ExecOptions{Task: task, Command: args[1:], TTY: o.tty})
		if err != nil || code == 0 {
			return err
		}
		return cli.ExitWith(code, nil)
	})
	return cmd
}

// run runs the command and returns its exit code.
func (o *execOptions) run(ctx context.Context, cmd *cobra.Command, agent *client.Client, id string, options client.ExecOptions) (code int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running, err := agent.Exec(ctx, id, options)
	if err != nil {
		return 0, err
	}
	defer running.Close()
	if o.tty {
		restore, err := rawTerminal(cmd.InOrStdin())
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, restore()) }()
		defer followSize(ctx, running, cmd.OutOrStdout())()
	}
	if o.stdin {
		end, err := passStdin(running, cmd.InOrStdin())
		if err != nil {
			return 0, err
		}
		defer func() {
			running.Close() // so that a sending that hangs ends
			err = errors.Join(err, end())
		}()
	}
	return copyExec(running, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// copyExec prints what the command writes until its end.
func copyExec(running *client.Exec, stdout, stderr io.Writer) (code int, err error) {
	for {
		out, err := running.Recv()
		if err != nil {
			return 0, err
		}
		if _, err := stdout.Write(out.Stdout); err != nil {
			return 0, err
		}
		if _, err := stderr.Write(out.Stderr); err != nil {
			return 0, err
		}
		if out.Exited {
			return out.Code, nil
		}
	}
}

// rawTerminal has every key passed on as it is; restore undoes it.
func rawTerminal(stdin io.Reader) (restore func() error, err error) {
	in, ok := stdin.(*os.File)
	if !ok || !cli.IsTerminal(in) {
		return func() error { return nil }, nil // a terminal for the command only, fed from a file
	}
	cooked, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("make the terminal raw: %w", err)
	}
	return func() error { return term.Restore(int(in.Fd()), cooked) }, nil
}

// followSize gives the command's terminal the size of ours, now and whenever it changes, until end is called.
func followSize(ctx context.Context, running *client.Exec, stdout io.Writer) (end func()) {
	resized := make(chan os.Signal, 1)
	stop := notifyResize(resized)
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			// A connection that is gone is told by whoever reads from it.
			if columns, rows := cli.TerminalSize(stdout); rows > 0 && running.Resize(rows, columns) != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-resized:
			}
		}
	})
	return func() {
		stop()
		cancel()
		work.Wait()
	}
}

// passStdin sends our standard input to the command until its end, or until end is called.
func passStdin(running *client.Exec, stdin io.Reader) (end func() error, err error) {
	file, ok := stdin.(*os.File)
	if !ok {
		return func() error { return nil }, running.CloseWrite()
	}
	in, err := newInterruptible(file)
	if err != nil {
		return nil, err
	}
	in.serve(func() {
		// Errors of sending are told by whoever reads from the connection; a command may also end before its input.
		if _, err := io.Copy(running, readerOnly{in}); err == nil {
			_ = running.CloseWrite()
		}
	})
	return in.Close, nil
}

// readerOnly hides what else a reader can do: copying past its Read could not be interrupted.
type readerOnly struct{ io.Reader }
