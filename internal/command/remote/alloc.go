// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
)

// allocHelp is the help text for the argument ID, {ID} in help.txt.
const allocHelp = `ID is the id of an allocation, a prefix that no other has, or the name of its
job if no other of its allocations runs.`

func newAlloc() *cobra.Command {
	cmd := &cobra.Command{Use: "alloc", Short: "Show allocations, and act on them"}
	cli.AddSubcommands(cmd, newAllocStatus(), newAllocStats(), newAllocLogs(), newAllocExec(), newAllocSignal(),
		newAllocRestart(), newAllocStop())
	return cmd
}

// withAllocation is withAgent for commands whose first argument is ID: they get the id of the allocation.
func withAllocation(cmd *cobra.Command, complete completion, run func(*call) error) *cobra.Command {
	cmd.Long = strings.ReplaceAll(cmd.Long, "{ID}", allocHelp)
	return withAgent(cmd, complete, func(c *call) error {
		if len(c.args) > 0 {
			id, err := resolveAllocation(c.ctx, c.Client, c.args[0])
			if err != nil {
				return err
			}
			c.args = append([]string{id}, c.args[1:]...)
		}
		return run(c)
	})
}

// resolveAllocation returns the id of the one allocation that a job's name means. Any other word is left to the agent.
func resolveAllocation(ctx context.Context, agent *client.Client, word string) (string, error) {
	all, err := agent.Allocations(ctx, "")
	if err != nil {
		return "", err
	}
	var running []string
	var id string // of the newest that runs, or else of the newest
	var created int64
	for _, a := range all.Value {
		switch {
		case strings.HasPrefix(a.ID, word):
			return word, nil
		case a.JobID != word && a.Name != word:
		case !a.Ended():
			running = append(running, shortID(a.ID))
			id = a.ID
		case len(running) == 0 && a.CreateTime > created:
			id, created = a.ID, a.CreateTime
		}
	}
	if len(running) > 1 {
		return "", cli.Usagef("job %s has %d running allocations; choose one: %s", word, len(running), cli.SomeOf(running))
	}
	return cmp.Or(id, word), nil
}

// task returns the argument TASK; empty if it was not given.
func (c *call) task() string {
	if len(c.args) > 1 {
		return c.args[1]
	}
	return ""
}

func newAllocStatus() *cobra.Command {
	cmd := cli.Described(help, "alloc status")
	output := addOutputFlags(cmd)
	return withAllocation(cmd, completeAllocations, func(c *call) error {
		if len(c.args) == 0 {
			all, err := c.Allocations(c.ctx, "")
			return showList(c, output, all, err, "no allocations (tacho job run FILE runs a job)", c.allocationTable)
		}
		a, err := c.Allocation(c.ctx, c.args[0], client.Wait{})
		records := map[string]*record.Record{}
		for name, s := range a.Value.TaskStates {
			if err == nil && s.Tacho.Exit != nil {
				records[name], err = recordOf(c.ctx, c.Client, a.Value.ID, name)
			}
		}
		return show(c, output, a, err, func(b *cli.Sheet, a *apijson.Allocation) { c.writeAllocation(b, a, records) })
	})
}

// recordOf returns the record of the last ended run of a task; nil if the agent has none.
func recordOf(ctx context.Context, agent *client.Client, id, task string) (*record.Record, error) {
	final, err := agent.Record(ctx, id, task)
	switch {
	case client.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &final.Value, nil
}

// writeAllocation writes an allocation and its tasks, with the records of those that have ended.
func (c *call) writeAllocation(b *cli.Sheet, a *apijson.Allocation, records map[string]*record.Record) {
	fmt.Fprintf(b, "%s  %s\n", b.Bold(cli.Printable(a.Name)), statusCell(b.Palette, a.ClientStatus))
	b.Facts(
		[2]string{"id", a.ID},
		[2]string{"job", fmt.Sprintf("%s, version %d", a.JobID, a.JobVersion)},
		[2]string{"desired", a.DesiredStatus},
		[2]string{"reason", cli.OneLine(a.ClientDescription)},
		[2]string{"node", a.NodeName},
		[2]string{"created", clockText(time.Unix(0, a.CreateTime))},
		[2]string{"modified", clockText(time.Unix(0, a.ModifyTime))},
	)
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		writeTask(b, a, name)
		if r := records[name]; r != nil {
			writeEnding(b, r)
		}
		c.writeCommands(b, a, name)
		writeEvents(b, a.TaskStates[name].Events)
	}
}

// writeTask writes the state of a task.
func writeTask(b *cli.Sheet, a *apijson.Allocation, name string) {
	s, r := a.TaskStates[name], a.TaskResources[name]
	fmt.Fprintf(b, "\n%s %s\n", b.Bold("Task "+cli.Printable(name)), stateText(s))
	requested := cpuText(r)
	if s.Tacho.Cores != "" {
		requested += " (" + s.Tacho.Cores + ")"
	}
	moment := func(t time.Time) string { return strings.TrimPrefix(clockText(t), procstats.NoValue) }
	facts := [][2]string{
		{"driver", s.Tacho.Driver},
		{"requested", requested + ", " + memoryText(r)},
		{"started", moment(s.StartedAt)},
		{"ended", moment(s.FinishedAt)},
		{"last exit", exitText(s.Tacho.Exit)},
	}
	for _, key := range slices.Sorted(maps.Keys(s.Tacho.Attributes)) {
		facts = append(facts, [2]string{key, s.Tacho.Attributes[key]})
	}
	b.Facts(facts...)
}

// exitText returns how a task last ended; empty if it has not.
func exitText(e *apijson.Exit) string {
	switch {
	case e == nil:
		return ""
	case e.Lost:
		return "unknown: lost" + record.CauseNote(e.Cause)
	}
	text := "code " + strconv.Itoa(e.Code)
	if e.Signal != 0 {
		text = "signal " + strconv.Itoa(e.Signal)
	}
	if e.OOMKilled {
		text += ", OOM killed"
	}
	return text + record.CauseNote(e.Cause)
}

// writeCommands lists what the processes of a running task used that have ended, by command; nothing if the agent does
// not know.
func (c *call) writeCommands(b *cli.Sheet, a *apijson.Allocation, task string) {
	if a.TaskStates[task].State != "running" {
		return
	}
	commands, err := c.Commands(c.ctx, a.ID, task)
	if err != nil || commands.Value.Reason != "" || len(commands.Value.Rows) == 0 {
		return // an agent of an older build, or none is counted: the status is shown all the same
	}
	b.WriteString("  processes that ended so far, by command\n")
	b.Table(summary.CommandTable(&commands.Value, 0, false))
	for _, note := range summary.CommandNotes(&commands.Value) {
		b.Hang("  ", "    ", note, nil)
	}
}

// writeEnding writes why the last run of a task ended.
func writeEnding(b *cli.Sheet, r *record.Record) {
	end := r.End()
	if end.Outcome == "" {
		return
	}
	fmt.Fprintf(b, "  last end: %s\n", end.Outcome)
	lines := summary.EndLines(end)
	if by := summary.Commands(r); by != "" {
		lines = append(lines, "CPU used by "+by)
	}
	if a := record.AdviseTask([]*record.Record{r}); a.Line() != "" {
		lines = append(lines, a.Line())
	}
	for _, line := range lines {
		b.Hang("    ", "      ", line, nil)
	}
}

// shownEvents is the number of events shown of a task.
const shownEvents = 10

func writeEvents(b *cli.Sheet, events []apijson.TaskEvent) {
	if len(events) == 0 {
		return
	}
	title := "events"
	if len(events) > shownEvents {
		title += fmt.Sprintf(" (the last %d of %d)", shownEvents, len(events))
		events = events[len(events)-shownEvents:]
	}
	fmt.Fprintf(b, "  %s\n", title)
	t := cli.Table{Indent: "    "}
	for _, e := range events {
		t.Add(cli.Painted(clockText(time.Unix(0, e.Time)), b.Faint), cli.Painted(e.Type, eventPaint(b.Palette, e.Type)),
			cli.OneLine(e.DisplayMessage))
	}
	b.Table(&t)
}

func newAllocSignal() *cobra.Command {
	cmd := cli.Described(help, "alloc signal")
	name := cmd.Flags().StringP("signal", "s", "SIGKILL", "send this `SIGNAL`")
	signals := []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT"}
	_ = cmd.RegisterFlagCompletionFunc("signal", cobra.FixedCompletions(signals, cobra.ShellCompDirectiveNoFileComp))
	return actOn(cmd, func(c *call, id string) (string, error) {
		return "signaled with " + *name, c.SignalAllocation(c.ctx, id, c.task(), *name)
	})
}

func newAllocRestart() *cobra.Command {
	cmd := cli.Described(help, "alloc restart")
	return actOn(cmd, func(c *call, id string) (string, error) {
		return "restarting", c.RestartAllocation(c.ctx, id, c.task())
	})
}

func newAllocStop() *cobra.Command {
	cmd := cli.Described(help, "alloc stop")
	detach := cmd.Flags().Bool("detach", false, "do not wait for the tasks to end")
	return actOn(cmd, func(c *call, id string) (string, error) {
		if err := c.StopAllocation(c.ctx, id); err != nil || *detach {
			return "stopping", err
		}
		wait := client.Wait{}
		for {
			now, err := c.Allocation(c.ctx, id, wait)
			if err != nil || now.Value.Ended() {
				return "stopped", err
			}
			wait = client.Wait{Index: now.Index, For: maxWait}
		}
	})
}

// actOn completes a command that acts on an allocation, or on one task of it, and prints what it has done.
func actOn(cmd *cobra.Command, act func(c *call, id string) (done string, err error)) *cobra.Command {
	return withAllocation(cmd, completeTasks, func(c *call) error {
		a, err := c.Allocation(c.ctx, c.args[0], client.Wait{})
		if err != nil {
			return err
		}
		done, err := act(c, a.Value.ID)
		if err != nil {
			return err
		}
		what := "allocation " + shortID(a.Value.ID) + " (" + a.Value.Name + ")"
		if task := c.task(); task != "" {
			what = "task " + task + " of " + what
		}
		_, err = fmt.Fprintf(c.out, "%s: %s\n", cli.Printable(what), done)
		return err
	})
}
