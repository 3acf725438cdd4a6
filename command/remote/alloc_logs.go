// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/agent/client"
	"github.com/tachograph/tacho/command/cli"
)

// logsOptions are the flags of tacho alloc logs.
type logsOptions struct {
	follow, stderr bool
	tail           int
}

func newAllocLogs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs ID [TASK]",
		Short: "Print what a task wrote",
		Long: allocWord + ` TASK may be left out where there is only one.

With --follow it goes on until the task has ended, over restarts of the task and rotation of the files.`,
		Example: `  tacho alloc logs 5f3a
  tacho alloc logs -f --tail 20 5f3a web
  tacho alloc logs --stderr 5f3a`,
		Args: allocArguments(true),
	}
	o := &logsOptions{}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what is written")
	cmd.Flags().BoolVar(&o.stderr, "stderr", false, "print the standard error, not the standard output")
	cmd.Flags().IntVarP(&o.tail, "tail", "n", -1, "begin with the last so many lines; -1 for all")
	flags := connectionFlags(cmd)
	cmd.ValidArgsFunction = completeTasks(flags)
	cmd.RunE = withAgent(flags, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		a, err := agent.Allocation(ctx, args[0], client.Wait{})
		if err != nil {
			return err
		}
		task, err := onlyTask(&a.Value, taskOf(args))
		if err != nil {
			return err
		}
		return o.copy(ctx, cmd.OutOrStdout(), agent, a.Value.ID, task)
	})
	return cmd
}

// onlyTask returns the task that is named, or the only one.
func onlyTask(a *client.Allocation, named string) (string, error) {
	tasks := slices.Sorted(maps.Keys(a.TaskStates))
	switch {
	case slices.Contains(tasks, named):
		return named, nil
	case named != "":
		return "", fmt.Errorf("allocation %s has no task %q: it has %s", shortID(a.ID), named, strings.Join(tasks, ", "))
	case len(tasks) == 1:
		return tasks[0], nil
	}
	return "", cli.Usagef("allocation %s has several tasks, name one: %s", shortID(a.ID), cli.OrList(tasks))
}

func (o *logsOptions) copy(ctx context.Context, out io.Writer, agent *client.Client, id, task string) error {
	q := client.LogQuery{Task: task, Stream: "stdout", Follow: o.follow}
	if o.stderr {
		q.Stream = "stderr"
	}
	if o.tail >= 0 {
		back, err := o.findTail(ctx, agent, id, q)
		if err != nil {
			return err
		}
		q.FromEnd, q.Offset = true, back
	}
	log, err := agent.Logs(ctx, id, q)
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = io.Copy(out, log)
	if ctx.Err() != nil {
		return nil // it was asked to stop
	}
	if err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	return nil
}

// Lines are looked for in the last bytes of a log; twice as many each time there are too few.
const (
	firstTail = 64 << 10
	mostTail  = 16 << 20
)

// findTail returns how many bytes before the end of a log its last lines begin. What is written meanwhile makes
// the beginning come later in the file, never earlier, so at worst some lines are left out that are no longer the
// last.
func (o *logsOptions) findTail(ctx context.Context, agent *client.Client, id string, q client.LogQuery) (back int64, err error) {
	q.Follow, q.FromEnd = false, true
	for q.Offset = firstTail; ; q.Offset *= 2 {
		text, err := readLog(ctx, agent, id, q)
		if status, ok := errors.AsType[*client.StatusError](err); ok && status.Status == 404 && o.follow {
			return 0, nil // nothing was written yet
		}
		if err != nil {
			return 0, err
		}
		begin, whole := lastLines(text, o.tail)
		if whole || int64(len(text)) < q.Offset || q.Offset >= mostTail {
			return int64(len(text) - begin), nil
		}
	}
}

func readLog(ctx context.Context, agent *client.Client, id string, q client.LogQuery) ([]byte, error) {
	log, err := agent.Logs(ctx, id, q)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	text, err := io.ReadAll(io.LimitReader(log, 2*mostTail))
	if err != nil {
		return nil, fmt.Errorf("read logs: %w", err)
	}
	return text, nil
}

// lastLines returns where the last n lines of a text begin; whole is false where it has fewer.
func lastLines(text []byte, n int) (begin int, whole bool) {
	if n == 0 {
		return len(text), true
	}
	end := len(text)
	if end > 0 && text[end-1] == '\n' {
		end--
	}
	for i := end - 1; i >= 0; i-- {
		if text[i] == '\n' {
			if n--; n == 0 {
				return i + 1, true
			}
		}
	}
	return 0, false
}
