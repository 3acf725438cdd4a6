// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// topOptions are the flags of tacho top.
type topOptions struct {
	delay      time.Duration
	iterations int
	sort       *cli.Choice
	percent    bool
	filter     string
	output     *outputFlags
}

// Bounds of --delay; the agent reads no more often than the first.
const (
	shortestDelay = 200 * time.Millisecond
	longestDelay  = 60 * time.Second
)

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the resource usage of tasks",
		Long: `Show all tasks with CPU, memory and its limit, peak, I/O and pressure, updated every --delay.

Keys: q quits, h shows all keys. If stdout is not a terminal, it reads twice with one delay between, and prints ` +
			`one table;
--iterations prints more. CPU is in cores: 1.00 is one busy core. Pressure is the share of time in which some process of
the task waited, for the resource it waited for most. Values that were not measured are shown as ` +
			procstats.NoValue + `.`,
		Example: `  tacho top
  tacho top --sort memory --filter web
  tacho top --json | jq '.[].memory_bytes'`,
		Args:    cli.Arguments(),
		GroupID: cli.GroupAgent,
	}
	o := &topOptions{sort: cli.AddChoice(cmd, "sort", "sort by", sortWords()...), output: addOutputFlags(cmd)}
	f := cmd.Flags()
	o.delay = 2 * time.Second
	f.VarP(cli.Duration(&o.delay), "delay", "d", "time between updates")
	f.VarP(cli.Number(&o.iterations, 1, math.MaxInt), "iterations", "n", "print `N` tables and exit, also on a terminal")
	f.BoolVar(&o.percent, "percent", false, "show CPU in percent of a core, and memory in percent of the limit")
	f.StringVar(&o.filter, "filter", "", "show only tasks whose name contains this `TEXT`")
	return withAgent(cmd, nil, func(cmd *cobra.Command, agent *client.Client, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		return untilInterrupted(cmd.Context(), func(ctx context.Context) error { return o.run(ctx, cmd, newTaskPoll(agent)) })
	})
}

func (o *topOptions) check() error {
	if o.delay < shortestDelay || o.delay > longestDelay {
		return cli.Usagef("--delay %s: must be between %s and %s", o.delay, shortestDelay, longestDelay)
	}
	return nil
}

func (o *topOptions) run(ctx context.Context, cmd *cobra.Command, poll *taskPoll) error {
	in, out := cmd.InOrStdin(), cmd.OutOrStdout()
	m := &topModel{
		palette: cli.PaletteFor(cmd, out), address: poll.agent.Address(), delay: o.delay, sort: o.sort.String(),
		percent: o.percent, filter: o.filter,
	}
	if o.iterations == 0 && !o.output.set() && cli.IsTerminal(in) && cli.CanDraw(out) {
		return runTopScreen(ctx, m, poll, in, out)
	}
	return o.print(ctx, out, m, poll)
}

// print prints tables without control of the terminal. Rates need two readings.
func (o *topOptions) print(ctx context.Context, out io.Writer, m *topModel, poll *taskPoll) error {
	if _, err := poll.read(ctx); err != nil {
		return err
	}
	for n := range max(1, o.iterations) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.delay):
		}
		rows, err := poll.read(ctx)
		if err != nil {
			return err
		}
		m.update(rows, nil)
		if o.output.set() {
			err = o.printJSON(out, m.visible())
		} else {
			columns, _ := cli.TerminalSize(out)
			text := m.table(false, columns).Render(m.palette)
			if n > 0 {
				text = "\n" + text
			}
			_, err = io.WriteString(out, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *topOptions) printJSON(out io.Writer, rows []*topRow) error {
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	return o.output.print(out, text)
}
