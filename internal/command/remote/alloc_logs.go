// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

// logsOptions are the flags of tacho alloc logs.
type logsOptions struct {
	follow, stderr bool
	tail           int
}

// everything is the tail if --tail is not given: all lines.
const everything = -1

func newAllocLogs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs ID [TASK]",
		Short: "Print the output of a task",
		Long: "Print the output of a task.\n\n" + allocHelp + ` TASK is optional if there is only one.

--follow continues until the task has ended, across restarts of the task and rotation of the files.`,
		Example: `  tacho alloc logs 5f3a
  tacho alloc logs -f --tail 20 5f3a web
  tacho alloc logs --stderr 5f3a`,
		Args: cli.Arguments("ID", "[TASK]"),
	}
	o := &logsOptions{}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "follow the output")
	cmd.Flags().BoolVar(&o.stderr, "stderr", false, "print stderr instead of stdout")
	o.tail = everything
	cmd.Flags().VarP(cli.Number(&o.tail, 0, math.MaxInt), "tail", "n", "start with the last `N` lines (default: all)")
	return withAllocation(cmd, completeTasks, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		return untilInterrupted(cmd.Context(), func(ctx context.Context) error {
			id, task, err := findTask(ctx, agent, args[0], taskOf(args))
			if err != nil {
				return err
			}
			return o.copy(ctx, cmd.OutOrStdout(), agent, id, task)
		})
	})
}

// findTask returns the full id of an allocation, and its named or only task.
func findTask(ctx context.Context, agent *client.Client, prefix, named string) (id, task string, err error) {
	a, err := agent.Allocation(ctx, prefix, client.Wait{})
	if err != nil {
		return "", "", err
	}
	task, err = onlyTask(&a.Value, named)
	return a.Value.ID, task, err
}

// onlyTask returns the named task, or the only one.
func onlyTask(a *apijson.Allocation, named string) (string, error) {
	tasks := slices.Sorted(maps.Keys(a.TaskStates))
	switch {
	case slices.Contains(tasks, named):
		return named, nil
	case named != "":
		return "", fmt.Errorf("allocation %s has no task %q, only %s", shortID(a.ID), named, strings.Join(tasks, ", "))
	case len(tasks) == 1:
		return tasks[0], nil
	}
	return "", cli.Usagef("allocation %s has several tasks; choose %s", shortID(a.ID), cli.OrList(tasks))
}

func (o *logsOptions) copy(ctx context.Context, out io.Writer, agent *client.Client, id, task string) error {
	q := client.LogQuery{Task: task, Stream: "stdout", Follow: o.follow}
	if o.stderr {
		q.Stream = "stderr"
	}
	if o.tail != everything {
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
func (o *logsOptions) findTail(ctx context.Context, agent *client.Client, id string, q client.LogQuery) (back int64,
	err error,
) {
	q.Follow, q.FromEnd = false, true
	for q.Offset = firstTail; ; q.Offset *= 2 {
		text, err := readLog(ctx, agent, id, q)
		if status, ok := errors.AsType[*client.StatusError](err); ok && status.Status == 404 && o.follow {
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

// lastLines returns where the last n lines of a text start; enough is false if it has fewer.
func lastLines(text []byte, n int) (start int, enough bool) {
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
