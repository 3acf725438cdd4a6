// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
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
	"github.com/tachograph/tacho/internal/cluster"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

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
	number := func(n *int64) string {
		if n == nil {
			return procstats.NoValue
		}
		return strconv.FormatInt(*n, 10)
	}
	row := func(r *cluster.Resource, count int, cells ...string) {
		var saved *int64
		if r.Advised != nil {
			saved = new(int64(count) * r.Saved())
		}
		for _, n := range []*int64{&r.Requested, r.P50, r.P95, r.Peak, r.Advised, saved} {
			cells = append(cells, number(n))
		}
		table.AddTexts(cells...)
	}
	sheet := cli.Sheet{Palette: p}
	for _, t := range s.Tasks {
		row(&t.Memory, t.Count, t.Job, t.Group, t.Task, strconv.Itoa(t.Count), strconv.Itoa(t.Runs), "memory MiB")
		row(&t.CPU, t.Count, "", "", "", "", "", "cpu MHz")
	}
	sheet.Table(&table)
	sheet.WriteString("\n" + sumText("Memory", "MiB", &s.Memory) + sumText("CPU", "MHz", &s.CPU))
	for _, t := range s.Tasks {
		if t.Memory.Advised != nil && !s.whole {
			continue
		}
		sheet.Title(cli.Printable(t.Job + "/" + t.Group + "/" + t.Task))
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
