// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

func newJob() *cobra.Command {
	cmd := &cobra.Command{Use: "job", Short: "Run, stop, validate and show jobs"}
	cli.AddSubcommands(cmd, newJobRun(), newJobStop(), newJobStatus(), newJobValidate())
	return cmd
}

// jobFile has the flags for a job file.
type jobFile struct{ variables []string }

func jobFileFlags(flags *pflag.FlagSet) *jobFile {
	f := &jobFile{}
	flags.StringArrayVar(&f.variables, "var", nil, "input variable of the job file, `NAME=VALUE`; may be repeated")
	return f
}

// maxJobFile is the agent's limit, in bytes.
const maxJobFile = 1 << 20

// read reads a job file; - is stdin.
func (f *jobFile) read(cmd *cobra.Command, path string) (client.Source, error) {
	source := client.Source{Filename: path, Variables: map[string]string{}}
	for _, pair := range f.variables {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return source, cli.Usagef("--var %s: must be NAME=VALUE", pair)
		}
		source.Variables[name] = value
	}
	in := cmd.InOrStdin()
	if path == "-" {
		source.Filename = "stdin"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return source, fmt.Errorf("read job: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxJobFile+1))
	if err != nil {
		return source, fmt.Errorf("read job: %w", err)
	}
	if len(text) > maxJobFile {
		return source, fmt.Errorf("read job: %s is larger than 1 MiB", source.Filename)
	}
	source.Text = string(text)
	return source, nil
}

func newJobValidate() *cobra.Command {
	cmd := cli.Described(help, "job validate")
	file := jobFileFlags(cmd.Flags())
	output := addOutputFlags(cmd)
	return withAgent(cmd, nil, func(c *call) error {
		source, err := file.read(cmd, c.args[0])
		if err != nil {
			return err
		}
		checked, err := c.ValidateJob(c.ctx, source)
		mistakes := checked.Value.ValidationErrors
		printNotes(cmd.ErrOrStderr(), checked.Value.Warnings)
		err = show(c, output, checked, err, func(b *cli.Sheet, _ *client.Validation) {
			if len(mistakes) == 0 {
				b.WriteString(cli.Printable(source.Filename) + " is valid\n")
			}
			printMistakes(cmd.ErrOrStderr(), mistakes)
		})
		if err == nil && len(mistakes) > 0 {
			err = cli.ErrReported
		}
		return err
	})
}

// printNotes prints one line for each thing in a job file that has no effect here.
func printNotes(stderr io.Writer, warnings string) {
	for line := range strings.Lines(warnings) {
		_, _ = fmt.Fprintln(stderr, "note: "+cli.Printable(strings.TrimSpace(line)))
	}
}

// printMistakes prints one line for each error in a job file.
func printMistakes(stderr io.Writer, mistakes []string) {
	for _, mistake := range mistakes {
		cli.PrintError(stderr, errors.New(mistake))
	}
}

func newJobStatus() *cobra.Command {
	cmd := cli.Described(help, "job status")
	output := addOutputFlags(cmd)
	return withAgent(cmd, completeJobs, func(c *call) error {
		if len(c.args) == 0 {
			jobs, err := c.Jobs(c.ctx, "")
			var all client.Answer[[]apijson.Allocation]
			if err == nil && !output.set() {
				all, err = c.Allocations(c.ctx, "")
			}
			return showList(c, output, jobs, err, "no jobs (tacho job run FILE runs one)",
				func(jobs []apijson.JobStub) *cli.Table { return c.jobTable(jobs, all.Value) })
		}
		job, err := findJob(c.ctx, c.Client, c.args[0])
		if err != nil {
			return err
		}
		allocations, err := c.JobAllocations(c.ctx, job.Value.ID, client.Wait{})
		return show(c, output, job, err, func(b *cli.Sheet, j *client.Job) { c.writeJob(b, j, allocations.Value) })
	})
}

// findJob returns the job with an id or a unique prefix of one.
func findJob(ctx context.Context, agent *client.Client, id string) (client.Answer[client.Job], error) {
	job, err := agent.Job(ctx, id)
	if !client.IsNotFound(err) {
		return job, err
	}
	near, listErr := agent.Jobs(ctx, id)
	switch {
	case listErr != nil:
		return job, listErr
	case len(near.Value) == 1:
		return agent.Job(ctx, near.Value[0].ID)
	case len(near.Value) == 0:
		return job, fmt.Errorf("no job %q (tacho job status lists the jobs)", id)
	}
	var ids []string
	for _, stub := range near.Value {
		ids = append(ids, stub.ID)
	}
	return job, fmt.Errorf("%q is the prefix of several jobs: %s", id, cli.SomeOf(ids))
}

// jobTable lists jobs with the restarts of their tasks and the newest end of one, and the number of their
// allocations in each status.
func (c *call) jobTable(jobs []apijson.JobStub, allocations []apijson.Allocation) *cli.Table {
	restarts, ends := map[string]int{}, map[string]record.LastEnd{}
	for _, a := range allocations {
		for _, s := range a.TaskStates {
			restarts[a.JobID] += s.Restarts
			if e := s.Tacho.LastEnd; e != nil && !e.At.Before(ends[a.JobID].At) {
				ends[a.JobID] = *e
			}
		}
	}
	t := &cli.Table{
		Header: []string{"JOB", "TYPE", "STATUS", "LAST END", "RUNNING", "STARTING", "COMPLETE", "FAILED", "SUBMITTED"},
		Right:  []int{4, 5, 6, 7}, Width: c.palette.Columns, Leave: []int{8, 1, 5, 6, cli.Shorten},
	}
	for _, j := range jobs {
		var sum apijson.GroupSummary
		for _, g := range j.JobSummary.Summary {
			sum.Running, sum.Starting = sum.Running+g.Running, sum.Starting+g.Starting+g.Queued
			sum.Complete, sum.Failed = sum.Complete+g.Complete, sum.Failed+g.Failed+g.Lost
		}
		failures := cli.Plain("0")
		if sum.Failed > 0 {
			failures = cli.Painted(strconv.Itoa(sum.Failed), c.palette.Red)
		}
		t.Add(cli.Painted(j.ID, c.palette.Bold), j.Type, jobStatus(c.palette, j.Status, j.Stop),
			record.Join(" ", restartsText(restarts[j.ID]), ends[j.ID].Text(time.Now())),
			sum.Running, sum.Starting, sum.Complete, failures, clockText(time.Unix(0, j.SubmitTime)))
	}
	return t
}

func jobStatus(p cli.Palette, status string, stopped bool) cli.Cell {
	if stopped {
		return cli.Plain(status + " (stopped)")
	}
	return statusCell(p, status)
}

// clockText returns a local time to the second, or procstats.NoValue.
func clockText(t time.Time) string {
	if t.IsZero() || t.UnixNano() == 0 {
		return procstats.NoValue
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func (c *call) writeJob(b *cli.Sheet, j *client.Job, allocations []apijson.Allocation) {
	fmt.Fprintf(b, "%s  %s\n", b.Bold(cli.Printable(j.ID)), jobStatus(b.Palette, j.Status, j.Stop))
	name := j.Name
	if name == j.ID {
		name = ""
	}
	b.Facts([2]string{"name", name}, [2]string{"type", j.Type}, [2]string{"version", fmt.Sprint(j.Version)},
		[2]string{"submitted", clockText(time.Unix(0, j.SubmitTime))})
	b.Title("Groups")
	groups := cli.Table{
		Indent: "  ", Header: []string{"GROUP", "COUNT", "TASK", "DRIVER", "WHEN", "CPU", "MEMORY"},
		Right: []int{1, 5, 6}, Width: b.Columns, Leave: []int{3, 4},
	}
	for _, g := range j.TaskGroups {
		name, count := g.Name, strconv.Itoa(g.Count)
		for _, t := range g.Tasks {
			groups.AddTexts(name, count, t.Name, t.Driver, whenText(t), cpuText(t.Resources), memoryText(t.Resources))
			name, count = "", ""
		}
	}
	b.Table(&groups)
	b.Title("Allocations")
	t := c.allocationTable(allocations)
	t.Indent = "  "
	b.Table(t)
	if t.Empty() {
		b.WriteString("  none\n")
	}
	if len(j.Unplaced) > 0 {
		b.Title("Placement failures")
		for _, line := range placementFailures(j) {
			b.Hang("  ", "    ", line, nil)
		}
	}
}

// placementFailures returns a line for each group with allocations that the node cannot run.
func placementFailures(j *client.Job) []string {
	lines := make([]string, 0, len(j.Unplaced))
	for _, name := range slices.Sorted(maps.Keys(j.Unplaced)) {
		u := j.Unplaced[name]
		reasons := cmp.Or(strings.Join(u.Reasons, "; "), "no reason reported")
		lines = append(lines, fmt.Sprintf("group %s: %s not placed: %s", cli.Printable(name),
			procstats.Counted(u.Allocations, "allocation", "allocations"), cli.Printable(reasons)))
	}
	return lines
}

// whenText returns the lifecycle of a task.
func whenText(t client.Task) string {
	switch {
	case t.Lifecycle == nil:
		return "main"
	case t.Lifecycle.Sidecar:
		return t.Lifecycle.Hook + ", sidecar"
	}
	return t.Lifecycle.Hook
}

func cpuText(r apijson.Resources) string {
	if r.Cores > 0 {
		return procstats.Counted(r.Cores, "core", "cores")
	}
	return strconv.Itoa(r.CPU) + " MHz"
}

func memoryText(r apijson.Resources) string {
	mib := func(n int) string { return procstats.Bytes.Text(float64(n) * (1 << 20)) }
	if r.MemoryMaxMB > 0 {
		return mib(r.MemoryMB) + ", max " + mib(r.MemoryMaxMB)
	}
	return mib(r.MemoryMB)
}

// allocationTable lists allocations with their tasks.
func (c *call) allocationTable(allocations []apijson.Allocation) *cli.Table {
	t := &cli.Table{
		Header: []string{"ID", "NAME", "VERSION", "DESIRED", "STATUS", "TASKS", "CREATED"},
		Right:  []int{2}, Leave: []int{6, 2, 3},
	}
	for _, a := range allocations {
		t.Add(cli.Painted(shortID(a.ID), c.palette.Bold), a.Name, a.JobVersion, a.DesiredStatus,
			statusCell(c.palette, a.ClientStatus), tasksText(&a), clockText(time.Unix(0, a.CreateTime)))
	}
	return t
}

func statusCell(p cli.Palette, status string) cli.Cell {
	return cli.Painted(status, statusPaint(p, status))
}

func statusPaint(p cli.Palette, status string) func(string) string {
	return map[string]func(string) string{
		"running": p.Green, "pending": p.Yellow, "failed": p.Red, "lost": p.Red,
	}[status]
}

// tasksText returns the state of each task in a few words.
func tasksText(a *apijson.Allocation) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		words = append(words, name+" "+stateText(a.TaskStates[name]))
	}
	return strings.Join(words, ", ")
}

// stateWord returns pending, running, ended or failed.
func stateWord(s *apijson.TaskState) string {
	switch {
	case s.State != "dead":
		return s.State
	case s.Failed:
		return "failed"
	}
	return "ended"
}

// causeWord returns on whose account a task does not run any more, if it is not the task's own; empty otherwise.
func causeWord(s *apijson.TaskState) string {
	if e := s.Tacho.Exit; s.State != "running" && e != nil && e.Cause != "task" {
		return e.Cause
	}
	return ""
}

// stateText returns the state of a task, the number of its restarts, and how it last ended, as in "running ↻14
// oom-killed 38 s ago".
func stateText(s *apijson.TaskState) string {
	word, last := stateWord(s), record.LastEnd{Outcome: s.Tacho.Outcome, Cause: causeWord(s)}
	if s.Tacho.LastEnd != nil {
		last = *s.Tacho.LastEnd
	}
	if s.State == "dead" && last.Outcome != "" {
		word = ""
	}
	return record.Join(" ", word, restartsText(s.Restarts), last.Text(time.Now()))
}

// restartsText counts the restarts of a task; empty for none.
func restartsText(n int) string {
	if n == 0 {
		return ""
	}
	return "↻" + strconv.Itoa(n)
}
