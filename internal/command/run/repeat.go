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
)

// quietly returns a launch that prints nothing but errors and the live line.
func (l launch) quietly() launch {
	once := *l.options
	once.request = protobuf.CloneOf(once.request)
	once.recordFile, once.recordFD = "", 0
	once.format, once.summary = cli.NewChoice("text"), cli.NewChoice("none")
	l.options = &once
	return l
}

// warmUp runs a command without a record.
func (l launch) warmUp() error {
	once := l.quietly()
	once.options.noFiles, once.options.capture = true, nil
	name := func(n int) string { return fmt.Sprintf("%s-warmup%d", l.id, n) }
	_, err := once.runTimes(l.options.warmUp, " before the measured ones", true, name)
	return err
}

// runTimes runs a command several times, until a run fails or a signal ends this process. more says that other runs
// follow.
func (l launch) runTimes(
	times int, what string, more bool, name func(n int) string,
) (finals []*record.Record, err error) {
	// A signal that comes at the end of a run would be lost as the next one begins.
	interrupts := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(interrupts, s)
		}
	}
	defer signal.Stop(interrupts)
	for n := 1; n <= times; n++ {
		which := fmt.Sprintf("run %d of %d%s", n, times, what)
		if err := l.stdin.rewind(); err != nil {
			return nil, err
		}
		l.id = name(n)
		final, err := run(l)
		if err != nil {
			if final != nil {
				cli.PrintError(l.cmd.ErrOrStderr(), fmt.Errorf("%s: %s", which, final.End().Summary))
			}
			return nil, err
		}
		finals = append(finals, final)
		select {
		case s := <-interrupts:
			if number, _ := s.(syscall.Signal); more || n < times {
				return nil, cli.ExitWith(exitSignalBase+int(number), fmt.Errorf("stopped after %s by signal: %s", which, s))
			}
		default:
		}
	}
	return finals, nil
}

// seriesName is the name of one run of a series; the first is 1.
func seriesName(id string, n int) string { return fmt.Sprintf("%s-%03d", id, n) }

// runRepeatedly runs a command several times, one after the other, and prints what the runs used on average. It ends
// with the first run that fails.
func (l launch) runRepeatedly() (err error) {
	o, out := l.options, l.cmd.ErrOrStderr()
	if o.recordFile != "" {
		file, err := os.OpenFile(o.recordFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("--record-file: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	once := l.quietly()
	name := func(n int) string { return seriesName(l.id, n) }
	labels := map[string]string{repeat.Label: name(1)}
	maps.Copy(labels, o.request.Labels)
	once.options.request.Labels = labels
	finals, err := once.runTimes(o.runs, "", false, name)
	if err != nil {
		return err
	}
	all := repeat.Group{Name: name(1)}
	for i, final := range finals {
		all.Runs = append(all.Runs, record.Entry{Name: name(i + 1), Record: final})
	}
	o.noFiles = once.options.noFiles // as the first run found
	rows := repeat.Compare(all)
	if err := o.writeSeries(l.cmd, out, rows, finals[0]); err != nil {
		return err
	}
	markdown := func(_ *record.Record, results []budget.Result) string {
		return summary.Title(finals[0].Command) + fmt.Sprintf("%d runs\n\n", len(finals)) +
			repeat.Markdown(rows) + summary.Budgets(results)
	}
	return o.judge(l.cmd, finals, markdown, nil)
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
