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
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/cluster"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/procstats"
)

// adviseOptions are the flags of tacho advise.
type adviseOptions struct {
	outputDir  *string
	format     *cli.Choice
	job, alloc string
	coreMHz    int
	connection *connection
	cluster    clusterOptions
}

// mostCoreMHz is the highest --core-mhz: no core counts for more.
const mostCoreMHz = 100_000

func newAdvise() *cobra.Command {
	cmd := cli.Described(help, "advise")
	cmd.GroupID = cli.GroupRecords
	o := &adviseOptions{outputDir: rundir.AddOutputDir(cmd), format: cli.AddFormat(cmd, "text", "json")}
	flags := cmd.Flags()
	flags.StringVar(&o.job, "job", "", "advise on the tasks of all allocations of this `JOB`")
	flags.StringVar(&o.alloc, "alloc", "", "advise on the tasks of this allocation, an `ID` or the name of a job")
	o.coreMHz = 1000
	flags.Var(cli.Number(&o.coreMHz, 1, mostCoreMHz), "core-mhz",
		"what a core counts for in the job file: that of the node's cpu.frequency")
	o.connection = addConnectionFlags(cmd)
	o.cluster.addFlags(cmd)
	cmd.ValidArgsFunction = rundir.Complete(o.outputDir, 1000)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if ours, err := o.cluster.check(cmd, args); ours || err != nil {
			if err == nil {
				err = o.size(cmd, args)
			}
			return err
		}
		for _, name := range []string{"job", "alloc"} {
			if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
				return cli.Usagef("--%s is empty (see %s --help)", name, cmd.CommandPath())
			}
		}
		if (o.job != "" || o.alloc != "") && len(args) > 0 || o.job != "" && o.alloc != "" {
			return cli.Usagef("RUN, --job and --alloc are mutually exclusive")
		}
		histories, err := o.histories(cmd.Context(), args)
		if err != nil {
			return err
		}
		return o.print(cmd, histories)
	}
	return cmd
}

// histories returns records by the name of a task; those of runs have the name "command".
func (o *adviseOptions) histories(ctx context.Context, args []string) (map[string][]*record.Record, error) {
	if o.job == "" && o.alloc == "" {
		records, err := o.recordsOfRuns(args)
		return map[string][]*record.Record{"command": records}, err
	}
	agent, err := o.connection.open(ctx)
	if err != nil {
		return nil, err
	}
	defer agent.Close()
	histories, err := o.recordsOfTasks(ctx, agent)
	return histories, explain(err)
}

func (o *adviseOptions) recordsOfRuns(args []string) ([]*record.Record, error) {
	if len(args) == 0 {
		args = []string{"last"}
	}
	var records []*record.Record
	for _, word := range args {
		named, err := rundir.Find(*o.outputDir, word)
		if err != nil {
			return nil, err
		}
		history, err := rundir.History(named)
		if err != nil {
			return nil, err
		}
		for _, r := range history {
			if !slices.ContainsFunc(records, func(other *record.Record) bool { return other.ID == r.ID }) {
				records = append(records, r)
			}
		}
	}
	return records, nil
}

func (o *adviseOptions) recordsOfTasks(ctx context.Context, agent *client.Client) (map[string][]*record.Record, error) {
	all, err := o.allocations(ctx, agent)
	if err != nil {
		return nil, err
	}
	histories := map[string][]*record.Record{}
	for _, a := range all {
		for task := range a.TaskStates {
			final, err := recordOf(ctx, agent, a.ID, task)
			if err != nil {
				return nil, err
			}
			if final != nil {
				histories[task] = append(histories[task], final)
			}
		}
	}
	if len(histories) == 0 {
		return nil, fmt.Errorf("no record: no task of %s has ended", o.job+o.alloc)
	}
	return histories, nil
}

// allocations returns those of --job, or that of --alloc. A job can be unknown to the agent that still has
// allocations of it.
func (o *adviseOptions) allocations(ctx context.Context, agent *client.Client) ([]apijson.Allocation, error) {
	if o.alloc != "" {
		id, err := resolveAllocation(ctx, agent, o.alloc)
		if err != nil {
			return nil, err
		}
		one, err := agent.Allocation(ctx, id, client.Wait{})
		return []apijson.Allocation{one.Value}, err
	}
	all, err := agent.Allocations(ctx, "")
	if err != nil {
		return nil, err
	}
	name := o.job
	job, jobErr := findJob(ctx, agent, name)
	if jobErr == nil {
		name = job.Value.ID
	}
	of := slices.DeleteFunc(all.Value, func(a apijson.Allocation) bool { return a.JobID != name })
	if len(of) == 0 && jobErr != nil {
		return nil, jobErr
	}
	return of, nil
}

func (o *adviseOptions) print(cmd *cobra.Command, histories map[string][]*record.Record) error {
	out := cmd.OutOrStdout()
	all := map[string]record.Advice{}
	ofTasks, of := o.job != "" || o.alloc != "", record.AdviseRuns
	if ofTasks {
		of = record.AdviseTask
	}
	for name, records := range histories {
		all[name] = of(records)
	}
	if o.format.String() == "json" {
		return cli.PrintJSON(out, all)
	}
	var text strings.Builder
	palette := cli.PaletteFor(cmd, out)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i > 0 {
			text.WriteByte('\n')
		}
		if ofTasks {
			text.WriteString(palette.Bold("Task "+cli.Printable(name)) + "\n")
		}
		advice := all[name]
		for line := range strings.Lines(advice.Text(o.coreMHz)) {
			text.WriteString(cli.Hang(palette, "", "", strings.TrimSuffix(line, "\n"), nil))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// clusterOptions are the flags of tacho advise --nomad.
type clusterOptions struct {
	nomad, diff bool
	days        int
	prometheus  string
	failIf      []string
	conditions  []budget.Condition
}

func (o *clusterOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.nomad, "nomad", false, "advise on the jobs of the Nomad cluster at NOMAD_ADDR, or on one")
	o.days = 14
	flags.Var(cli.Number(&o.days, 1, 3650), "days", "advise from the runs of so many days")
	flags.StringVar(&o.prometheus, "prometheus", "", "`URL` of a Prometheus server with longer histories")
	flags.BoolVar(&o.diff, "diff", false, "print the change of the job files as a patch")
	flags.StringArrayVar(&o.failIf, "fail-if", nil, "exit with 123 if `CONDITION` holds, such as 'wasted_memory > 20%'")
	cli.Group(cmd, "A Nomad cluster", "nomad", "days", "prometheus", "diff", "fail-if")
}

// check reports whether a cluster is meant.
func (o *clusterOptions) check(cmd *cobra.Command, args []string) (bool, error) {
	flags := cmd.Flags()
	if !o.nomad {
		for _, name := range []string{"days", "prometheus", "diff", "fail-if"} {
			if flags.Changed(name) {
				return false, cli.Usagef("--%s requires --nomad", name)
			}
		}
		return false, nil
	}
	if flags.Changed("job") || flags.Changed("alloc") {
		return false, cli.Usagef("--nomad, --job and --alloc are mutually exclusive: tacho advise --nomad JOB")
	}
	if len(args) > 1 || len(args) == 1 && args[0] == "" {
		return false, cli.Usagef("--nomad takes one JOB, or none for all")
	}
	for _, text := range o.failIf {
		condition, err := budget.ParseOf(text, measureOf)
		if err != nil {
			return false, cli.Usagef("--fail-if %q: %w", text, err)
		}
		o.conditions = append(o.conditions, condition)
	}
	return true, nil
}

func measureOf(name string) (procstats.Measurement, error) {
	known := slices.Sorted(maps.Keys(new(sizing).shares()))
	if !slices.Contains(known, name) {
		return procstats.Measurement{}, fmt.Errorf("unknown number %q; must be %s", name, cli.OrList(known))
	}
	return procstats.Measurement{Name: name, Unit: procstats.Share}, nil
}

// sizing is the advice on a cluster.
type sizing struct {
	Days   int             `json:"days"`
	Tasks  []*cluster.Size `json:"tasks"`
	Memory cluster.Sum     `json:"memory_mib"`
	CPU    cluster.Sum     `json:"cpu_mhz"`
	// Budgets are the results of --fail-if.
	Budgets []budget.Result `json:"budgets,omitempty"`

	whole bool // whether the reasons of all advice are shown
}

// size advises on a cluster.
func (o *adviseOptions) size(cmd *cobra.Command, args []string) error {
	c, err := cluster.Connect(os.Getenv)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	defer c.Close()
	job := strings.Join(args, "")
	since := time.Now().AddDate(0, 0, -o.cluster.days)
	tasks, err := c.Tasks(cmd.Context(), job, since, o.watched(since))
	if err == nil && o.cluster.prometheus != "" {
		err = cluster.AddHistory(cmd.Context(), o.cluster.prometheus, o.cluster.days, tasks)
	}
	if err != nil {
		return err
	}
	s := &sizing{Days: o.cluster.days, whole: job != ""}
	for _, t := range tasks {
		size := t.Size(o.coreMHz)
		s.Tasks = append(s.Tasks, size)
		s.Memory.Add(&size.Memory, size.Count)
		s.CPU.Add(&size.CPU, size.Count)
	}
	for _, condition := range o.cluster.conditions {
		s.Budgets = append(s.Budgets, s.check(condition))
	}
	if o.cluster.diff {
		err = printPatches(cmd, c, tasks, s.Tasks)
	} else {
		err = cli.Print(cmd, o.format, s, s.text)
	}
	return errors.Join(err, budget.Report(s.Budgets, func(failed error) { cli.PrintError(cmd.ErrOrStderr(), failed) }))
}

// watched returns the records of tacho watch on this machine.
func (o *adviseOptions) watched(since time.Time) (watched []*record.Record) {
	entries, _ := record.ListBriefly(*o.outputDir) // most machines have none
	entries = slices.DeleteFunc(entries, func(e record.Entry) bool {
		return e.Err != nil || e.Record.Diagnosis.Verdict != record.Watched || !e.Record.StartedAt.After(since)
	})
	for _, e := range record.Whole(entries) {
		if e.Err == nil {
			watched = append(watched, e.Record)
		}
	}
	return watched
}

// shares are the numbers that --fail-if knows: of what the tasks request whose need is known.
func (s *sizing) shares() map[string]float64 {
	share := func(part int64, of *cluster.Sum) float64 { return float64(part) / float64(of.Requested) }
	return map[string]float64{
		"wasted_memory": share(s.Memory.Wasted, &s.Memory), "missing_memory": share(s.Memory.Missing, &s.Memory),
		"wasted_cpu": share(s.CPU.Wasted, &s.CPU), "missing_cpu": share(s.CPU.Missing, &s.CPU),
	}
}

// check holds the sums against a condition.
func (s *sizing) check(c budget.Condition) budget.Result {
	number := s.shares()[c.Measurement.Name]
	if math.IsNaN(number) {
		return c.CheckNumber(0, errors.New("not known: no task has enough data"))
	}
	return c.CheckNumber(number, nil)
}

// text returns the table of tasks, the sums, and why something is not advised.
func (s *sizing) text(p cli.Palette) string {
	table := cli.Table{
		Header: []string{"JOB", "GROUP", "TASK", "COUNT", "RUNS", "", "REQUESTED", "P50", "P95", "PEAK", "ADVISED", "SAVED"},
		Right:  []int{3, 4, 6, 7, 8, 9, 10, 11},
	}
	number := func(n *int64, g procstats.Guarantee) string {
		if n == nil {
			return procstats.NoValue
		}
		return cli.Bounded(g, strconv.FormatInt(*n, 10))
	}
	row := func(r *cluster.Resource, count int, cells ...string) {
		cells = append(cells, strconv.FormatInt(r.Requested, 10))
		for _, n := range []*int64{r.P50, r.P95, r.Peak} {
			cells = append(cells, number(n, r.Guarantee))
		}
		var saved *int64
		if r.Advised != nil {
			saved = new(int64(count) * r.Saved())
		}
		table.AddTexts(append(cells, number(r.Advised, ""), number(saved, ""))...)
	}
	sheet := cli.Sheet{Palette: p}
	for _, t := range s.Tasks {
		job := cluster.NameOf(t.Job, t.Namespace)
		row(&t.Memory, t.Count, job, t.Group, t.Task, strconv.Itoa(t.Count), strconv.Itoa(t.Runs), "memory MiB")
		row(&t.CPU, t.Count, "", "", "", "", "", "cpu MHz")
	}
	sheet.Table(&table)
	sheet.WriteString("\n" + sumText("Memory", "MiB", &s.Memory) + sumText("CPU", "MHz", &s.CPU))
	for _, t := range s.Tasks {
		if t.Memory.Advised != nil && !s.whole {
			continue
		}
		sheet.Title(cli.Printable(cluster.NameOf(t.Job, t.Namespace) + "/" + t.Group + "/" + t.Task))
		for _, line := range t.Why {
			sheet.WriteString(cli.Printable(line) + "\n")
		}
	}
	return sheet.String()
}

func sumText(name, unit string, s *cluster.Sum) string {
	text := fmt.Sprintf("%s: %d of %d %s requested are wasted (%.0f %%), %d %s are missing.", name, s.Wasted, s.Requested,
		unit, 100*float64(s.Wasted)/float64(max(1, s.Requested)), s.Missing, unit)
	if s.Unknown > 0 {
		text += fmt.Sprintf(" Not known of %d of %s.", s.Unknown, procstats.Counted(s.Known+s.Unknown, "task", "tasks"))
	}
	return text + "\n"
}

// printPatches prints the changes of the job files, and on stderr what is to be changed by hand.
func printPatches(cmd *cobra.Command, c *cluster.Cluster, tasks []*cluster.Task, sizes []*cluster.Size) error {
	for from := 0; from < len(tasks); {
		to := from
		for to < len(tasks) && tasks[to].Job == tasks[from].Job && tasks[to].Namespace == tasks[from].Namespace {
			to++
		}
		diff, notes := c.Patch(cmd.Context(), tasks[from:to], sizes[from:to])
		for _, note := range notes {
			fmt.Fprintln(cmd.ErrOrStderr(), "tacho: note: "+cli.Printable(note))
		}
		if _, err := io.WriteString(cmd.OutOrStdout(), diff); err != nil {
			return err
		}
		from = to
	}
	return nil
}
