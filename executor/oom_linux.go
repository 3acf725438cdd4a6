// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/oomwatch"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// maxKills bounds the kills that a record lists one by one; later ones are added to the last.
const maxKills = 32

// groupSpan is how long it may take until all processes of a group are killed that is killed as a whole.
const groupSpan = time.Second

// oomKeeper turns what the kernel tells of OOM kills into events at once and into evidence for the end.
type oomKeeper struct {
	log     hclog.Logger
	watcher *oomwatch.Watcher
	journal *journal
	victims *victimFinder
	before  record.OOMCounters

	mu    sync.Mutex // guards kills
	kills []record.Kill
}

// newOOMKeeper registers for the events of a task that has not started yet.
func newOOMKeeper(t *task, host kernel.FS) *oomKeeper {
	o := &oomKeeper{log: t.log, watcher: oomwatch.Open(host, t.group.Cgroup), journal: t.journal}
	o.before = o.watcher.Counters()
	o.victims = &victimFinder{host: host, own: o.watcher.Own(), path: o.watcher.Path(), latest: t.sampler.latest}
	return o
}

// started says which process is the task's main one; it was just forked.
func (o *oomKeeper) started(main procstats.ProcessID) {
	o.victims.main, o.victims.since = main, kernel.Now().Mono
	if name, err := os.ReadFile(filepath.Join(o.victims.host.Proc, strconv.Itoa(main.PID), "comm")); err == nil {
		o.victims.command = strings.TrimSuffix(string(name), "\n")
	}
}

// run watches until ctx ends.
func (o *oomKeeper) run(ctx context.Context) {
	if err := o.watcher.Run(ctx, o.notice); err != nil {
		o.log.Error("watch memory events", "error", err)
	}
}

// notice is called for each rise of the number of kills, by one goroutine at a time.
func (o *oomKeeper) notice(before, after record.OOMCounters) {
	found := o.victims.find(after.Kills - before.Kills)
	if after.GroupKills == before.GroupKills && o.extend(found) {
		return
	}
	kill := record.Kill{
		At: time.Now(), Kills: after.Kills - before.Kills, Victims: found.victims, Main: found.main, Reason: found.reason,
		Scope: record.ScopeOf(before, after, found.scope, o.watcher.SeesAll()),
	}
	if groups := after.GroupKills - before.GroupKills; groups > 0 {
		kill.Group, kill.Kills = true, groups
	} else if after.Grouped && kill.Scope == record.Ancestor {
		kill.Group, kill.Kills = true, 1
	}
	kill.Others = !kill.Main && fateOf(o.victims.host, o.victims.main) == lives
	o.fillLimits(&kill, before, after, found.limitPath)
	o.add(kill)
	o.journal.add("oom_kill", kill.Sentence(), annotations(&kill))
}

// fillLimits reads whose limit it was, how high it is and how much the task had.
func (o *oomKeeper) fillLimits(kill *record.Kill, before, after record.OOMCounters, limitPath string) {
	switch kill.Scope {
	case record.Own:
		kill.Where = o.watcher.Own()
	case record.Descendant:
		kill.Where = o.watcher.Folder(limitPath)
	case record.Ancestor:
		kill.Where = o.watcher.Folder(limitPath)
		if i, ok := record.HitAbove(before, after); ok && kill.Where == "" {
			kill.Where = o.watcher.Above(i)
		}
	case record.HostScope, record.AncestorOrHost:
	}
	if limit, ok := o.watcher.Limit(kill.Where); ok {
		kill.LimitBytes = &limit
	}
	if peak, ok := o.watcher.Peak(); ok {
		kill.PeakBytes = &peak
		if limit, ok := o.watcher.Limit(o.watcher.Own()); ok {
			headroom := max(0, limit-peak)
			kill.HeadroomBytes = &headroom
		}
	}
}

// extend adds victims to the last kill where that was of a group as a whole, which the kernel counts one process after
// the other. It reports whether it was.
func (o *oomKeeper) extend(found found) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.kills) == 0 {
		return false
	}
	last := &o.kills[len(o.kills)-1]
	if !last.Group || time.Since(last.At) > groupSpan || !o.watcher.KilledAsOne() {
		return false
	}
	last.Others = last.Others && fateOf(o.victims.host, o.victims.main) == lives
	if found.main {
		last.Main, last.Others = true, false
		last.Victims = slices.Concat(found.victims, last.Victims)
	} else {
		last.Victims = append(last.Victims, found.victims...)
	}
	return true
}

func (o *oomKeeper) add(kill record.Kill) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.kills) < maxKills {
		o.kills = append(o.kills, kill)
		return
	}
	last := &o.kills[len(o.kills)-1]
	kill.Kills += last.Kills
	kill.Group = kill.Group || last.Group
	if last.Main {
		kill.Main, kill.Victims, kill.Scope = true, last.Victims, last.Scope
	}
	*last = kill
}

// finish looks a last time, while the cgroup is still there, and adds what is known to the evidence.
func (o *oomKeeper) finish(e *record.Evidence) {
	o.watcher.Look(o.notice)
	after := o.watcher.Counters()
	unexplained := e.Signal == sigkill && e.Cause == "" && e.PassedOn != sigkill
	if unexplained && !after.Read {
		o.askForMain(e)
	}
	if err := o.close(); err != nil {
		o.log.Error("close memory events", "error", err)
	}
	e.OOMBefore, e.OOMAfter = o.before, after
	o.mu.Lock()
	e.Kills = o.kills
	o.mu.Unlock()
	if unexplained && len(e.Kills) == 0 {
		e.Killers = userspaceKillers(o.victims.host)
	}
}

// nameMain completes the evidence about a main process that was gone when its kill was noticed: that SIGKILL ended it
// is known only now.
func (o *oomKeeper) nameMain(e *record.Evidence, final *procstats.Sample) {
	if kill, main := record.DecisiveKill(*e); main {
		o.victims.nameMain(kill, final)
	}
}

func (o *oomKeeper) close() error { return errors.Join(o.victims.close(), o.watcher.Close()) }

// askForMain looks for the main process in the kernel's log, where nothing else counts kills.
func (o *oomKeeper) askForMain(e *record.Evidence) {
	found := o.victims.findMain()
	if !found.main {
		return
	}
	kill := record.Kill{At: e.EndedAt, Scope: found.scope, Victims: found.victims, Main: true}
	if kill.Scope == "" {
		kill.Scope = record.AncestorOrHost
	}
	o.add(kill)
	o.journal.add("oom_kill", kill.Sentence(), annotations(&kill))
}

func annotations(kill *record.Kill) map[string]string {
	a := map[string]string{"scope": string(kill.Scope), "kills": strconv.FormatInt(kill.Kills, 10)}
	for name, value := range map[string]*int64{
		"limit_bytes": kill.LimitBytes, "peak_bytes": kill.PeakBytes, "headroom_bytes": kill.HeadroomBytes,
	} {
		if value != nil {
			a[name] = strconv.FormatInt(*value, 10)
		}
	}
	for name, value := range map[string]string{"limit_of": kill.Where, "reason": kill.Reason} {
		if value != "" {
			a[name] = value
		}
	}
	if kill.Group {
		a["group"] = "true"
	}
	if len(kill.Victims) == 0 {
		return a
	}
	victim := kill.Victims[0]
	a["victim_pid"], a["victim_command"], a["victim_source"] = strconv.Itoa(victim.PID), victim.Command, victim.Source
	if victim.Namespace != "" {
		a["victim_pid_namespace"] = victim.Namespace
	}
	if victim.RSSBytes != nil {
		a["victim_rss_bytes"] = strconv.FormatInt(*victim.RSSBytes, 10)
	}
	return a
}
