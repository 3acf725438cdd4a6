// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// platformCommands returns no commands: all of them need an executor.
func platformCommands() []*cobra.Command { return nil }

// killOrphans does nothing: there are no executors.
func killOrphans(context.Context, ...string) error { return nil }

// EndOrphans does nothing: there are no executors.
func EndOrphans(*cobra.Command) {}

// errTimeout is the cause of a cancellation by --timeout.
var errTimeout = errors.New("timeout")

// portableRun is a command that this process measures itself: the executor, cgroups and subreapers need Linux. It
// records what the system reports of processes, and notes what is missing.
type portableRun struct {
	launch

	info   *record.Record
	store  *record.Store // nil with --no-files
	output *recordOutput // nil for stderr

	whole, current procstats.Window
	last           *procstats.Sample
}

// run runs a command once.
func run(l launch) (*record.Record, error) {
	o := l.options
	path, err := findCommand(l.args[0])
	if err = cmp.Or(err, o.checkPortable()); err != nil {
		return nil, err
	}
	r := &portableRun{launch: l, info: l.newRecord()}
	r.info.Sampling = record.Sampling{Interval: o.interval.Seconds(), FirstInterval: o.firstInterval.Seconds()}
	r.info.Notes = []string{
		"measured without an executor, which needs Linux: processes whose parents have exited are not measured",
	}
	if r.output, err = o.openOutput(); err != nil {
		return nil, err
	}
	if !o.noFiles {
		dir, err := cli.Absolute(filepath.Join(o.outputDir, l.id))
		if err == nil {
			r.store, err = record.Create(dir)
		}
		if err != nil && !r.withoutFiles(err) {
			return nil, errors.Join(err, r.output.discard())
		}
		if r.store != nil {
			defer r.store.Close()
		}
	}
	err = r.run(l.cmd.Context(), path)
	if r.info.State != record.Exited {
		return nil, errors.Join(err, r.output.discard())
	}
	return r.info, err
}

// checkPortable rejects flags that need Linux.
func (o *runOptions) checkPortable() error {
	given := o.given("detach", "cgroup-parent", "user", "capture", "record-fd", "runtime-dir", "wait-all")
	if o.request.Limits != nil {
		given = append(given, "a limit such as --memory")
	}
	if len(given) > 0 {
		return cli.Usagef("%s: only supported on Linux", given[0])
	}
	return nil
}

func (r *portableRun) run(ctx context.Context, path string) error {
	if timeout := time.Duration(r.options.request.TimeoutNs); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	// The command is in our process group and receives the signals of the terminal itself.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	child := exec.CommandContext(ctx, path, r.args[1:]...)
	child.Args[0] = r.args[0]
	child.Stdin, child.Stdout, child.Stderr = r.stdin.file, os.Stdout, os.Stderr
	r.info.StartedAt = time.Now()
	if err := child.Start(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return cli.ExitWith(exitNotFound, err)
		}
		return cli.ExitWith(exitNotExecutable, err)
	}
	r.info.PID = child.Process.Pid
	r.fault(r.output.truncate())
	r.put()
	sampling, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { r.sample(sampling, child.Process.Pid) })
	err := child.Wait()
	stop()
	work.Wait()
	if child.ProcessState == nil {
		return fmt.Errorf("wait for the command: %w", err)
	}
	return r.finish(context.Cause(ctx), child.ProcessState)
}

// sample reads the process and its descendants once an interval.
func (r *portableRun) sample(ctx context.Context, pid int) {
	collector := source.Open(source.Target{
		FS: kernel.HostFS(), Roots: func() []int { return []int{pid} }, MaxRows: r.options.maxRows,
	}, r.selection)
	defer collector.Close() // nothing is kept open on these systems
	ticker := time.NewTicker(cmp.Or(r.options.firstInterval, r.options.interval))
	defer ticker.Stop()
	reported := time.Now()
	for {
		s := &procstats.Sample{}
		collector.Collect(s)
		if r.store != nil {
			if err := r.store.AddSample(series.PointOf(r.last, s)); err != nil {
				r.info.Incomplete = cmp.Or(r.info.Incomplete, err.Error())
			}
		}
		r.last = s
		r.whole.Add(s)
		r.current.Add(s)
		if time.Since(reported) >= cmp.Or(r.options.reportInterval, time.Minute) {
			reported = time.Now()
			r.report()
		}
		r.info.Sources = record.SourcesOf(collector.Describe())
		if r.info.Samples++; time.Since(r.info.StartedAt) >= record.FirstTime {
			ticker.Reset(r.options.interval)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *portableRun) report() {
	if r.store != nil {
		r.fault(r.store.Append(record.NewUsage(&r.current, r.last, r.selection, r.info.Host.CPUs), false))
	}
	r.current.Advance()
}

func (r *portableRun) put() {
	if r.store != nil {
		r.fault(r.store.Put(r.info))
	}
}

// fault prints an error, which does not end the run; nothing for nil.
func (r *portableRun) fault(err error) { cli.PrintError(r.cmd.ErrOrStderr(), err) }

// finish completes the record and returns the command's exit code.
func (r *portableRun) finish(cause error, state *os.ProcessState) error {
	r.report()
	info, ended := r.info, time.Now()
	wall, code := ended.Sub(info.StartedAt), state.ExitCode()
	seconds := wall.Seconds()
	info.State, info.EndedAt, info.WallSeconds, info.ExitCode = record.Exited, ended, &seconds, &code
	timeout := time.Duration(r.options.request.TimeoutNs)
	evidence := record.Evidence{ExitCode: code, Wall: wall, Span: wall, Timeout: timeout, Last: r.last}
	if errors.Is(cause, errTimeout) {
		evidence.Cause, code = record.TimedOut, exitTimedOut
	}
	info.Diagnosis = record.Diagnose(evidence)
	final := record.MergeFinal(&procstats.Sample{Stamp: r.last.Stamp}, r.last)
	final.SetNumber(procstats.RusageCPU, (state.UserTime() + state.SystemTime()).Seconds())
	r.whole.Add(final)
	info.SetMeasured(final)
	past := procstats.History{Elapsed: wall, Ended: true, Window: &r.whole, CPUs: info.Host.CPUs}
	info.Headline = record.Headlines(procstats.Headlines(final, past))
	info.Processes = record.ProcessesOf(&r.whole, final, true, nil)
	r.put()
	r.fault(r.options.report(r.cmd, r.output, info))
	return exitOf(info)
}

// openDescriptor is not called: checkPortable rejects --record-fd.
func (o *runOptions) openDescriptor() (*recordOutput, error) { return nil, errors.ErrUnsupported }

// blockDevice returns an error: only Linux limits block devices.
func blockDevice(name string) (string, error) {
	return "", fmt.Errorf("limits of block devices: %w", errors.ErrUnsupported)
}
