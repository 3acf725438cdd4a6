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
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/version"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// platformCommands returns no commands: all of them need an executor.
func platformCommands() []*cobra.Command { return nil }

// killOrphans does nothing: there are no executors.
func killOrphans(context.Context) error { return nil }

// EndOrphans does nothing: there are no executors.
func EndOrphans(*cobra.Command) {}

// errTimeout is the cause of a cancellation by --timeout.
var errTimeout = errors.New("timeout")

// portableRun is a command that this process measures itself: the executor, cgroups and subreapers need Linux. It
// records what the system reports of processes, and notes what is missing.
type portableRun struct {
	options   *runOptions
	cmd       *cobra.Command
	selection procstats.Selection
	info      *record.Record
	store     *record.Store // nil with --no-files
	started   time.Time

	whole, current procstats.Window
	last           *procstats.Sample
}

// run runs a command once.
func run(
	cmd *cobra.Command, o *runOptions, selection procstats.Selection, args []string, id string,
) (*record.Record, error) {
	path, err := lookUp(args[0])
	if err != nil {
		return nil, err
	}
	if err := o.checkPortable(); err != nil {
		return nil, err
	}
	r := &portableRun{options: o, cmd: cmd, selection: selection, info: portableRecord(o, id, args, selection)}
	if !o.noFiles {
		dir, err := filepath.Abs(filepath.Join(o.outputDir, id))
		if err != nil {
			return nil, err
		}
		if r.store, err = record.Create(dir); err != nil {
			return nil, err
		}
		defer r.store.Close()
	}
	err = r.run(cmd.Context(), path, args)
	if r.info.State != record.Exited {
		return nil, err
	}
	return r.info, err
}

// checkPortable rejects flags that need Linux.
func (o *runOptions) checkPortable() error {
	for flag, given := range map[string]bool{
		"--detach": o.detach, "--cgroup-parent": o.request.Cgroup.Parent != "", "--user": o.request.User != "",
		"--capture": len(o.capture) > 0, "--record-fd": o.recordFD > 0, "--wait-all": o.request.WaitForAll,
		"a limit such as --memory": o.request.Limits != nil,
	} {
		if given {
			return cli.Usagef("%s: only supported on Linux", flag)
		}
	}
	return nil
}

func portableRecord(o *runOptions, id string, args []string, selection procstats.Selection) *record.Record {
	host := record.Host{OS: runtime.GOOS, CPUs: runtime.NumCPU()}
	host.Name, _ = os.Hostname() // a host without a name has none in the record
	return &record.Record{
		Version: record.Version{SchemaVersion: record.SchemaVersion, TachoVersion: version.String()},
		State:   record.Running, ID: id, Command: args, Origin: record.Origin{Message: o.request.Message},
		Headline: map[string]record.HeadlineValue{}, Measurements: map[string]any{}, Absent: map[string]string{},
		Surroundings: record.Surroundings{Selection: selection.Names()},
		Sampling:     record.Sampling{Interval: o.interval.Seconds(), FirstInterval: o.firstInterval.Seconds()},
		About: record.About{Labels: o.request.Labels, Host: host, Notes: []string{
			"measured without an executor, which needs Linux: processes whose parents have exited are not measured",
		}},
	}
}

func (r *portableRun) run(ctx context.Context, path string, args []string) error {
	if timeout := time.Duration(r.options.request.TimeoutNs); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	// The command is in our process group and receives the signals of the terminal itself.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	child := exec.CommandContext(ctx, path, args[1:]...)
	child.Args[0] = args[0]
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	r.started = time.Now()
	if err := child.Start(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return cli.ExitWith(exitNotFound, err)
		}
		return cli.ExitWith(exitNotExecutable, err)
	}
	r.info.PID, r.info.StartedAt = child.Process.Pid, r.started
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

func (r *portableRun) addPoint(s *procstats.Sample) {
	if r.store == nil {
		return
	}
	if err := r.store.AddSample(series.PointOf(r.last, s)); err != nil {
		r.info.Incomplete = cmp.Or(r.info.Incomplete, err.Error())
	}
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
		r.addPoint(s)
		r.last = s
		r.whole.Add(s)
		r.current.Add(s)
		if time.Since(reported) >= cmp.Or(r.options.reportInterval, time.Minute) {
			reported = time.Now()
			r.report()
		}
		r.info.Sources = record.SourcesOf(collector.Describe())
		if r.info.Samples++; time.Since(r.started) >= record.FirstTime {
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
		if err := r.store.Append(record.NewUsage(&r.current, r.last, r.selection, r.info.Host.CPUs), false); err != nil {
			cli.PrintError(r.cmd.ErrOrStderr(), err)
		}
	}
	r.current.Advance()
}

func (r *portableRun) put() {
	if r.store == nil {
		return
	}
	if err := r.store.Put(r.info); err != nil {
		cli.PrintError(r.cmd.ErrOrStderr(), err)
	}
}

// finish completes the record and returns the command's exit code.
func (r *portableRun) finish(cause error, state *os.ProcessState) error {
	r.report()
	info, ended := r.info, time.Now()
	wall, code := ended.Sub(r.started), state.ExitCode()
	seconds := wall.Seconds()
	info.State, info.EndedAt, info.WallSeconds, info.ExitCode = record.Exited, ended, &seconds, &code
	evidence := record.Evidence{ExitCode: code, Wall: wall, Span: wall, Last: r.last}
	if errors.Is(cause, errTimeout) {
		evidence.Cause, code = record.TimedOut, exitTimedOut
	}
	info.Diagnosis = record.Diagnose(evidence)
	final := record.MergeFinal(&procstats.Sample{Stamp: r.last.Stamp}, r.last)
	final.SetNumber(procstats.RusageCPU, (state.UserTime() + state.SystemTime()).Seconds())
	r.whole.Add(final)
	info.Measurements, info.Absent = record.Values(final.Task)
	past := procstats.History{Elapsed: wall, Ended: true, Window: &r.whole, CPUs: info.Host.CPUs}
	info.Headline = record.Headlines(procstats.Headlines(final, past))
	info.Processes = record.ProcessesOf(&r.whole, final, true, nil)
	r.put()
	if err := r.printResult(); err != nil {
		cli.PrintError(r.cmd.ErrOrStderr(), err)
	}
	if code != 0 {
		return cli.ExitWith(code, nil)
	}
	return nil
}

// printResult writes the result to the chosen destination.
func (r *portableRun) printResult() error {
	o, name := r.options, r.info.ID
	if r.store == nil {
		name = ""
	}
	if o.recordFile != "" {
		file, err := os.OpenFile(o.recordFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(o.writeResult(r.cmd, file, name, r.info), file.Close())
	}
	if o.silent() {
		return nil
	}
	return o.writeResult(r.cmd, r.cmd.ErrOrStderr(), name, r.info)
}

// blockDevice returns an error: only Linux limits block devices.
func blockDevice(name string) (string, error) {
	return "", fmt.Errorf("limits of block devices: %w", errors.ErrUnsupported)
}
