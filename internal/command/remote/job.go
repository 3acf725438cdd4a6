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

	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

func newJob() *cobra.Command {
	cmd := &cobra.Command{Use: "job", Short: "Run, stop, validate and show jobs", GroupID: cli.GroupAgent}
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
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a job file without running it",
		Long: `Check a job file as the agent does before it runs the job. Each error is printed with file, line and ` +
			`column, and the exit
code is 1. FILE may be - for stdin.`,
		Example: `  tacho job validate web.nomad.hcl
  tacho job validate --var count=3 web.nomad.hcl`,
		Args: cli.Arguments("FILE"),
	}
	file := jobFileFlags(cmd.Flags())
	output := addOutputFlags(cmd)
	return withAgent(cmd, nil, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		source, err := file.read(cmd, args[0])
		if err != nil {
			return err
		}
		checked, err := agent.ValidateJob(cmd.Context(), source)
		if err != nil {
			return err
		}
		mistakes := checked.Value.ValidationErrors
		printNotes(cmd.ErrOrStderr(), checked.Value.Warnings)
		switch {
		case output.set():
			err = output.print(cmd.OutOrStdout(), checked.JSON)
		case len(mistakes) == 0:
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", cli.Printable(source.Filename))
		default:
			printMistakes(cmd.ErrOrStderr(), mistakes)
		}
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
	cmd := &cobra.Command{
		Use:   "status [ID]",
		Short: "List the jobs, or show one and its allocations",
		Example: "  tacho job status\n  tacho job status web\n" +
			"  tacho job status -t '{{range .}}{{.ID}} {{.Status}}\n{{end}}'",
		Args: cli.Arguments("[ID]"),
	}
	output := addOutputFlags(cmd)
	return withAgent(cmd, completeJobs, func(cmd *cobra.Command, agent *client.Client, args []string) error {
		if len(args) == 0 {
			return listJobs(cmd, agent, output)
		}
		job, err := findJob(cmd.Context(), agent, args[0])
		if err != nil {
			return err
		}
		if output.set() {
			return output.print(cmd.OutOrStdout(), job.JSON)
		}
		allocations, err := agent.JobAllocations(cmd.Context(), job.Value.ID, client.Wait{})
		if err != nil {
			return err
		}
		return printJob(cmd, &job.Value, allocations.Value)
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

func listJobs(cmd *cobra.Command, agent *client.Client, output *outputFlags) error {
	jobs, err := agent.Jobs(cmd.Context(), "")
	if err != nil {
		return err
	}
	columns, _ := cli.TerminalSize(cmd.OutOrStdout())
	return showList(cmd, output, jobs, "no jobs (tacho job run FILE runs one)",
		func(p cli.Palette, jobs []apijson.JobStub) string { return jobTable(p, jobs, columns) })
}

// jobTable lists jobs with the number of their allocations in each status.
func jobTable(p cli.Palette, jobs []apijson.JobStub, columns int) string {
	t := cli.Table{
		Header: []string{"JOB", "TYPE", "STATUS", "RUNNING", "STARTING", "COMPLETE", "FAILED", "SUBMITTED"},
		Right:  []int{3, 4, 5, 6}, Width: columns,
	}
	for _, j := range jobs {
		var sum apijson.GroupSummary
		for _, g := range j.JobSummary.Summary {
			sum.Running, sum.Starting = sum.Running+g.Running, sum.Starting+g.Starting+g.Queued
			sum.Complete, sum.Failed = sum.Complete+g.Complete, sum.Failed+g.Failed+g.Lost
		}
		t.Add(cli.Painted(cli.Printable(j.ID), p.Bold), cli.Plain(j.Type), jobStatus(p, j.Status, j.Stop),
			cli.Plain(strconv.Itoa(sum.Running)), cli.Plain(strconv.Itoa(sum.Starting)),
			cli.Plain(strconv.Itoa(sum.Complete)), failures(p, sum.Failed), cli.Plain(clockText(time.Unix(0, j.SubmitTime))))
	}
	return t.Render(p)
}

func jobStatus(p cli.Palette, status string, stopped bool) cli.Cell {
	if stopped {
		return cli.Plain(status + " (stopped)")
	}
	return cli.Painted(status, statusPaint(p, status))
}

func failures(p cli.Palette, n int) cli.Cell {
	if n > 0 {
		return cli.Painted(strconv.Itoa(n), p.Red)
	}
	return cli.Plain("0")
}

// clockText returns a local time to the second, or procstats.NoValue.
func clockText(t time.Time) string {
	if t.IsZero() || t.UnixNano() == 0 {
		return procstats.NoValue
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func printJob(cmd *cobra.Command, j *client.Job, allocations []apijson.Allocation) error {
	out := cmd.OutOrStdout()
	p := cli.PaletteFor(cmd, out)
	status := jobStatus(p, j.Status, j.Stop)
	b := cli.Sheet{Palette: p}
	fmt.Fprintf(&b, "%s  %s\n", p.Bold(cli.Printable(j.ID)), status.String())
	facts := cli.Table{Indent: "  "}
	if j.Name != j.ID {
		facts.AddTexts("name", cli.Printable(j.Name))
	}
	facts.AddTexts("type", j.Type)
	facts.AddTexts("version", strconv.FormatUint(j.Version, 10))
	facts.AddTexts("submitted", clockText(time.Unix(0, j.SubmitTime)))
	b.Table(&facts)
	b.Title("Groups")
	groups := cli.Table{
		Indent: "  ", Header: []string{"GROUP", "COUNT", "TASK", "DRIVER", "WHEN", "CPU", "MEMORY"},
		Right: []int{1, 5, 6},
	}
	for _, g := range j.TaskGroups {
		name, count := cli.Printable(g.Name), strconv.Itoa(g.Count)
		for _, t := range g.Tasks {
			groups.AddTexts(name, count, cli.Printable(t.Name), t.Driver, whenText(t), cpuText(t.Resources),
				memoryText(t.Resources))
			name, count = "", ""
		}
	}
	b.Table(&groups)
	b.Title("Allocations")
	b.WriteString(allocationTable(p, allocations, "  "))
	if len(j.Unplaced) > 0 {
		b.Title("Placement failures")
		for _, line := range placementFailures(j) {
			b.Hang("  ", "    ", line, nil)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
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
func allocationTable(p cli.Palette, allocations []apijson.Allocation, indent string) string {
	if len(allocations) == 0 {
		return indent + "none\n"
	}
	t := cli.Table{Indent: indent, Header: []string{
		"ID", "NAME", "VERSION", "DESIRED", "STATUS", "TASKS",
		"CREATED",
	}, Right: []int{2}, Leave: []int{6, 2, 3}}
	for i := range allocations {
		a := &allocations[i]
		t.Add(cli.Painted(shortID(a.ID), p.Bold), cli.Plain(cli.Printable(a.Name)),
			cli.Plain(strconv.FormatUint(a.JobVersion, 10)),
			cli.Plain(a.DesiredStatus), cli.Painted(a.ClientStatus, statusPaint(p, a.ClientStatus)),
			cli.Plain(tasksText(a)), cli.Plain(clockText(time.Unix(0, a.CreateTime))))
	}
	return t.Render(p)
}

func statusPaint(p cli.Palette, status string) func(string) string {
	switch status {
	case "running":
		return p.Green
	case "pending":
		return p.Yellow
	case "failed", "lost":
		return p.Red
	}
	return nil
}

// tasksText returns the state of each task in a few words.
func tasksText(a *apijson.Allocation) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		word := cli.Printable(name) + " " + stateText(a.TaskStates[name])
		words = append(words, word)
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

// stateText returns the state of a task and the number of its restarts.
func stateText(s *apijson.TaskState) string {
	word := stateWord(s)
	if s.Restarts > 0 {
		word += fmt.Sprintf(" (restarts: %d)", s.Restarts)
	}
	return word
}
