// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/oom"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// Watched is what runs already: the processes of a cgroup, or a process with its descendants.
type Watched struct {
	Cgroup procstats.Cgroup
	// Process is what the watch ends with; zero for the last process of the cgroup.
	Process procstats.ProcessID
	// Request says how it is read, as for a task that is started: what would do something to it is ignored.
	Request *proto.LaunchRequest
}

// Watch records what it did not start, in the process that calls it. It signals, moves and kills nothing, and makes no
// cgroup; of what is watched it writes no file but cgroup.event_control of version 1, which registers for OOM kills.
type Watch struct {
	log      hclog.Logger
	watched  Watched
	group    *cgroup.Group
	reader   *reader.Reader
	recorder *recorder
	oom      *oom.Monitor
	programs *reader.Programs
	exits    *reader.Exits
}

// OpenWatch begins a watch: its record is info, completed by what is watched. notice is called with each OOM kill.
func OpenWatch(log hclog.Logger, w Watched, info *record.Record, notice func(text string)) (*Watch, error) {
	host := kernel.HostFS()
	selection, err := selectionOf(w.Request)
	if err != nil {
		return nil, err
	}
	x := &Watch{log: log, watched: w, group: cgroup.Of(w.Cgroup, false), programs: reader.NewProgramsOfOne(log, host)}
	packets := network.Off()
	if !w.Request.GetNetworkOff() {
		packets = x.programs.OpenPackets(selection, w.Cgroup, true)
	}
	x.reader = reader.Open(reader.Options{
		Target: source.Target{
			FS: host, Cgroup: w.Cgroup, Roots: x.roots, Dir: w.Request.GetDiskDir(),
			MaxRows: int(w.Request.GetMaxRows()), Used: true, Running: true,
			Joined: func(pids ...int) { x.exits.Running(pids...) }, // of those before, all are asked for below
		},
		Selection: selection, Executor: os.Getpid(), Unsampled: record.NotSampled, Packets: packets,
		Pacer: pace.New(w.Request.GetSamplingBudget(), reader.ThreadCPU, func(string) {}),
	})
	baseline := x.reader.Before()
	x.reader.Whole() // what processes had used before is taken from the first rows
	info.StartedAt = baseline.Wall
	info.Cgroup = placed(x.group)
	info.Sampling = sampled(w.Request.GetRecord())
	if x.recorder, err = newRecorder(log, w.Request.GetRecord(), x.reader, baseline, info); err != nil {
		return nil, errors.Join(err, x.reader.Close(baseline))
	}
	x.recorder.inheritsPeak = true
	x.oom = oom.Open(oom.Options{
		Logger: log, FS: host, Cgroup: w.Cgroup, Latest: x.latest,
		Report: func(kill record.Kill, _ bool) { notice(kill.Sentence()) },
	})
	x.oom.Started(w.Process)
	x.exits = x.programs.WatchExits(w.Cgroup, nil)
	x.recorder.exits = x.exits
	if pids, err := x.group.PIDs(); err == nil {
		x.exits.Running(pids...)
	}
	x.recorder.forked = info.StartedAt
	x.recorder.put()
	return x, nil
}

// roots is the process that is watched with its descendants.
func (x *Watch) roots() []int {
	if p := x.watched.Process; p.PID > 0 && kernel.Alive(kernel.HostFS(), p) {
		return []int{p.PID}
	}
	return nil
}

func (x *Watch) latest() *procstats.Sample {
	last, _ := x.reader.Recent()
	return last
}

// Sample returns a sample that is at most maxAge old.
func (x *Watch) Sample(maxAge time.Duration) *procstats.Sample { return x.reader.Get(maxAge, false) }

// Run records until nothing is left of what is watched, or ctx ends, whose cause says why. It returns the record.
func (x *Watch) Run(ctx context.Context) *record.Record {
	sampling, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { x.recorder.run(sampling) })
	work.Go(func() { x.oom.Run(sampling) })
	reason := x.await(ctx)
	ended := kernel.Now()
	last, before := x.reader.Recent()
	final := x.final(last, reason == record.GroupEmpty) // before anything else: the cgroup may be removed now
	if reason != record.GroupEmpty && reason != record.ProcessEnded {
		ended = final.Stamp // what is watched goes on until then, and after
	}
	stop()
	work.Wait()
	evidence := record.Evidence{
		Cause: record.Watched, Reason: reason, EndedAt: ended.Wall,
		Wall: ended.Mono - x.recorder.baseline.Mono, Span: ended.Mono - x.recorder.baseline.Mono,
	}
	x.oom.Finish(&evidence)
	x.addEarlier()
	if err := x.reader.Close(final); err != nil {
		x.log.Error("close kernel files", "error", err)
	}
	info, _ := x.recorder.finish(final, &reader.Handover{Last: last, Before: before}, evidence)
	x.recorder.exits.Close()
	x.programs.Close()
	return info
}

// restInterval is the longest time until what a running process has used is added to its cgroup's CPU time: a tick of a
// kernel with the lowest CONFIG_HZ, 100.
const restInterval = 10 * time.Millisecond

// final reads the end of what is watched; last was read before. A cgroup that is over is empty before the time that its
// last process ran is added (until 6.19, cgroup_exit in kernel/cgroup/cgroup.c): it is read again once the records of
// the ends are there, which come after that. Without them it is read until it rests, or for ten ticks if it is used
// again.
func (x *Watch) final(last *procstats.Sample, over bool) *procstats.Sample {
	var lost []procstats.Unit // nil for all
	rests, used := !over, -1.0
	for range 10 {
		s := x.reader.Final()
		cpu, found := s.Task.Get(procstats.CgroupCPUUsage)
		if last != nil && found && source.IsRemoved(cpu) {
			x.recorder.unread = "the cgroup was removed before it could be read at its end: " +
				"the totals are of " + procstats.Seconds.Text((s.Mono - last.Mono).Seconds()) + " before"
			x.recorder.unreadOf = lost
			return last
		}
		n, known := cpu.Number()
		if rests || !known || n == used {
			return s
		}
		last, used, lost = s, n, []procstats.Unit{procstats.Seconds, procstats.Cores}
		if rests = x.recorder.exits.Await(); !rests {
			<-time.After(restInterval)
		}
	}
	return last
}

// addEarlier says what the cgroup had used before the watch, where the kernel knows.
func (x *Watch) addEarlier() {
	seconds, known := x.reader.Earlier(procstats.CgroupCPUUsage)
	if !known {
		return
	}
	earlier := &record.Earlier{CPUSeconds: seconds}
	text := "before the watch the cgroup had used " + procstats.Seconds.Text(seconds) + " of CPU time"
	if peak, ok := x.recorder.baseline.Task.Number(procstats.CgroupMemoryPeak); ok {
		earlier.MemoryPeakBytes = &peak
		text += ", and at most " + procstats.Bytes.Text(peak) + " of memory"
	}
	info := x.recorder.info
	info.Earlier, info.Notes = earlier, append(info.Notes, text)
}

// lookInterval is the time between two looks for the end where the kernel does not tell it.
const lookInterval = 100 * time.Millisecond

// await returns why the watch is over, once it is.
func (x *Watch) await(ctx context.Context) (reason string) {
	reason = record.GroupEmpty
	var events kernel.File
	if x.watched.Process.PID > 0 {
		reason = record.ProcessEnded
	} else if x.group.V2 != "" {
		events, _ = kernel.Open(filepath.Join(x.group.V2, "cgroup.events")) // without it the processes are listed
	}
	defer events.Close()
	for ctx.Err() == nil {
		if x.over(&events) {
			return reason
		}
		if events.IsOpen() { // POLLPRI comes when cgroup.events changes, until it is read, cgroup-v2.rst
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(events.FD()), Events: unix.POLLPRI}}, int(lookInterval.Milliseconds()))
			continue
		}
		select {
		case <-time.After(lookInterval):
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx).Error()
}

// over reports whether nothing is left of what is watched.
func (x *Watch) over(events *kernel.File) bool {
	if x.watched.Process.PID > 0 {
		return x.roots() == nil
	}
	if events.IsOpen() {
		text, err := events.ReadRecord(nil)
		return err != nil || bytes.Contains(text, []byte("populated 0"))
	}
	pids, err := x.group.PIDs()
	return err != nil || len(pids) == 0
}
