// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// firstPause is how long a descriptor is ignored after an event. The kernel itself waits 10 ms between two
	// notifications of one file, CGROUP_FILE_NOTIFY_MIN_INTV.
	firstPause = 10 * time.Millisecond
	// taskPause is the longest such pause for the task's own group: a task at its limit causes events all the time, and
	// a kill among them has to be noticed at once.
	taskPause = 40 * time.Millisecond
	// abovePause is the longest pause for the groups above, which have events of all their processes.
	abovePause = time.Second
	// hitSpan is how long after a hit a limit is taken for the cause of a kill: the kernel writes to its log in between,
	// which takes seconds on a slow console.
	hitSpan = 5 * time.Second
	// groupCountWait bounds the wait for the kernel's count of a group: a hypervisor may keep the CPU that kills from
	// running, and before Linux 5.17 there is no count.
	groupCountWait = 250 * time.Millisecond
	// costShare bounds the time spent in looking: the pause is this many times as long as the look took, but at most
	// costPause, because other load can make a look long.
	costShare = 50
	costPause = 200 * time.Millisecond
)

// watcher watches one task for OOM kills. Run and Look read the counters; Look is for the time before Run and after
// it.
type watcher struct {
	groups groups
	layout layout
	epoll  int
	// poll is the epoll descriptor in the runtime's own poller: waiting takes no thread.
	poll    *os.File
	watches []*watch

	// base is the reading that the next kill is compared with, and hitAt the time when a limit was last seen to be hit.
	base  record.OOMCounters
	hitAt time.Time
	// early has the hits that were seen together with the last kill, and of which no kill is known yet.
	early record.OOMCounters
	// cost is how long the last look took.
	cost time.Duration
	// awaited is the time since a kill of a whole group is known that the kernel has not counted yet; zero otherwise.
	awaited time.Time
	// recheck is the pause before the next look while a kill is under way; 0 otherwise.
	recheck time.Duration

	mu   sync.Mutex // guards last
	last record.OOMCounters
}

// layout reads the counters of one version of cgroups.
type layout interface {
	// look reads all there is. underway reports that the OOM killer is at work: the counters are about to change.
	look() (counters record.OOMCounters, underway bool, err error)
	close() error
}

// watch is a descriptor with events. After each event it is ignored for a pause, which grows while events follow each
// other.
type watch struct {
	fd      int
	events  uint32
	longest time.Duration

	pause   time.Duration
	armed   time.Time
	armNext time.Time // zero while it is armed
}

func newWatch(fd int, events uint32, longest time.Duration) *watch {
	return &watch{fd: fd, events: events, longest: longest, pause: firstPause}
}

// fired notes an event and the cost of looking, and sets when to listen again.
func (w *watch) fired(now time.Time, cost time.Duration) {
	if now.Sub(w.armed) < 2*w.pause {
		w.pause = min(2*w.pause, w.longest)
	} else {
		w.pause = firstPause
	}
	w.armNext = now.Add(max(w.pause, min(costShare*cost, costPause)))
}

// groups are the folders that matter for a task's memory.
type groups struct {
	version int
	own     string
	above   []string // the nearest first
	path    string   // of own in its hierarchy
	root    bool     // top is the real root of the hierarchy
	// top is the mount point of the hierarchy, and topPath the path that it shows.
	top, topPath string
}

// openWatcher finds the task's memory cgroup and registers for its events. It cannot fail: if nothing can be watched
// the counters say why, and Run waits for its context.
func openWatcher(host kernel.FS, cgroup procstats.Cgroup) *watcher {
	w := &watcher{epoll: -1}
	reason := w.register(host, cgroup)
	if reason != "" {
		w.last.Reason = reason
		return w
	}
	var err error
	if w.last, _, err = w.layout.look(); err != nil {
		w.last = record.OOMCounters{Reason: err.Error()}
	}
	w.base, w.early = w.last, w.last
	return w
}

func (w *watcher) register(host kernel.FS, cgroup procstats.Cgroup) (reason string) {
	if w.groups, reason = findGroups(host, cgroup); reason != "" {
		return reason
	}
	if err := w.watch(host); err != nil {
		return "watch memory events: " + err.Error()
	}
	return ""
}

func (w *watcher) watch(host kernel.FS) (err error) {
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if w.groups.version == 2 {
		w.layout, w.watches, err = openMemoryEvents(host, w.groups)
	} else {
		w.layout, w.watches, err = openOOMControl(w.groups)
	}
	for i, each := range w.watches {
		err = errors.Join(err, w.control(unix.EPOLL_CTL_ADD, i, each))
	}
	if err = errors.Join(err, unix.SetNonblock(w.epoll, true)); err == nil {
		w.poll = os.NewFile(uintptr(w.epoll), "memory events")
	}
	return err
}

func (w *watcher) control(operation, i int, each *watch) error {
	event := unix.EpollEvent{Events: each.events | unix.EPOLLONESHOT, Fd: int32(i)}
	return unix.EpollCtl(w.epoll, operation, each.fd, &event)
}

// findGroups returns the folders to watch, or why they cannot be watched.
func findGroups(host kernel.FS, cgroup procstats.Cgroup) (g groups, reason string) {
	g = groups{version: 1, own: cgroup.V1["memory"]}
	file := "memory.oom_control"
	if g.own == "" {
		g = groups{version: 2, own: cgroup.V2}
		file = "memory.events"
	}
	switch {
	case !cgroup.Exists():
		return g, "OOM kills are counted by a memory cgroup, and the task has none"
	case cgroup.Shared:
		return g, "other processes live in the task's cgroup: its OOM kills are not the task's"
	case g.own == "":
		return g, "the task has no memory cgroup"
	}
	if _, err := os.Lstat(filepath.Join(g.own, file)); err != nil {
		return g, "the memory controller is not available in the task's cgroup"
	}
	mounts, err := kernel.CgroupMounts(host)
	if err != nil {
		return g, err.Error()
	}
	g.above = kernel.CgroupAncestors(g.own, mounts)
	g.top, g.topPath = g.own, "/"
	if len(g.above) > 0 {
		g.top = g.above[len(g.above)-1]
	}
	g.root = kernel.IsCgroupRoot(g.version, g.top)
	for _, mount := range mounts {
		if mount.Point == g.top {
			g.topPath = mount.Root
		}
	}
	if below, err := filepath.Rel(g.top, g.own); err == nil {
		g.path = filepath.Join(g.topPath, below)
	}
	return g, ""
}

// Run waits for events and calls notice for each rise of the number of kills, with the counters before and after,
// until ctx ends. It has to be running for Look to know how often limits were hit on version 1.
func (w *watcher) Run(ctx context.Context, notice func(before, after record.OOMCounters)) error {
	if w.poll == nil {
		<-ctx.Done()
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = w.poll.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	ready := make([]unix.EpollEvent, len(w.watches))
	for {
		fired, err := w.wait(ctx, ready)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait for memory events: %w", err)
		}
		if len(fired) > 0 || w.recheck > 0 {
			began := time.Now()
			if before, after, ok := w.step(); ok && after.Kills > before.Kills && !w.awaitsGroup(before, after) {
				w.report(before, after, notice)
			}
			for _, event := range fired {
				w.watches[event.Fd].fired(began, w.cost)
			}
		}
		if err := w.arm(time.Now()); err != nil {
			return fmt.Errorf("wait for memory events: %w", err)
		}
	}
}

// wait blocks until something fires, or until a descriptor that was left alone is due again.
func (w *watcher) wait(ctx context.Context, ready []unix.EpollEvent) ([]unix.EpollEvent, error) {
	if err := w.poll.SetReadDeadline(w.next()); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // the deadline above may have replaced the one that ends us
		return nil, nil
	}
	conn, err := w.poll.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n int
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		n, failed = unix.EpollWait(int(fd), ready, 0)
		return n > 0 || failed != nil && !errors.Is(failed, unix.EINTR)
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, nil
	}
	return ready[:max(n, 0)], errors.Join(err, failed)
}

// next returns when to look without an event; zero for never.
func (w *watcher) next() time.Time {
	var next time.Time
	for _, each := range w.watches {
		if !each.armNext.IsZero() && (next.IsZero() || each.armNext.Before(next)) {
			next = each.armNext
		}
	}
	if w.recheck > 0 {
		if soon := time.Now().Add(w.recheck); next.IsZero() || soon.Before(next) {
			next = soon
		}
	}
	return next
}

// arm listens again to descriptors whose pause is over; one with an event meanwhile fires at once.
func (w *watcher) arm(now time.Time) error {
	for i, each := range w.watches {
		if each.armNext.IsZero() || each.armNext.After(now) {
			continue
		}
		if err := w.control(unix.EPOLL_CTL_MOD, i, each); err != nil {
			return err
		}
		each.armed, each.armNext = now, time.Time{}
	}
	return nil
}

// Look reads the counters now and calls notice if the number of kills has risen.
func (w *watcher) Look(notice func(before, after record.OOMCounters)) {
	if w.layout == nil {
		return
	}
	if before, after, ok := w.step(); ok && after.Kills > before.Kills {
		w.report(before, after, notice)
	}
}

// report passes on a rise of the number of kills, with which the next ones are compared. The hit of the next kill may
// have been seen with this one already.
func (w *watcher) report(before, after record.OOMCounters, notice func(before, after record.OOMCounters)) {
	after.Grouped = grouped(w.groups.above)
	if after.Hits() == before.Hits() && time.Since(w.hitAt) <= hitSpan {
		before.Own, before.Below, before.Above = w.early.Own, w.early.Below, w.early.Above
	}
	w.base, w.early, w.awaited = after, unspent(before, after), time.Time{}
	notice(before, after)
}

// unspent returns counters without the hits that no kill has followed: each kill follows one, the nearest to the task.
func unspent(before, after record.OOMCounters) record.OOMCounters {
	kills := after.Kills - before.Kills
	spend := func(was, is int64) int64 {
		spent := max(0, min(is-was, kills))
		kills -= spent
		return min(was, is) + spent
	}
	c := record.OOMCounters{Own: spend(before.Own, after.Own), Below: spend(before.Below, after.Below)}
	for i, is := range after.Above {
		c.Above = append(c.Above, spend(before.Above[i], is))
	}
	return c
}

// awaitsGroup reports whether a kill is the first of a group that is killed as a whole, because of memory.oom.group:
// the kernel counts the chosen process, then the group, then all of its processes. The watcher looks again soon.
func (w *watcher) awaitsGroup(before, after record.OOMCounters) bool {
	if w.groups.version == 1 || after.GroupKills > before.GroupKills ||
		after.Hits()-after.Below == before.Hits()-before.Below || !grouped([]string{w.groups.own}) {
		return false
	}
	if w.awaited.IsZero() {
		w.awaited = time.Now()
	}
	if time.Since(w.awaited) > groupCountWait {
		return false
	}
	w.recheck = firstRecheck
	return true
}

// step reads the counters. before is the reading with which a rise of the kills is to be compared: the kernel counts
// at the limit before it counts the kill, and a look may fall between the two.
func (w *watcher) step() (before, after record.OOMCounters, ok bool) {
	now, last := time.Now(), w.Counters()
	if now.Sub(w.hitAt) > hitSpan {
		w.base = last
	}
	before = w.base
	after, underway, err := w.layout.look()
	w.cost = time.Since(now)
	if err != nil {
		// The group was removed, or may not be read any more: what was counted stays.
		w.recheck = 0
		return before, before, false
	}
	if after.Hits() != last.Hits() {
		w.hitAt = now
	}
	killed := after.Kills > before.Kills
	switch {
	case !underway || killed:
		w.recheck = 0
	case w.recheck == 0:
		w.recheck = firstRecheck
	default:
		w.recheck = min(2*w.recheck, taskPause)
	}
	w.mu.Lock()
	w.last = after
	w.mu.Unlock()
	return before, after, true
}

// firstRecheck is the first pause before another look while the OOM killer is at work.
const firstRecheck = 2 * time.Millisecond

// KilledAsOne reports whether the task's group, or a visible one above it, is killed as a whole.
func (w *watcher) KilledAsOne() bool {
	return grouped([]string{w.groups.own}) || grouped(w.groups.above)
}

// grouped reports whether one of the groups is killed as a whole.
func grouped(dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		n, ok := kernel.ReadNumber(filepath.Join(dir, "memory.oom.group"))
		return ok && n == 1
	})
}

// Counters returns what the last look found.
func (w *watcher) Counters() record.OOMCounters {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// SeesAll reports whether every limit is visible: all groups above the task, up to the real root of the hierarchy, or
// version 1, where a hidden group's limit fires every group below it. A kill without a hit is the machine's then.
func (w *watcher) SeesAll() bool { return w.groups.root || w.groups.version == 1 }

// Above returns the folder of a group above the task's, by its index in the counters; empty if it may be another one:
// on version 1 the last visible group fires for those above it too.
func (w *watcher) Above(i int) string {
	last := len(w.groups.above) - 1
	if i < 0 || i > last || i == last && w.groups.version == 1 && !w.groups.root {
		return ""
	}
	return w.groups.above[i]
}

// Folder returns the folder of a path in the memory hierarchy; empty if it is not visible.
func (w *watcher) Folder(path string) string {
	if path == "" || w.groups.path == "" {
		return ""
	}
	below, ok := strings.CutPrefix(path, strings.TrimSuffix(w.groups.topPath, "/"))
	if !ok || below != "" && below[0] != '/' {
		return ""
	}
	return filepath.Join(w.groups.top, below)
}

// Limit reads the hard memory limit of a folder; ok is false if it has none.
func (w *watcher) Limit(dir string) (bytes int64, ok bool) {
	if w.groups.version == 1 {
		return readLimit(dir, "memory.limit_in_bytes")
	}
	return readLimit(dir, "memory.max")
}

// Peak reads the most memory that was ever charged to the task's group; ok is false if the kernel does not say.
func (w *watcher) Peak() (bytes int64, ok bool) {
	if w.groups.version == 1 {
		return readLimit(w.groups.own, "memory.max_usage_in_bytes")
	}
	return readLimit(w.groups.own, "memory.peak")
}

func readLimit(dir, name string) (bytes int64, ok bool) {
	if dir == "" {
		return 0, false
	}
	return kernel.ReadNumber(filepath.Join(dir, name))
}

// Close closes every descriptor. Run has to have returned.
func (w *watcher) Close() error {
	var errs []error
	if w.layout != nil {
		errs = append(errs, w.layout.close())
	}
	if w.poll != nil {
		errs = append(errs, w.poll.Close())
	} else if w.epoll >= 0 {
		errs = append(errs, unix.Close(w.epoll))
	}
	return errors.Join(errs...)
}
