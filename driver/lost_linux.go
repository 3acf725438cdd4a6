// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// exitKilled is the exit code of a task that was killed with its lost executor.
const exitKilled = 128 + int(syscall.SIGKILL)

// recoverLost recovers a task whose executor died while no driver ran: what is left of it is killed, and it has
// ended.
func (d *Tacho) recoverLost(ctx context.Context, config *TaskConfig, state *driverState) *task {
	t := d.newTask(config, nil, state)
	t.killLost(ctx)
	return t
}

// killLost kills what the executor left behind, and only then says that the task has ended: nothing of it may run when
// the host starts it anew.
func (t *task) killLost(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	handed := t.handover()
	cause := "died"
	if _, err := os.Lstat(t.state.Address.Socket); errors.Is(err, fs.ErrNotExist) {
		cause = "ended because its directory, or the socket in it, was removed," // one that dies leaves both
	}
	totals := t.lostTotals(handed) // with the cgroup its counters are removed
	err := client.KillProcesses(ctx, t.state.Address)
	t.completedAt = time.Now()
	var commands *record.Commands
	if totals != nil {
		// With the folder the commands that were handed over are removed; what was killed is among the others.
		commands = t.lostCommands(handed)
	}
	t.loop.Forget(t.config.ID)
	if err == nil {
		if err := client.RemoveFolder(t.state.Address.Folder); err != nil {
			t.log.Error("remove directory of lost executor", "error", err)
		}
	}
	t.endedLost(cause, totals, commands, err)
}

// endedLost ends a task whose executor is gone by a cause; err is why its processes could not be killed, nil where they
// are gone. Totals and commands are nil if they are not known.
func (t *task) endedLost(cause string, totals *procstats.Sample, commands *record.Commands, err error) {
	pid := t.state.Address.Executor.PID
	reason := fmt.Errorf("process %d %s and the task was killed with it", pid, cause)
	if err != nil {
		reason = fmt.Errorf("process %d %s and what it left behind could not be killed: %w", pid, cause, err)
	}
	t.exit = &ExitResult{
		Code: exitKilled, Signal: int(syscall.SIGKILL), Err: fmt.Errorf("%s: %w", record.ExecutorLost, reason),
	}
	r := &record.Record{State: record.Lost, StartedAt: t.state.StartedAt, EndedAt: t.completedAt}
	evidence := record.Evidence{Cause: record.ExecutorLost, Reason: reason.Error()}
	if totals != nil {
		headlines := procstats.Headlines(totals, procstats.History{Elapsed: totals.Wall.Sub(t.state.StartedAt)})
		r.SetMeasured(totals)
		r.Headline = record.Headlines(headlines)
		evidence.Last, evidence.LastHeadlines, evidence.LastAge = totals, headlines, t.completedAt.Sub(totals.Wall)
		r.SetCommands(commands)
		t.final = r
	}
	r.Diagnosis = record.Diagnose(evidence)
	t.addEvent(t.completedAt, r.Diagnosis.Summary, recordAnnotations(r), nil)
	close(t.done)
}

// lostCommands is what was counted of the task: here until its end, or by an earlier reader until it has handed that
// over.
func (t *task) lostCommands(handed *reader.Handover) *record.Commands {
	if c := t.loop.CommandsSoFar(t.config.ID, t.state.StartedAt); c != nil {
		return c
	}
	if handed.Counted != nil {
		return handed.Counted.Until(t.completedAt)
	}
	return nil
}

// handover is what a reader of the task has handed over.
func (t *task) handover() *reader.Handover {
	h, err := reader.ReadHandover(t.state.Address.Folder)
	if err != nil {
		t.log.Warn("read last samples of lost task", "error", err)
	}
	return h
}

// lostTotals reads what the kernel has counted in the task's own cgroup. It is nil if the task has none: a cgroup that
// others gave may have counted more than this task.
func (t *task) lostTotals(handed *reader.Handover) *procstats.Sample {
	address := t.state.Address
	if !address.Cgroup.Encloses() || !address.Owned {
		return nil
	}
	collector := source.Open(source.Target{FS: kernel.HostFS(), Cgroup: address.Cgroup},
		procstats.SelectWhere(func(m procstats.Measurement) bool {
			// What the cgroups above had counted when the task began is not known here.
			ofAncestors := m.ID == procstats.CgroupCPUAncestorThrottled || m.ID == procstats.CgroupCPUAncestorThrottledPeriods
			counted := m.Source == procstats.SourceCgroup || m.Source == procstats.SourcePSI
			return m.Scope == procstats.TaskScope && counted && !ofAncestors
		}))
	totals := &procstats.Sample{}
	collector.Collect(totals)
	addSeen(totals, handed)
	if err := collector.Close(); err != nil {
		t.log.Debug("close sources of a lost task", "error", err)
	}
	return totals
}

// addSeen adds the counters of the last sample that was handed over which no cgroup has: what its processes did, and
// which of them have left it.
func addSeen(totals *procstats.Sample, handed *reader.Handover) {
	if handed.Last == nil {
		return
	}
	for _, reading := range handed.Last.Task {
		m, known := procstats.Lookup(reading.ID())
		if _, found := totals.Task.Get(reading.ID()); known && m.Kind == procstats.Counter && !found {
			totals.Task.Put(reading)
		}
	}
}
