// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/logs"
	"github.com/tachograph/tacho/executor/oom"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	defaultKillGrace  = 5 * time.Second
	defaultKillSignal = unix.SIGTERM
)

// task is the one task of an executor, from its fork until nothing is left of it.
type task struct {
	request  *proto.LaunchRequest
	launched *proto.LaunchResponse
	log      hclog.Logger
	folder   string // the executor's
	children *reaper
	placement
	reader   *reader.Reader
	outside  int // processes that run outside the cgroup, as reported; the reader guards it
	recorder *recorder
	journal  *journal
	oom      *oom.Monitor
	// base is how the main process was started, and what further commands in the task have in common with it.
	base *command
	// logs writes the task's output to files; nil if it goes elsewhere.
	logs *logs.Collector

	main    procstats.ProcessID
	started time.Time
	end     <-chan ended

	outcome
	mu sync.Mutex // guards following
	stopping
}

// placement is where a task runs.
type placement struct {
	group  *cgroup.Group
	limits []record.Limit
	// inheritsPeak is set if the group's memory peak includes what was there before the task.
	inheritsPeak bool
}

// outcome is how a task ended.
type outcome struct {
	// gone is closed when nothing is left of the task and its record is whole; exit and final are set then.
	gone chan struct{}
	// released is closed after that, when the executor may be shut down.
	released chan struct{}
	exit     *proto.Exit
	final    *record.Record
}

// stopping is what is known of the end of a task while it comes.
type stopping struct {
	// cause is why we ended the task ourselves, the first time, and reason the same in words; empty before that.
	cause  record.Verdict
	reason string
	// mainOver is set once the main process has ended, and afterMain if that was before cause.
	mainOver, afterMain bool
	// forwarded is the last signal that was sent on request; 0 for none.
	forwarded unix.Signal
	// stopSignal is that of the last stop; 0 for none.
	stopSignal unix.Signal
	// killTimer is set while a stop is under way, and fires at killAt.
	killTimer *time.Timer
	killAt    time.Time
	// killing makes every orphan that is reparented to the executor be killed too.
	killing bool
	// leftovers are how many processes of each command outlived the main one and were stopped.
	leftovers record.Leftovers
	// over is set once no request can be the cause of the task's end any more.
	over bool
}

// run sees the task to its end. It returns when nothing is left of it and the record is written.
func (t *task) run(ctx context.Context) {
	sampling, stopSampling := context.WithCancel(ctx)
	var recording sync.WaitGroup
	recording.Go(func() { t.recorder.run(sampling) })
	recording.Go(func() { t.oom.Run(sampling) })
	if timeout := time.Duration(t.request.GetTimeoutNs()); timeout > 0 {
		timer := time.AfterFunc(timeout, func() { t.stop(record.TimedOut, "", 0, t.killGrace()) })
		defer timer.Stop()
	}
	finishLogs := t.collectLogs()
	end := <-t.end
	failpoint.At("executor.end.reaped")
	t.mainEnded(end)
	t.awaitChildren()
	last := t.children.lastReaped()
	t.isOver()
	stopSampling()
	recording.Wait()
	finishLogs()
	t.finish(end, last)
}

func (t *task) mainEnded(end ended) {
	t.mu.Lock()
	t.mainOver = true
	t.over = t.over || !t.request.GetWaitForAll()
	t.mu.Unlock()
	t.journal.add("main_exited", describeStatus(end.status), nil)
}

func (t *task) isOver() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

// awaitChildren waits until the last process is gone. Processes that outlive the main process are asked to end
// and then killed, unless the caller waits for all.
func (t *task) awaitChildren() {
	if !t.request.GetWaitForAll() {
		t.children.reapAll() // so that the token below is up to date
		select {
		case <-t.children.childless:
			return
		default:
			t.stopLeftovers()
		}
	}
	<-t.children.childless
}

// stopLeftovers signals what outlived the main process and sees that it is killed after the grace.
// Where a stop is under way they have its signal and what is left of its grace.
func (t *task) stopLeftovers() {
	t.mu.Lock()
	signal, stopping := t.stopSignal, t.killTimer != nil
	t.mu.Unlock()
	signal = cmp.Or(signal, t.killSignal())
	members := t.members()
	leftovers := record.Leftovers{}
	for _, p := range members {
		if command, err := kernel.Comm(kernel.HostFS(), p.PID()); err == nil {
			leftovers[command]++
		}
	}
	t.signalAll(members, signal)
	if len(leftovers) > 0 {
		t.mu.Lock()
		t.leftovers = leftovers
		t.mu.Unlock()
		t.journal.add("leftovers", leftovers.Text(), nil)
	}
	if !stopping {
		t.armKill(t.killGrace())
	}
}

// signalMembers signals every process of the task.
func (t *task) signalMembers(signal unix.Signal) { t.signalAll(t.members(), signal) }

// members holds every process of the task.
func (t *task) members() []*process.Process {
	members, err := process.Descendants(kernel.HostFS(), &t.children.mu)
	if err != nil {
		t.log.Error("list processes of the task", "error", err)
	}
	return members
}

func (t *task) signalAll(members []*process.Process, signal unix.Signal) {
	for _, p := range members {
		if err := errors.Join(p.Signal(signal), p.Close()); err != nil {
			t.log.Error("signal process of the task", "pid", p.PID(), "signal", unix.SignalName(signal), "error", err)
		}
	}
}

// stop asks the task to end and kills it after the grace: its main process, or those that outlived it. The first cause
// is the one that counts; reason says in words how it came about, as in "stopped because REASON", and may be empty.
func (t *task) stop(cause record.Verdict, reason string, signal unix.Signal, grace time.Duration) {
	signal = cmp.Or(signal, t.killSignal())
	t.mu.Lock()
	t.stopSignal = signal
	first := t.cause == "" && !t.over
	if first {
		t.cause, t.reason, t.afterMain = cause, reason, t.mainOver
		if grace <= 0 || signal == unix.SIGKILL { // it is not asked to exit
			t.forwarded = unix.SIGKILL
		}
	}
	t.mu.Unlock()
	if first {
		text := fmt.Sprintf("stopping the task (%s)", cause)
		if reason != "" {
			text += " because " + reason
		}
		t.journal.add("stopping", text, nil)
	}
	if grace > 0 {
		switch err := t.children.signal(t.main.PID, signal, false); {
		case errors.Is(err, process.ErrGone):
			t.signalMembers(signal)
		case err != nil:
			t.log.Error("stop the main process", "error", err)
		}
	}
	t.armKill(grace)
}

// armKill sees that everything is killed after the grace; a shorter grace replaces a longer one.
func (t *task) armKill(grace time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Now().Add(grace)
	if t.killTimer != nil && (at.After(t.killAt) || !t.killTimer.Stop()) {
		return // it fires sooner, or has fired: the kill is under way
	}
	t.killAt = at
	t.killTimer = time.AfterFunc(grace, t.kill)
}

// forward sends a signal to the main process, or to its process group as a terminal would, on request.
func (t *task) forward(signal unix.Signal, group bool) error {
	t.mu.Lock()
	t.forwarded = signal
	t.mu.Unlock()
	return t.children.signal(t.main.PID, signal, group)
}

// kill ends everything, at once and for good.
func (t *task) kill() {
	t.mu.Lock()
	t.killing = true
	t.mu.Unlock()
	t.children.mu.Lock() // nothing is being started in it by a thread of this process, which would be killed too
	err := t.group.Kill()
	t.children.mu.Unlock()
	if err != nil {
		t.log.Error("kill the cgroup", "error", err)
	}
	t.signalMembers(unix.SIGKILL)
}

// onReparent is called when a child was reaped: while the task is being killed, orphans that are reparented to the
// executor are killed as well. Each round sees the children of those that died in the round before.
func (t *task) onReparent() {
	t.mu.Lock()
	killing := t.killing
	t.mu.Unlock()
	if killing {
		t.signalMembers(unix.SIGKILL)
	}
}

// finish reads the task a last time, writes its record and removes its cgroup. Its last process ended at last.
func (t *task) finish(end ended, last time.Time) {
	t.mu.Lock()
	evidence := record.Evidence{
		Cause: t.cause, Reason: t.reason, AfterMain: t.afterMain, Forwarded: int(t.forwarded),
		EndedAt: end.at, Wall: end.at.Sub(t.started), Span: last.Sub(t.started),
		Timeout:      time.Duration(t.request.GetTimeoutNs()),
		WaitedForAll: t.request.GetWaitForAll(), Leftovers: t.leftovers,
	}
	if t.killTimer != nil {
		t.killTimer.Stop()
	}
	t.mu.Unlock()
	evidence.ExitCode, evidence.Signal = exitCode(end.status)
	t.oom.Finish(&evidence)
	evidence.Cores = t.cores(end.status)
	newest := t.newest() // the final sample is not one of them
	t.recorder.exits.Await()
	final := t.reader.Final()
	t.oom.NameMain(&evidence, final)
	if err := t.reader.Close(final); err != nil {
		t.log.Error("close kernel files", "error", err)
	}
	t.recorder.info.Devices = t.devices()
	t.final, t.exit = t.recorder.finish(final, newest, evidence)
	for _, note := range t.final.Headline[procstats.HeadlineCPU.String()].Notes {
		if t.outside == 0 { // no sample saw it
			t.journal.add("left_cgroup", note.Text, nil)
		}
	}
	failpoint.At("executor.end.recorded")
	t.removeGroup()
	failpoint.At("executor.end.removed")
	t.journal.add("exited", t.exit.GetSummary(), nil)
	t.journal.Close()
	close(t.gone)
	t.journal.notify()
	t.recorder.exits.Close() // after the end was reported: it takes a millisecond
}

// newest returns the newest samples, as if this process had taken those of its caller, and continues the counters of
// the caller. Nothing is left of the task.
func (t *task) newest() *reader.Handover {
	h := t.handover()
	t.reader.Continue(h, func(procstats.ProcessID) bool { return false })
	last, before := t.reader.Recent()
	if h.Last == nil || last != nil && last.Mono >= h.Last.Mono { // else it may be of long ago
		h.Last, h.Before = last, before
	}
	return h
}

// removeLimit is how long the end of a task waits for processes that are not the task's: another program put them
// into its cgroup, and they cannot be killed from here.
const removeLimit = 5 * time.Second

func (t *task) removeGroup() {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	if err := t.group.Empty(ctx); err != nil {
		t.log.Error("remove the cgroup", "error", err)
	}
}

func (t *task) killGrace() time.Duration {
	if grace := time.Duration(t.request.GetKillGraceNs()); grace > 0 {
		return grace
	}
	return defaultKillGrace
}

func (t *task) killSignal() unix.Signal {
	return cmp.Or(unix.Signal(t.request.GetKillSignal()), defaultKillSignal)
}

// exitCode returns the exit code as a shell counts it, and the signal that ended the process, 0 for none.
func exitCode(status unix.WaitStatus) (code, signal int) {
	if status.Signaled() {
		signal = int(status.Signal())
		return 128 + signal, signal
	}
	return status.ExitStatus(), 0
}

func describeStatus(status unix.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("the main process was ended by %s", unix.SignalName(status.Signal()))
	}
	return fmt.Sprintf("the main process exited with code %d", status.ExitStatus())
}
