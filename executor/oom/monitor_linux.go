// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// maxKills bounds the kills that a record lists one by one; later ones are added to the last.
const maxKills = 32

// Monitor decides that an OOM kill happened, whose limit it was, and which process was the victim. It reports each
// kill at once, and gives all of them to the evidence at the end, from which record.Diagnose decides what ended the
// task.
type Monitor struct {
	log     hclog.Logger
	watcher *watcher
	victims *victimFinder
	report  func(kill record.Kill, again bool)
	before  record.OOMCounters

	mu    sync.Mutex // guards kills
	kills []record.Kill
}

// Options describe the task of a Monitor.
type Options struct {
	Logger hclog.Logger
	FS     kernel.FS
	Cgroup procstats.Cgroup
	// Latest returns the last sample of the task, or nil.
	Latest func() *procstats.Sample
	// Report is called for each kill when it is noticed, and again if its victim changes, by one goroutine at a time:
	// the evidence has the last report of each kill.
	Report func(kill record.Kill, again bool)
}

// Open registers for the events of a task that has not started yet.
func Open(o Options) *Monitor {
	m := &Monitor{log: o.Logger, watcher: openWatcher(o.FS, o.Cgroup), report: o.Report}
	m.before = m.watcher.Counters()
	m.victims = &victimFinder{
		host: o.FS, own: m.watcher.groups.own, path: m.watcher.groups.path, peak: m.watcher.Peak, latest: o.Latest,
	}
	return m
}

// Started sets the task's main process, which was just forked.
func (m *Monitor) Started(main procstats.ProcessID) {
	m.victims.main, m.victims.since = main, kernel.Now().Mono
	if name, err := kernel.Comm(m.victims.host, main.PID); err == nil {
		m.victims.command = name
	}
}

// Run watches until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	if err := m.watcher.Run(ctx, m.notice); err != nil {
		m.log.Error("watch memory events", "error", err)
	}
}

// notice handles a rise of the number of kills, in one goroutine at a time.
func (m *Monitor) notice(before, after record.OOMCounters) {
	found := m.victims.find(after.Kills - before.Kills)
	if after.GroupKills == before.GroupKills {
		if last, extended := m.extend(found); extended {
			if last != nil {
				m.report(*last, true)
			}
			return
		}
	}
	kill := record.Kill{
		At: time.Now(), Kills: after.Kills - before.Kills, Victims: found.victims, Main: found.main, Reason: found.reason,
		Scope: record.ScopeOf(before, after, found.scope, m.watcher.SeesAll()),
	}
	if groups := after.GroupKills - before.GroupKills; groups > 0 {
		kill.Group, kill.Kills = true, groups
	} else if after.Grouped && kill.Scope == record.Ancestor || m.groupUncounted(kill.Scope) {
		kill.Group, kill.Kills = true, 1
	}
	kill.Others = !kill.Main && process.StateOf(m.victims.host, m.victims.main) == process.Alive
	m.fillLimits(&kill, before, after, found.limitPath)
	m.add(kill)
	m.report(kill, false)
}

// groupUncounted reports whether a kill was of the task's group as a whole although the kernel does not say so, before
// Linux 5.17: where memory.oom.group is on, all kills for want of memory in it or above it are.
func (m *Monitor) groupUncounted(scope record.Scope) bool {
	return scope != record.Descendant && grouped([]string{m.watcher.groups.own})
}

// fillLimits adds whose limit was hit, how high it is, and how much memory the task had.
func (m *Monitor) fillLimits(kill *record.Kill, before, after record.OOMCounters, limitPath string) {
	switch kill.Scope {
	case record.Own:
		kill.Where = m.watcher.groups.own
	case record.Descendant:
		kill.Where = m.watcher.Folder(limitPath)
	case record.Ancestor:
		kill.Where = m.watcher.Folder(limitPath)
		if i, ok := record.HitAbove(before, after); ok && kill.Where == "" {
			kill.Where = m.watcher.Above(i)
		}
	case record.HostScope, record.AncestorOrHost:
	}
	if limit, ok := m.watcher.Limit(kill.Where); ok {
		kill.LimitBytes = &limit
	}
	kill.Where = procstats.EscapeName(kill.Where)
	if peak, ok := m.watcher.Peak(); ok {
		kill.PeakBytes = &peak
		if limit, ok := m.watcher.Limit(m.watcher.groups.own); ok {
			kill.HeadroomBytes = new(max(0, limit-peak))
		}
	}
}

// extend adds victims to the last kill if it was of a group as a whole, which the kernel counts process by process.
// It returns whether it was, and the kill if its representative process changed.
func (m *Monitor) extend(found found) (changed *record.Kill, extended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kills) == 0 {
		return nil, false
	}
	last := &m.kills[len(m.kills)-1]
	if !last.Group || time.Since(last.At) > groupSpan || !m.watcher.KilledAsOne() {
		return nil, false
	}
	before := *last
	last.Others = last.Others && process.StateOf(m.victims.host, m.victims.main) == process.Alive
	if found.main {
		last.Main, last.Others = true, false
		last.Victims = slices.Concat(found.victims, last.Victims)
	} else {
		last.Victims = append(last.Victims, found.victims...)
	}
	if sameVictim(&before, last) {
		return nil, true
	}
	return new(*last), true
}

// sameVictim reports whether two kills name the same process.
func sameVictim(a, b *record.Kill) bool {
	x, y := a.Victim(), b.Victim()
	if x == nil || y == nil {
		return x == y
	}
	return x.PID == y.PID && x.Namespace == y.Namespace && x.Command == y.Command
}

func (m *Monitor) add(kill record.Kill) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kills) < maxKills {
		m.kills = append(m.kills, kill)
		return
	}
	last := &m.kills[len(m.kills)-1]
	kill.Kills += last.Kills
	kill.Group = kill.Group || last.Group
	if last.Main {
		kill.Main, kill.Victims, kill.Scope = true, last.Victims, last.Scope
	}
	*last = kill
}

// Finish looks a last time, while the cgroup still exists, and adds the kills to the evidence.
func (m *Monitor) Finish(e *record.Evidence) {
	m.watcher.Look(m.notice)
	after := m.watcher.Counters()
	const sigkill = int(unix.SIGKILL)
	unexplained := e.Signal == sigkill && e.Cause == "" && e.Forwarded != sigkill
	if unexplained && len(m.kills) == 0 { // nothing is counted, or it was killed in another cgroup
		m.askForMain(e)
	}
	if err := m.Close(); err != nil {
		m.log.Error("close memory events", "error", err)
	}
	e.OOMBefore, e.OOMAfter = m.before, after
	m.mu.Lock()
	e.Kills = m.kills
	m.mu.Unlock()
	if unexplained && len(e.Kills) == 0 {
		e.Killers = userspaceKillers(m.victims.host)
	}
}

// NameMain completes the evidence about a main process that was gone when its kill was noticed: only now it is known
// that SIGKILL ended it.
func (m *Monitor) NameMain(e *record.Evidence, final *procstats.Sample) {
	kill, main := record.DecisiveKill(*e)
	if !main {
		return
	}
	before := *kill
	if m.victims.nameMain(kill, final); !sameVictim(&before, kill) {
		m.report(*kill, true)
	}
}

// Close closes all descriptors, as Finish does.
func (m *Monitor) Close() error { return errors.Join(m.victims.close(), m.watcher.Close()) }

// askForMain looks for the main process in the kernel's log if nothing else counts kills.
func (m *Monitor) askForMain(e *record.Evidence) {
	found := m.victims.findMain()
	if !found.main {
		return
	}
	kill := record.Kill{At: e.EndedAt, Scope: found.scope, Victims: found.victims, Main: true}
	if kill.Scope == "" && m.victims.path == "" { // else it had left its group for one whose limit was hit
		kill.Scope = record.AncestorOrHost
	}
	m.add(kill)
	m.report(kill, false)
}

// userspaceKillers returns the names of running programs that send SIGKILL when memory is short.
func userspaceKillers(host kernel.FS) []string {
	pids, err := kernel.Processes(host)
	if err != nil {
		return nil
	}
	var names []string
	for _, pid := range pids {
		name, err := kernel.Comm(host, pid)
		if err != nil {
			continue // it has ended, or is not ours to see
		}
		if slices.Contains([]string{"systemd-oomd", "earlyoom", "nohang", "oomd"}, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// mostNested bounds the groups below a task's that one look reads.
const mostNested = 256

// nestedKills counts OOM kills in the groups below a task's if the task's own counter omits them: on version 1, and
// on version 2 under memory_localevents. It misses a group that is made and removed between two looks.
type nestedKills struct {
	own string
	// file has oom_kill, and limit names a counter that says whether the group's own limit was ever hit.
	file, limitFile, limitKey string

	seen map[string]int64 // oom_kill by folder
	// hits is how often a limit of the task's group or one above it was hit, and hitAt when it was last seen to rise
	// without a kill since; judged is the number of kills that were attributed.
	hits, judged int64
	hitAt        time.Time
	// kills is the sum over all groups, including removed ones; atLimit is how many of them were at a limit below.
	kills, atLimit int64
}

func newNestedV1(own string) *nestedKills {
	return &nestedKills{own: own, file: "memory.oom_control", limitFile: "memory.failcnt"}
}

func newNestedV2(own string) *nestedKills {
	return &nestedKills{own: own, file: "memory.events", limitFile: "memory.events.local", limitKey: "oom"}
}

// count counts again. limited is the number of new kills in groups whose limit, or one between them and the task's,
// was ever hit; attribute has to be called next.
func (n *nestedKills) count() (limited int64) {
	now := map[string]int64{}
	budget := mostNested
	n.walk(n.own, false, &budget, func(dir string, above bool) (hit bool) {
		data, err := kernel.ReadFile(filepath.Join(dir, n.file))
		hit = above || n.hit(dir) // after the kills
		values, ok := counters(data, "oom_kill")
		if err != nil || !ok {
			return hit
		}
		now[dir] = values[0]
		rise := values[0] - n.seen[dir]
		if rise < 0 {
			rise = values[0] // another group under the same name
		}
		n.kills += rise
		if hit {
			limited += rise
		}
		return hit
	})
	n.seen = now
	return limited
}

// attribute decides whose limit led to the kills that were just counted. hits is how often the limits of the task's
// group and of those above it were hit: they caused the kills that follow, in the groups below too.
func (n *nestedKills) attribute(limited, hits int64) {
	if hits != n.hits {
		n.hits, n.hitAt = hits, time.Now()
	}
	if time.Since(n.hitAt) >= hitSpan {
		n.atLimit += limited
	}
	if n.kills != n.judged {
		n.judged, n.hitAt = n.kills, time.Time{}
	}
}

// walk visits every group below dir until the budget is used up. above says whether a limit between it and the task's
// group was ever hit; visit returns the same for the groups below it.
func (n *nestedKills) walk(dir string, above bool, budget *int, visit func(dir string, above bool) (hit bool)) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // it is gone
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if *budget == 0 {
			return
		}
		*budget--
		child := filepath.Join(dir, entry.Name())
		n.walk(child, visit(child, above), budget, visit)
	}
}

// hit reports whether the limit of a group was ever hit.
func (n *nestedKills) hit(dir string) bool {
	path := filepath.Join(dir, n.limitFile)
	if n.limitKey == "" {
		hits, ok := kernel.ReadNumber(path)
		return ok && hits > 0
	}
	data, _ := kernel.ReadFile(path) // without it nothing was hit
	values, ok := counters(data, n.limitKey)
	return ok && values[0] > 0
}
