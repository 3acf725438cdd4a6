// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"encoding/json"
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
		GroupID: cli.GroupAgent,
	}
	o := &topOptions{sort: cli.AddChoice(cmd, "sort", "sort by", sortWords()...), output: addOutputFlags(cmd)}
	f := cmd.Flags()
	o.delay = 2 * time.Second
	f.VarP(cli.Duration(&o.delay), "delay", "d", "time between updates")
	f.VarP(cli.Number(&o.iterations, 1, math.MaxInt), "iterations", "n", "print `N` tables and exit, also on a terminal")
	f.BoolVar(&o.percent, "percent", false, "show CPU in percent of a core, and memory in percent of the limit")
	f.StringVar(&o.filter, "filter", "", "show only tasks whose name contains this `TEXT`")
	return withAgent(cmd, nil, untilInterrupted(func(c *call) error {
		if o.delay < shortestDelay || o.delay > longestDelay {
			return cli.Usagef("--delay %s: must be between %s and %s", o.delay, shortestDelay, longestDelay)
		}
		m := &topModel{palette: c.palette, delay: o.delay, sort: o.sort.String(), percent: o.percent, filter: o.filter}
		poll := &taskPoll{agent: c.Client}
		in := c.cmd.InOrStdin()
		if o.iterations == 0 && !o.output.set() && cli.IsTerminal(in) && cli.CanDraw(c.out) {
			return runTopScreen(c.ctx, m, poll, in, c.out)
		}
		return o.print(c, m, poll)
	}))
}

// print prints tables without control of the terminal. Rates need two readings.
func (o *topOptions) print(c *call, m *topModel, poll *taskPoll) error {
	if _, err := poll.read(c.ctx, ""); err != nil {
		return err
	}
	for n := range max(1, o.iterations) {
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-time.After(o.delay):
		}
		rows, err := poll.read(c.ctx, "")
		m.update(rows, nil)
		answer := client.Answer[[]*topRow]{Value: m.visible()}
		if err == nil {
			answer.JSON, err = json.Marshal(answer.Value)
		}
		err = show(c, o.output, answer, err, func(b *cli.Sheet, _ *[]*topRow) {
			if n > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(m.table(false, b.Columns).Render(b.Palette))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
