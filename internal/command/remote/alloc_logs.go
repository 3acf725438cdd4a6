// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

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
