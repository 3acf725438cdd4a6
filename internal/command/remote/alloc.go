// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
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
)

// allocHelp is the help text for the argument ID.
const allocHelp = `ID is the id of an allocation, a prefix that no other has, or the name of its job if no other of ` +
	`its allocations runs.`

func newAlloc() *cobra.Command {
	cmd := &cobra.Command{Use: "alloc", Short: "Show allocations, and act on them", GroupID: cli.GroupAgent}
	cli.AddSubcommands(cmd, newAllocStatus(), newAllocStats(), newAllocLogs(), newAllocExec(), newAllocSignal(),
		newAllocRestart(), newAllocStop())
	return cmd
}

// withAllocation is withAgent for commands whose first argument is ID: they get the id of the allocation.
func withAllocation(cmd *cobra.Command, complete completion, run agentCommand) *cobra.Command {
	return withAgent(cmd, complete, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		if len(args) > 0 {
			id, err := resolveAllocation(cmd.Context(), agent, args[0])
			if err != nil {
				return err
			}
			args = append([]string{id}, args[1:]...)
		}
		return run(cmd, agent, args)
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
	for i := range all.Value {
		a := &all.Value[i]
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

// taskOf returns the argument TASK; empty if it was not given.
func taskOf(args []string) string {
	if len(args) > 1 {
		return args[1]
	}
	return ""
}

func newAllocStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [ID]",
		Short: "List the allocations, or show one: tasks, events, ends",
		Long:  "List the allocations, or show one: its tasks, their events, and why they ended.\n\n" + allocHelp,
		Example: `  tacho alloc status
  tacho alloc status 5f3a
  tacho alloc status --json 5f3a | jq .TaskStates`,
		Args: cli.Arguments("[ID]"),
	}
	output := addOutputFlags(cmd)
	return withAllocation(cmd, completeAllocations, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		if len(args) == 0 {
			return listAllocations(cmd, agent, output)
		}
		a, err := agent.Allocation(cmd.Context(), args[0], client.Wait{})
		if err != nil {
			return err
		}
		if output.set() {
			return output.print(cmd.OutOrStdout(), a.JSON)
		}
		return showAllocation(cmd, agent, &a.Value)
	})
}

func listAllocations(cmd *cobra.Command, agent *client.Client, output *outputFlags) error {
	all, err := agent.Allocations(cmd.Context(), "")
	if err != nil {
		return err
	}
	return showList(cmd, output, all, "no allocations (tacho job run FILE runs a job)",
		func(p cli.Palette, all []apijson.Allocation) string { return allocationTable(p, all, "") })
}

func showAllocation(cmd *cobra.Command, agent *client.Client, a *apijson.Allocation) error {
	out := cmd.OutOrStdout()
	p := cli.PaletteFor(cmd, out)
	status := cli.Painted(a.ClientStatus, statusPaint(p, a.ClientStatus))
	b := cli.Sheet{Palette: p}
	fmt.Fprintf(&b, "%s  %s\n", p.Bold(cli.Printable(a.Name)), status.String())
	facts := cli.Table{Indent: "  "}
	facts.AddFacts(
		[2]string{"id", a.ID},
		[2]string{"job", fmt.Sprintf("%s, version %d", cli.Printable(a.JobID), a.JobVersion)},
		[2]string{"desired", a.DesiredStatus},
		[2]string{"reason", cli.OneLine(a.ClientDescription)},
		[2]string{"node", cli.Printable(a.NodeName)},
		[2]string{"created", clockText(time.Unix(0, a.CreateTime))},
		[2]string{"modified", clockText(time.Unix(0, a.ModifyTime))},
	)
	b.Table(&facts)
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		writeTask(&b, a, name)
		ending, err := endingOf(cmd.Context(), agent, a, name, p)
		if err != nil {
			return err
		}
		b.WriteString(ending)
		b.WriteString(commandsSoFar(cmd.Context(), agent, a, name, p))
		writeEvents(&b, a.TaskStates[name].Events)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeTask writes the state of a task.
func writeTask(b *cli.Sheet, a *apijson.Allocation, name string) {
	s := a.TaskStates[name]
	fmt.Fprintf(b, "\n%s %s\n", b.Bold("Task "+cli.Printable(name)), stateText(s))
	t := cli.Table{Indent: "  "}
	r := a.TaskResources[name]
	requested := cpuText(r)
	if s.Tacho.Cores != "" {
		requested += " (" + s.Tacho.Cores + ")"
	}
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return clockText(t)
	}
	exit := ""
	if e := s.Tacho.Exit; e != nil {
		exit = "code " + strconv.Itoa(e.Code)
		if e.Signal != 0 {
			exit = "signal " + strconv.Itoa(e.Signal)
		}
		if e.OOMKilled {
			exit += ", OOM killed"
		}
		if e.Lost {
			exit = "unknown: lost"
		}
	}
	t.AddFacts([2]string{"driver", cli.Printable(s.Tacho.Driver)},
		[2]string{"requested", requested + ", " + memoryText(r)}, [2]string{"started", moment(s.StartedAt)},
		[2]string{"ended", moment(s.FinishedAt)}, [2]string{"last exit", exit})
	for _, key := range slices.Sorted(maps.Keys(s.Tacho.Attributes)) {
		t.AddTexts(cli.Printable(key), cli.Printable(s.Tacho.Attributes[key]))
	}
	b.Table(&t)
}

// endingOf returns why the last run of a task ended; empty if none has, or if the agent has no record of it.
func endingOf(ctx context.Context, agent *client.Client, a *apijson.Allocation, task string, p cli.Palette) (string,
	error,
) {
	if a.TaskStates[task].Tacho.Exit == nil {
		return "", nil
	}
	final, err := agent.Record(ctx, a.ID, task)
	switch {
	case client.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", err
	}
	return endingText(p, &final.Value), nil
}

// commandsSoFar lists what the processes of a running task used that have ended, by command; empty if that is not
// known.
func commandsSoFar(ctx context.Context, agent *client.Client, a *apijson.Allocation, task string,
	p cli.Palette,
) string {
	if a.TaskStates[task].State != "running" {
		return ""
	}
	c, err := agent.Commands(ctx, a.ID, task)
	if err != nil {
		return "" // an agent of an older build, or none is counted: the status is shown all the same
	}
	if c.Value.Reason != "" || len(c.Value.Rows) == 0 {
		return ""
	}
	b := cli.Sheet{Palette: p}
	b.WriteString("  processes that ended so far, by command\n")
	b.Table(summary.LiveCommandTable(&c.Value, 0, false))
	for _, note := range summary.CommandNotes(&c.Value) {
		b.Hang("  ", "    ", note, nil)
	}
	return b.String()
}

func endingText(p cli.Palette, r *record.Record) string {
	end := r.End()
	if end.Outcome == "" {
		return ""
	}
	text := cli.Sheet{Palette: p}
	fmt.Fprintf(&text, "  last end: %s\n", end.Outcome)
	lines := summary.EndLines(end)
	if by := summary.Commands(r); by != "" {
		lines = append(lines, "CPU used by "+by)
	}
	if a := record.AdviseTask([]*record.Record{r}); a.Line() != "" {
		lines = append(lines, a.Line())
	}
	for _, line := range lines {
		text.Hang("    ", "      ", line, nil)
	}
	return text.String()
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
		t.Add(cli.Painted(clockText(time.Unix(0, e.Time)), b.Faint),
			cli.Painted(cli.Printable(e.Type), eventPaint(b.Palette, e.Type)),
			cli.Plain(cli.OneLine(e.DisplayMessage)))
	}
	b.Table(&t)
}
