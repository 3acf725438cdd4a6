// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/oom"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// Watched is a cgroup that something else made, as an allocation with one task. It is read and nothing else: the state
// does not have it, and nothing here can start or end it.
type Watched struct {
	*Alloc
	// Path is that of the cgroup in its hierarchies.
	Path string
	// found is the group as it was found; group has the directories of hierarchies in which its path is another.
	found, group procstats.Cgroup
	inode        uint64
	task         *Task
	since        time.Time
	// removed says that the cgroup is gone, even if there is another one in its place.
	removed atomic.Bool

	// The goroutine that reads has the last sample, and who was killed before it.
	last    *procstats.Sample
	victims *oom.Victims
}

// settled is how old a container is when its first process is not that of its engine any more.
const settled = time.Second

// Watch returns a cgroup that is to be read; nil if it is gone, or not to be read yet: no process is in it, or it is
// not settled.
func Watch(h *Host, name string, group procstats.Cgroup, every time.Duration) *Watched {
	inode, list := inodeOf(group), kernel.NewCgroupProcs(group, new([]byte))
	pids, unseen, _ := list.List(nil) // of one that is gone, or in another PID namespace
	_ = list.Close()
	if inode == 0 || len(pids)+unseen == 0 {
		return nil
	}
	base := path.Base(name)
	w := &Watched{
		Path: name, found: group, group: completed(group, base, pids), inode: inode, since: time.Now(),
	}
	w.last = killsSoFar(w.group)
	spec := &job.Task{
		Name: base, Driver: allocation.Watch, Logs: &job.Logs{Disabled: true}, Meta: labelsOf(name, pids),
	}
	j := &job.Job{
		ID: path.Dir(name), Type: allocation.Watch, Namespace: "default",
		Groups: []*job.Group{{Name: allocation.Watch, Tasks: []*job.Task{spec}}},
	}
	// It is the same as long as the cgroup exists, whatever becomes of the agent: its history goes on.
	id, began := allocation.StableID(fmt.Sprintf("%s %s %d", bootID(), name, inode)), oldest(pids, w.since)
	if spec.Meta["container"] != "" && len(pids) > 0 && w.since.Sub(began) < settled {
		return nil
	}
	w.Alloc, _ = New(h, state.Allocation{
		ID: id, Namespace: j.Namespace, JobID: j.ID, JobType: j.Type, Group: allocation.Watch,
		Desired: allocation.DesiredRun, CreateTime: began, ModifyTime: w.since,
		Description: "Watched since " + w.since.Format(time.RFC3339) + ": it was not started here, and is only read",
	}, j, map[string]*state.Task{base: { // it fails for a group that the job does not have only
		State: hook.State{Phase: hook.PhaseRunning, StartedAt: began}, Starts: 1,
		Handle:     &driver.TaskHandle{Config: &driver.TaskConfig{ID: id}}, // for what the driver has counted
		Attributes: map[string]string{"cgroup": group.Procs()},
	}})
	w.task = w.Tasks()[0]
	u := w.task.usage
	u.interval, u.keep = every, max(every, u.keep)
	w.task.stats = hook.NewStatsHook(hook.StatsConfig{Interval: every, Publish: true, Updater: w, Logger: w.task.log})
	u.err = w.task.stats.Err
	return w
}

// killsSoFar is what the kernel has counted of kills, as a sample before the first one.
func killsSoFar(group procstats.Cgroup) *procstats.Sample {
	c := source.Open(source.Target{FS: kernel.HostFS(), Cgroup: group}, procstats.Select(
		procstats.CgroupMemoryEventsOOM, procstats.CgroupMemoryEventsOOMKill, procstats.CgroupMemoryEventsOOMGroupKill,
	))
	s := &procstats.Sample{}
	c.Collect(s)
	_ = c.Close() // a reader's
	return s
}

// inodeOf is 0 if the cgroup is gone.
func inodeOf(group procstats.Cgroup) uint64 {
	var stat unix.Stat_t
	_ = unix.Stat(group.Procs(), &stat)
	return stat.Ino
}

// completed adds the directories of the same name in hierarchies in which the group of its processes has another path:
// of version 1 each can have its own.
func completed(group procstats.Cgroup, base string, pids []int) procstats.Cgroup {
	of := procstats.Cgroup{}
	if len(pids) > 0 {
		of, _ = kernel.FindCgroup(kernel.HostFS(), pids[0]) // of one that has ended
	}
	named := func(dir string) string {
		for dir != "" && path.Base(dir) != base {
			if dir = path.Dir(dir); dir == "/" {
				dir = ""
			}
		}
		return dir
	}
	own := procstats.Cgroup{V2: cmp.Or(group.V2, named(of.V2)), V1: make(map[string]string)}
	for controller, dir := range of.V1 {
		if dir = named(dir); dir != "" {
			own.V1[controller] = dir
		}
	}
	maps.Copy(own.V1, group.V1)
	return own
}

// oldest is when the oldest of some processes began, or else now.
func oldest(pids []int, now time.Time) time.Time {
	age := time.Duration(0)
	for _, pid := range pids {
		if id, err := kernel.Identify(kernel.HostFS(), pid); err == nil {
			age = max(age, kernel.SinceBoot()-time.Duration(id.Start)*procstats.StartTick)
		}
	}
	return now.Add(-age)
}

// labelsOf names what a cgroup is of: as its path tells, and of a container the allocation that is in the environment
// of its first process, whatever that has made of it.
func labelsOf(name string, pids []int) map[string]string {
	base := path.Base(name)
	labels := map[string]string{"cgroup": name}
	switch path.Ext(base) {
	case ".service", ".scope", ".slice", ".socket", ".mount", ".swap":
		labels["unit"] = base
	}
	id, task := kernel.NomadGroup(base)
	if container := kernel.ContainerOf(base); container != "" {
		labels["container"] = container
		if len(pids) > 0 {
			id, task = kernel.NomadTask(kernel.HostFS(), pids[0])
		}
	}
	if allocation.IsID(id) && len(task) < 1<<8 {
		labels["allocation"], labels["allocation_task"] = id, task
	}
	return labels
}

// Begin begins to read.
func (w *Watched) Begin() {
	w.task.usage.begin(1, time.Time{}) // counters are since the cgroup began, and the kernel does not say when that was
	w.Publish("AllocationCreated")
	_ = w.task.stats.Poststart(w.host.Context, &hook.PoststartRequest{Stats: w}) // never fails
}

// Removed reports whether the cgroup is known to be gone.
func (w *Watched) Removed() bool { return w.removed.Load() }

// Follows reports whether the cgroup that is read is still the one that was found, and is read as often.
func (w *Watched) Follows(group procstats.Cgroup, every time.Duration) bool {
	return !w.removed.Load() && w.task.usage.interval == every &&
		w.found.V2 == group.V2 && maps.Equal(w.found.V1, group.V1)
}

// OpenStats implements hook.StatsOpener.
func (w *Watched) OpenStats(ctx context.Context, interval time.Duration) (hook.StatsStream, error) {
	stream, err := driver.StatsStream(nil), fs.ErrNotExist
	if inodeOf(w.found) == w.inode {
		stream, err = w.host.Driver.Watch(ctx, w.ID, w.group, interval)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.removed.Store(true)
		return nil, driver.Recoverable(err, false)
	case err != nil:
		return nil, forRunner(err)
	}
	return w.task.usage.open(stream), nil
}

// UpdateStats implements hook.StatsUpdater.
func (w *Watched) UpdateStats(s *procstats.Sample) {
	w.task.usage.UpdateStats(s)
	before := w.last
	w.last = s
	had, counted := before.Task.Number(procstats.CgroupMemoryEventsOOMKill)
	has, _ := s.Task.Number(procstats.CgroupMemoryEventsOOMKill)
	if !counted || has <= had {
		return
	}
	if w.victims == nil {
		w.victims = oom.OpenVictims(kernel.HostFS(), w.group, before.Mono)
	}
	kill := w.victims.Describe(int64(has-had), before, s)
	event := allocation.Event{
		Type: allocation.EventDriver, Time: kill.At, Message: kill.Sentence(), Redacted: record.KillsText(kill.Kills),
	}
	w.task.addEvent(event)
	w.onTaskEvent(w.task, event)
}

// End ends the reading, and forgets the cgroup if it is gone, or is not wanted any more.
func (w *Watched) End(forget bool) {
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.host.Context), limit)
	defer cancel()
	err := w.task.stats.Shutdown(ctx)
	if err == nil { // else it still reads
		err = w.victims.Close()
	}
	err = errors.Join(err, Close(ctx, w.Alloc))
	if forget {
		err = errors.Join(err, w.Dir.Remove(ctx))
		w.Publish("AllocationRemoved")
	}
	if err != nil {
		w.log().Warn("end watch of cgroup", "cgroup", w.Path, "error", err)
	}
}
