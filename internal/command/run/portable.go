// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux || portable

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

// portableRun is a command that this process measures and stops itself: the executor, cgroups and subreapers need
// Linux. One goroutine does everything but wait. It records what the system reports of processes.
type portableRun struct {
	launch

	info      *record.Record
	store     *record.Store // nil with --no-files
	output    *recordOutput // nil for stderr
	group     *group
	collector *source.Collector

	whole, current procstats.Window
	last           *procstats.Sample // the newest one that had a process
	reported       time.Time

	evidence record.Evidence
	reaped   source.Reaped
	kill     <-chan time.Time // when everything is killed; nil while nothing is being stopped
	kills    int
}

// end is how a command ended. signal has Linux's number of it, as records do, and none on Windows; code is that of the
// shell.
type end struct {
	code, signal int
	used         source.Reaped
	err          error
}

// mostKills bounds how often everything is killed, every 100 ms: what a disk or a debugger holds cannot be waited for.
const mostKills = 50

// run runs a command once.
func run(l launch) (*record.Record, error) {
	o := l.options
	if err := o.checkPortable(); err != nil {
		return nil, err
	}
	r := &portableRun{launch: l, info: l.newRecord()}
	r.info.Sampling = record.Sampling{Interval: o.interval.Seconds(), FirstInterval: o.firstInterval.Seconds()}
	self, err := source.Identify(kernel.HostFS(), os.Getpid())
	if err != nil {
		return nil, err
	}
	var home procstats.Home
	if runtime.GOOS == "linux" { // others have no boot id
		home, _ = kernel.OwnHome(kernel.HostFS())
	}
	r.info.SetExecutor(home, self)
	if r.output, err = o.openOutput(); err != nil {
		return nil, err
	}
	err = r.run()
	if r.info.State != record.Exited {
		return nil, errors.Join(err, r.output.discard())
	}
	return r.info, err
}

// checkPortable rejects flags that have no effect here.
func (o *runOptions) checkPortable() error {
	given := o.given(append(o.noEffect(), "detach", "cgroup-parent", "user", "capture", "record-fd", "runtime-dir",
		"sampling-budget")...)
	if o.request.Limits != nil {
		given = append(given, "a limit such as --memory")
	}
	if len(given) > 0 {
		return cli.Usagef("%s: only supported on Linux", given[0])
	}
	return nil
}

func (r *portableRun) createStore() error {
	if r.options.noFiles {
		return nil
	}
	dir, err := cli.Absolute(filepath.Join(r.options.outputDir, r.id))
	if err == nil {
		r.store, err = record.Create(dir)
	}
	if err != nil && r.withoutFiles(err) {
		return nil
	}
	return err
}

// run runs the command to the end of its last process. What cannot be measured or supervised is found out before there
// is a record.
func (r *portableRun) run() error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, caught()...)
	defer signal.Stop(signals)
	var err error
	if r.group, err = newGroup(r.options); err != nil {
		return err
	}
	defer r.group.close()
	r.collector = source.Open(source.Target{
		FS: kernel.HostFS(), Roots: r.group.members, Reaped: func() source.Reaped { return r.reaped }, Job: r.group.totals,
		Seen: r.group.see, Dir: r.options.disk, MaxRows: r.options.maxRows,
	}, r.selection)
	defer r.collector.Close() // nothing is kept open on these systems
	if err = r.checkAvailable(); err == nil {
		err = r.createStore()
	}
	if err != nil {
		return err
	}
	child, err := r.start()
	if err == nil {
		r.info.PID = child.Process.Pid
		r.fault(r.output.truncate())
		r.put()
		err = r.follow(child, signals)
	} else if r.store != nil {
		return errors.Join(err, r.store.Put(r.refused(err.Error())), r.store.Close())
	}
	if err != nil {
		return err
	}
	return r.finish()
}

// start starts the command; an error is that of the command.
func (r *portableRun) start() (*exec.Cmd, error) {
	path, err := findCommand(r.args[0])
	if err != nil {
		return nil, err
	}
	r.info.StartedAt = time.Now()
	r.put()
	child := exec.Command(path, r.args[1:]...)
	child.Args[0] = r.args[0]
	child.Stdin, child.Stdout, child.Stderr = r.stdin.file, os.Stdout, os.Stderr
	err = r.group.start(child)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = cli.ExitWith(exitNotFound, err)
	case err != nil:
		err = cli.ExitWith(exitNotExecutable, err)
	}
	return child, err
}

// checkAvailable rejects a measurement that was asked for by name and does not exist here, or all of a group.
func (r *portableRun) checkAvailable() error {
	for _, name := range r.options.named() {
		group, err := procstats.ParseSelection(name)
		if gone := r.collector.Unavailable(group); err == nil && len(gone) > 0 && len(gone) == len(group.IDs()) {
			return fmt.Errorf("no measurement of %s is available here: %s", name, gone[0].Reason())
		}
	}
	return nil
}

// follow samples, forwards and stops until the last process has ended.
func (r *portableRun) follow(child *exec.Cmd, signals <-chan os.Signal) error {
	o := r.options
	var timeout <-chan time.Time
	if limit := time.Duration(o.request.TimeoutNs); limit > 0 {
		timeout = time.After(limit)
	}
	ended := make(chan end, 1)
	go func() { ended <- r.group.wait(child) }()
	ticker := time.NewTicker(cmp.Or(o.firstInterval, o.interval))
	defer ticker.Stop()
	r.reported = time.Now()
	r.sample()
	var left <-chan time.Time // when to look for processes that outlive the command
	for {
		select {
		case <-ticker.C:
			if r.sample(); time.Since(r.info.StartedAt) >= record.FirstTime {
				ticker.Reset(o.interval)
			}
		case s := <-signals:
			var closing string
			if r.evidence.Forwarded, closing = r.group.forward(s); closing != "" {
				r.stop(record.Stopped, closing)
			}
		case <-timeout:
			r.stop(record.TimedOut, "")
		case <-r.kill:
			r.kills++
			r.look()
			r.group.kill()
			r.kill = time.After(100 * time.Millisecond) // what was being started meanwhile
		case end := <-ended:
			if end.err != nil {
				return fmt.Errorf("wait for the command: %w", end.err)
			}
			r.ended(end)
			left = time.After(0)
		case <-left:
			now := r.look()
			if len(now.Processes)+len(r.group.members()) == 0 || r.kills > mostKills {
				return nil
			}
			if r.kill == nil && !o.request.WaitForAll {
				r.evidence.Leftovers = record.Leftovers{}
				for _, p := range now.Processes {
					r.evidence.Leftovers[p.Command]++
				}
				r.stop("", "")
			}
			left = time.After(20 * time.Millisecond)
		}
	}
}

// ended notes how the main process ended.
func (r *portableRun) ended(end end) {
	e := &r.evidence
	r.reaped = end.used
	e.ExitCode, e.Signal, e.EndedAt = end.code, end.signal, time.Now()
	e.Timeout = time.Duration(r.options.request.TimeoutNs)
	e.Wall, e.WaitedForAll = e.EndedAt.Sub(r.info.StartedAt), r.options.request.WaitForAll
}

// stop asks all processes to end, and sees that those are killed that do not.
func (r *portableRun) stop(cause record.Verdict, reason string) {
	if cause != "" {
		r.evidence.Cause, r.evidence.Reason, r.evidence.AfterMain = cause, reason, !r.evidence.EndedAt.IsZero()
	}
	if r.kill == nil {
		r.look()
		r.group.stop()
		r.kill = time.After(time.Duration(r.options.request.KillGraceNs))
	}
}

// look returns the processes there are now.
func (r *portableRun) look() *procstats.Sample {
	s := &procstats.Sample{}
	r.collector.Collect(s)
	return s
}

// sample adds a look to the record.
func (r *portableRun) sample() {
	s := r.look()
	if !record.Inhabited(s) {
		return
	}
	r.addPoint(s)
	from := cmp.Or(r.last, s)
	r.info.LargestGap = max(r.info.LargestGap, (s.Mono - from.Mono).Seconds())
	r.last = s
	r.info.Samples++
	r.whole.Add(s)
	r.current.Add(s)
	if time.Since(r.reported) >= cmp.Or(r.options.reportInterval, time.Minute) {
		r.reported = time.Now()
		r.report()
	}
}

func (r *portableRun) addPoint(s *procstats.Sample) {
	if r.store != nil {
		r.fault(r.store.AddSample(series.PointOf(r.last, s)))
	}
}

func (r *portableRun) report() {
	if r.store != nil && r.current.Samples() > 0 {
		r.fault(r.store.Append(record.NewUsage(&r.current, r.last, r.selection, r.info.Host.CPUs), false))
	}
	r.current.Advance()
}

func (r *portableRun) put() {
	if r.store != nil {
		r.fault(r.store.Put(r.info))
	}
}

// fault prints an error of the record, which does not end the run, and notes the first one; nothing for nil.
func (r *portableRun) fault(err error) {
	if err != nil && r.info.Incomplete == "" {
		r.info.Incomplete = err.Error()
		cli.PrintError(r.cmd.ErrOrStderr(), err)
	}
}

// finish completes the record and returns the command's exit code.
func (r *portableRun) finish() error {
	info, e, now := r.info, &r.evidence, time.Now()
	e.Span = now.Sub(info.StartedAt)
	info.SetEnd(e)
	e.OOMAfter.Reason = "only Linux counts OOM kills"
	e.OOMBefore, e.Last = e.OOMAfter, r.last
	if r.last != nil {
		e.LastAge = now.Sub(r.last.Wall)
	}
	info.Diagnosis = record.Diagnose(*e)
	final := record.MergeFinal(r.look(), r.last)
	r.addPoint(final)
	r.whole.Add(final)
	r.current.Add(final)
	r.last = cmp.Or(r.last, final)
	r.report()
	info.SetMeasured(final)
	past := procstats.History{Elapsed: e.Span, Ended: true, Window: &r.whole, CPUs: info.Host.CPUs}
	info.Headline = record.Headlines(procstats.Headlines(final, past))
	info.Processes, info.Peak = record.ProcessesOf(&r.whole, final, true, nil), record.PeakOf(&r.whole, r.last)
	info.Sources = record.SourcesOf(r.collector.Describe())
	r.put()
	if r.store != nil {
		r.fault(r.store.Close())
	}
	r.fault(r.options.report(r.cmd, r.output, info))
	return exitOf(info)
}

// openDescriptor is not called: checkPortable rejects --record-fd.
func (o *runOptions) openDescriptor() (*recordOutput, error) { return nil, errors.ErrUnsupported }

// blockDevice returns an error: only Linux limits block devices.
func blockDevice(name string) (string, error) {
	return "", fmt.Errorf("limits of block devices: %w", errors.ErrUnsupported)
}
