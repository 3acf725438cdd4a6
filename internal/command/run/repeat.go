// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
)

// quietly returns options with which nothing is printed of a run but errors and the live line.
func (o *runOptions) quietly() runOptions {
	once := *o
	once.request = protobuf.CloneOf(o.request)
	once.recordFile, once.recordFD = "", 0
	once.format, once.summary = cli.NewChoice("text"), cli.NewChoice("none")
	return once
}

// warmUp runs a command without a record.
func warmUp(cmd *cobra.Command, o *runOptions, selection procstats.Selection, args []string, id string) error {
	once := o.quietly()
	once.noFiles, once.capture = true, nil
	interrupts := newInterrupts()
	defer signal.Stop(interrupts)
	for n := range o.warmUp {
		which := fmt.Sprintf("run %d of %d before the measured ones", n+1, o.warmUp)
		if final, err := run(cmd, &once, selection, args, fmt.Sprintf("%s-warmup%d", id, n+1)); err != nil {
			return stopped(cmd, which, final, err)
		}
		if err := interrupted(interrupts, which); err != nil {
			return err
		}
	}
	return nil
}

// stopped says which run failed. final is nil if it has no record.
func stopped(cmd *cobra.Command, which string, final *record.Record, err error) error {
	if final != nil {
		cli.PrintError(cmd.ErrOrStderr(), fmt.Errorf("%s: %s", which, final.End().Summary))
	}
	return err
}

// newInterrupts returns a channel with the first signal that ends this process and is not ignored: one that comes at
// the end of a run would otherwise be lost, as the next run begins.
func newInterrupts() chan os.Signal {
	interrupts := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(interrupts, s)
		}
	}
	return interrupts
}

// interrupted returns the error for a signal that has come; nil for none.
func interrupted(interrupts <-chan os.Signal, which string) error {
	select {
	case s := <-interrupts:
		number, _ := s.(syscall.Signal)
		return cli.ExitWith(exitSignalBase+int(number), fmt.Errorf("stopped after %s by signal: %s", which, s))
	default:
		return nil
	}
}

// seriesName is the name of one run of a series; the first is 1.
func seriesName(id string, n int) string { return fmt.Sprintf("%s-%03d", id, n) }

// runRepeatedly runs a command several times, one after the other, and prints what the runs used on average. It ends
// with the first run that fails.
func runRepeatedly(
	cmd *cobra.Command, o *runOptions, selection procstats.Selection, args []string, id string,
) (err error) {
	out := cmd.ErrOrStderr()
	if o.recordFile != "" {
		file, err := os.OpenFile(o.recordFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("--record-file: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	once := o.quietly()
	name := func(n int) string { return seriesName(id, n) }
	once.request.Labels = map[string]string{repeat.Label: name(1)}
	maps.Copy(once.request.Labels, o.request.Labels)
	all := repeat.Group{Name: name(1)}
	var finals []*record.Record
	interrupts := newInterrupts()
	defer signal.Stop(interrupts)
	for n := range o.runs {
		final, err := run(cmd, &once, selection, args, name(n+1))
		which := fmt.Sprintf("run %d of %d", n+1, o.runs)
		if err != nil {
			return stopped(cmd, which, final, err)
		}
		if err := interrupted(interrupts, which); err != nil && n+1 < o.runs {
			return err
		}
		finals = append(finals, final)
		all.Runs = append(all.Runs, record.Entry{Name: name(n + 1), Record: final})
	}
	rows := repeat.Compare(all)
	if err := o.writeSeries(cmd, out, rows, finals[0]); err != nil {
		return err
	}
	markdown := func(_ *record.Record, results []budget.Result) string {
		return summary.Title(finals[0].Command) + fmt.Sprintf("%d runs\n\n", len(finals)) +
			repeat.Markdown(rows) + summary.Budgets(results)
	}
	return o.judge(cmd, finals, markdown, nil)
}

// writeSeries writes rows as --format says.
func (o *runOptions) writeSeries(cmd *cobra.Command, out io.Writer, rows []repeat.Row, first *record.Record) error {
	switch {
	case o.format.String() == "json":
		return repeat.Write(out, cli.Palette{}, "json", rows)
	case o.recordFile == "" && o.silent():
		return nil
	}
	_, err := fmt.Fprintf(out, "tacho: %d runs of %s\n", o.runs, cli.CommandLine(first.Command))
	err = errors.Join(err, repeat.Write(out, cli.PaletteFor(cmd, out), "table", rows))
	if err == nil && !o.noFiles {
		_, err = fmt.Fprintf(out, "  tacho compare %s\n", rundir.Word(o.outputDir, first.ID))
	}
	return err
}
