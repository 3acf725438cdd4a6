// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// recorder keeps the record of a task: it samples where an interval asks for it, and writes the run's files.
type recorder struct {
	log      hclog.Logger
	store    *record.Store // nil if no files are asked for
	interval time.Duration
	// firstInterval is that of the first minute; 0 if it is the same.
	firstInterval time.Duration
	report        time.Duration // between lines of usage.jsonl
	// growing is how long the time of the next line is that stays, if lines cover four times the time of the one
	// before; otherwise 0.
	growing time.Duration

	info     *record.Record
	reader   *reader.Reader
	exits    *reader.Exits // nil if nothing is sampled
	forked   time.Time
	baseline *procstats.Sample
	// inheritsPeak is the task's.
	inheritsPeak bool
	unread       string           // why the last totals are from before the end; empty if they are not
	unreadOf     []procstats.Unit // which of them; empty for all
	// The whole run and the current report; used by run, and by finish after it.
	whole, current procstats.Window
	last           *procstats.Sample // the newest one
	reportEnds     time.Duration

	looks looks
}

// looks are when a task was sampled, and what of it has been seen.
type looks struct {
	at, gap time.Duration // the last look, or the start, on CLOCK_MONOTONIC; the longest time without one
	skipped int           // looks at the totals only
}

// add notes a look.
func (l *looks) add(at time.Duration) {
	if l.at > 0 {
		l.gap = max(l.gap, at-l.at)
	}
	l.at = at
}

// start writes the record of a task that is about to be started. If that fails the task is not: without a record a
// run cannot be stopped by its name, and how it ended is lost.
func (r *recorder) start() error {
	if r.store == nil {
		return nil
	}
	if err := r.store.Put(r.info); err != nil {
		return err
	}
	return r.store.Reserve()
}

// started completes it with the main process.
func (r *recorder) started(main procstats.ProcessID, forked time.Time) {
	r.forked = forked
	r.info.PID, r.info.StartTicks, r.info.StartedAt = main.PID, main.Start, forked
	if r.put(); r.store != nil {
		_ = r.store.Reserve() // else the last record is written if there is room by then
	}
}

// abandon gives up the record of a task that was not started.
func (r *recorder) abandon() error {
	if r == nil || r.store == nil {
		return nil
	}
	return errors.Join(r.store.RemoveTemporary(), r.store.Close())
}

func (r *recorder) put() {
	if r.store == nil {
		return
	}
	if err := r.store.Put(r.info); err != nil {
		r.fault("write the record", err)
	}
}

// fault keeps the first reason why the run's files lack something, for callers that get the record over the wire.
func (r *recorder) fault(operation string, err error) {
	r.log.Error(operation, "error", err)
	r.info.Incomplete = cmp.Or(r.info.Incomplete, err.Error())
}

// firstLook is when a task is sampled first: a process that has just been forked has nothing to show, and a task
// that is over before is spared the cost.
const firstLook = 20 * time.Millisecond

// run makes the record last once the task stays, and samples until ctx ends. With an interval of 0 nothing is read.
func (r *recorder) run(ctx context.Context) {
	r.looks.add(kernel.Now().Mono)
	r.reportEnds = r.looks.at + r.report
	look := firstLook
	if r.interval > 0 {
		look = min(look, r.interval)
	}
	select {
	case <-time.After(look):
	case <-ctx.Done():
		return
	}
	if r.store != nil {
		if err := r.store.Sync(); err != nil {
			r.fault("write the record", err)
		}
	}
	if r.interval <= 0 {
		<-ctx.Done()
		return
	}
	r.exits.Try()
	if r.firstInterval > 0 {
		first, cancel := context.WithTimeout(ctx, record.FirstTime)
		r.sample(first, r.firstInterval)
		cancel()
	}
	r.sample(ctx, r.interval)
}

// sample samples at an interval until ctx ends.
func (r *recorder) sample(ctx context.Context, interval time.Duration) {
	pace := r.reader.Pacer.Start(interval)
	defer pace.End()
	ticks(ctx, pace, func() bool {
		if ctx.Err() != nil {
			return true
		}
		rows := affordsRows(r.reader, pace)
		if r.add(r.reader.Get(interval/2, rows)); !rows {
			r.looks.skipped++
		}
		return true
	})
}

func (r *recorder) add(s *procstats.Sample) {
	if s == r.last || !record.Inhabited(s) { // the gauges of a task without a process mean nothing
		return
	}
	r.addPoint(s)
	r.looks.add(s.Mono)
	r.last = s
	r.count(s)
	if s.Mono >= r.reportEnds {
		late := (s.Mono - r.reportEnds) % r.report
		r.reportEnds = s.Mono - late + r.report
		r.writeReport(r.reader.WithRows(r.last), r.provisional())
	}
}

// count adds a sample to the run, and to the current report if there is a file for it.
func (r *recorder) count(s *procstats.Sample) {
	if r.whole.Add(s); r.store != nil {
		r.current.Add(s)
	}
}

// longestReport bounds what reports take on disk: the line after one of this length covers all the rest of the run.
const longestReport = 256 * time.Minute

// provisional reports whether the window of a growing report goes on.
func (r *recorder) provisional() bool {
	if r.growing == 0 {
		return false
	}
	first, last := r.current.Span()
	if r.growing > longestReport || last.Mono-first.Mono < r.growing-r.report/2 {
		return true
	}
	r.growing *= 4
	return false
}

// addPoint adds to samples.csv what was read since the sample before.
func (r *recorder) addPoint(s *procstats.Sample) {
	if r.store == nil {
		return
	}
	if err := r.store.AddSample(series.PointOf(cmp.Or(r.last, r.baseline), s)); err != nil {
		r.fault("write samples", err)
	}
}

// writeReport appends one line to usage.jsonl and, unless the line is provisional, begins the next window.
func (r *recorder) writeReport(rows *procstats.Sample, provisional bool) {
	if r.store != nil && r.current.Samples() > 0 {
		usage := record.NewUsage(&r.current, rows, r.reader.Selection, r.cpus())
		usage.Commands = r.commandsSoFar()
		if err := r.store.Append(usage, provisional); err != nil {
			r.fault("write a report", err)
		}
	}
	if !provisional {
		r.current.Advance()
	}
}

func (r *recorder) cpus() int { return kernel.CPUs(r.reader.Target.FS) }

// commandsSoFar returns what the processes used that have ended so far; nil if they are not counted. The total is
// read after them: one of before can be less than its parts.
func (r *recorder) commandsSoFar() *record.Commands {
	if !r.exits.Counts() {
		return nil
	}
	c := r.exits.SoFar(r.forked)
	var total *float64
	if cpu, ok := procstats.CPUTotal(r.reader.Get(0, false)).Reading.Number(); ok {
		total = &cpu
	}
	return c.Report(total)
}

// finish completes the record with the final totals and writes it. The newest samples may be those of a stream, or of
// a caller that has handed them over: a driver's task is sampled for no record.
func (r *recorder) finish(
	final *procstats.Sample, newest *reader.Handover, evidence record.Evidence,
) (*record.Record, *proto.Exit) {
	info := r.info
	info.Commands = r.exits.Finish(r.forked)
	// The time of a watch is that for which it was watched, whenever its last process ended.
	endKnown := evidence.Cause == record.Watched || info.Commands != nil && evidence.EndAt(info.Commands.LastEnd, final)
	info.SetEnd(&evidence)
	evidence.Before, evidence.After, evidence.Throttler = r.baseline, final, r.reader.CPUThrottler()
	if last, before := evidence.LastOf(newest.Last, newest.Before); last != nil {
		evidence.Last = last
		history := procstats.History{Previous: cmp.Or(before, r.baseline), CPUs: r.cpus()}
		evidence.LastHeadlines = procstats.Headlines(last, history)
	}
	d := record.Diagnose(evidence)
	info.Diagnosis = d
	exit := &proto.Exit{
		Code: int32(evidence.ExitCode), Signal: int32(evidence.Signal), OomKilled: d.OOMKilled,
		Verdict: string(d.Verdict), Summary: readable(d.Summary), EndedAtUnixNs: info.EndedAt.UnixNano(),
	}
	final = record.WithExits(final, info.Commands)
	rows := newest.Rows
	if r.last != nil {
		rows = r.reader.WithRows(r.last)
	} else if rows != nil {
		r.whole.Add(rows) // of what the caller has sampled, the last rows
	}
	merged := record.MergeFinal(final, rows)
	if r.interval > 0 {
		r.addPoint(merged)
		r.looks.add(r.looks.at + max(0, final.Mono-r.looks.at))
		info.LargestGap = r.looks.gap.Seconds()
	}
	r.count(merged)
	if rows == nil && r.interval > 0 {
		rows = merged // it ended before the first sample: no row, but a sum
	}
	r.writeReport(rows, false)
	r.fillFinal(merged, rows != nil || r.interval > 0, procstats.History{Elapsed: evidence.Span, EndKnown: endKnown})
	if info.Commands == nil && newest.Counted != nil {
		info.SetCommands(newest.Counted.Until(evidence.EndedAt))
	}
	r.put()
	if r.store != nil {
		if err := r.store.Close(); err != nil {
			r.fault("close the record", err)
		}
	}
	return info, exit
}

// fillFinal puts the final numbers into the record.
func (r *recorder) fillFinal(merged *procstats.Sample, sampled bool, history procstats.History) {
	info := r.info
	info.Samples = r.reader.Collections()
	info.SetMeasured(merged)
	history.Ended, history.Window, history.CPUs = true, &r.whole, r.cpus()
	info.Headline = record.Headlines(procstats.Headlines(merged, history))
	if r.unread != "" {
		info.SetUnread(r.unread, r.unreadOf...)
	}
	info.Notes = append(info.Notes, record.Contradictions(info.Headline)...)
	if r.inheritsPeak {
		if reason := record.InheritedPeak(info.Headline, r.baseline, merged); reason != "" {
			info.Notes = append(info.Notes, "memory peak: "+reason)
		}
	}
	info.Processes = record.ProcessesOf(&r.whole, merged, sampled, info.Commands)
	info.Peak = record.PeakOf(&r.whole, r.last)
	info.Sources = append(record.SourcesOf(r.reader.Describe()), r.exits.Describe()...)
	if note := r.reader.Pacer.Note(); note != "" {
		info.Notes = append(info.Notes, note)
	}
	const few = 10 // a short run has its rows at its end
	if 2*int64(r.looks.skipped) > max(info.Samples, few) {
		info.Notes = append(info.Notes, procstats.Counted(r.looks.skipped, "sample has", "samples have")+
			" no processes: to read them would have taken more than the sampling budget")
	}
	if r.reader.LostChildren() {
		info.Notes = append(info.Notes,
			"a process ignored SIGCHLD and there is no cgroup: what its children used is only known as far as they were sampled")
	}
}

// devices reads what the task did to each block device, before its cgroup is removed; nothing if that does not count
// it, or has counted others before.
func (t *task) devices() []record.Device {
	if t.group.V2 == "" || !t.group.Owned {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(t.group.V2, "io.stat"))
	if err != nil {
		return nil // the reason stands at cgroup_io_read_bytes_total
	}
	list, err := kernel.NewBlockDevices(kernel.HostFS()).ListIOStat(data)
	if err != nil {
		t.log.Error("read I/O by device", "error", err)
		return nil
	}
	devices := make([]record.Device, 0, len(list))
	for _, d := range list {
		devices = append(devices, record.Device(d))
	}
	slices.SortFunc(devices, func(a, b record.Device) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number))
	})
	return devices
}
