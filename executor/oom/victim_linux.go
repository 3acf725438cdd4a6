// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// logDelay is how long the first line that names a victim may come after the notification: the kernel notifies
	// first, and a hypervisor may keep the CPU that does from running in between. The line always comes: the kernel
	// limits the rate of those around it only.
	logDelay = 250 * time.Millisecond
	// restDelay is how long each further line may take. A group that is killed as a whole has one less than it has kills.
	restDelay = 25 * time.Millisecond
	// earlySpan is for how long a line waits for its notification, by the log's own clock.
	earlySpan = 5 * time.Second
	// deathDelay is how long a victim may take until it is seen to be dying.
	deathDelay = 20 * time.Millisecond
)

// killLog is the kernel's log.
type killLog interface {
	// Next returns the kills that were logged since the last call.
	Next() ([]LoggedKill, error)
	// Wait blocks until something is logged or the time is up.
	Wait(timeout time.Duration) error
	Close() error
}

// victimFinder finds the victims of kills: in the kernel's log if it can be read, otherwise among the processes of
// the last sample that are gone. It is used by one goroutine at a time.
type victimFinder struct {
	host kernel.FS
	// own is the folder of the task's memory cgroup, and path its path in the hierarchy.
	own, path string
	latest    func() *procstats.Sample
	// peak returns the most memory that the group had; known is false if the kernel does not say. It may be nil.
	peak func() (bytes int64, known bool)
	main procstats.ProcessID
	// since is CLOCK_MONOTONIC at the task's start.
	since time.Duration

	reader killLog
	denied error // why there is no reader
	// early are kills of the task that were logged before their notification, oldest first.
	early []LoggedKill
	// foreign reports that the log's numbers are from another PID namespace.
	foreign bool
	// command is the main process's name, at first as it was at the start.
	command string
	// resident is the main process's memory in the last sample before a kill; nil if unknown.
	resident *int64
	// knownDead are processes of the last sample that were dead at an earlier kill.
	knownDead map[procstats.ProcessID]bool
}

// found is what is known of the victims of one notice.
type found struct {
	victims []record.Victim
	// main reports that the main process is among them; it stands first then.
	main bool
	// scope and limitPath are the log's words about the limit, if any.
	scope     record.Scope
	limitPath string
	reason    string
}

// add adds a victim; the main process comes first.
func (f *found) add(victim record.Victim, main bool) {
	if main {
		f.main = true
		f.victims = slices.Insert(f.victims, 0, victim)
		return
	}
	f.victims = append(f.victims, victim)
}

// find looks for the given number of victims.
func (v *victimFinder) find(number int64) found {
	defer v.markDead()
	v.remember()
	kills, err := v.logged(number)
	if len(kills) > 0 {
		return v.fromLog(kills)
	}
	f := v.fromSample(number)
	switch {
	case len(f.victims) > 0:
	case err != nil:
		f.reason = fmt.Sprintf("the kernel's log cannot be read (%v); %s", err, f.reason)
	default:
		f.reason = "the kernel's log does not name it; " + f.reason
	}
	return f
}

// remember notes the last sample's row of the main process, which later samples will not have.
func (v *victimFinder) remember() {
	s := v.latest()
	if s == nil {
		return
	}
	i := slices.IndexFunc(s.Processes, func(row procstats.ProcessRow) bool { return row.ProcessID == v.main })
	if i < 0 {
		return
	}
	v.command = s.Processes[i].Command
	if bytes := rss(s.Processes[i]); bytes > 0 {
		v.resident = new(int64(bytes))
	}
}

// findMain looks for the main process only, in a log that may have been silent for long.
func (v *victimFinder) findMain() found {
	if err := v.open(); err != nil || v.foreign {
		return found{}
	}
	kills, err := v.reader.Next()
	if err != nil {
		return found{}
	}
	kills = slices.DeleteFunc(kills, func(k LoggedKill) bool { return k.PID != v.main.PID || !v.young(k) })
	if len(kills) == 0 {
		return found{}
	}
	last := kills[len(kills)-1] // one before may be of another process that had the number
	f := v.fromLog([]LoggedKill{last})
	if f.scope == "" && last.OOMCgroup != "" && v.path == "" {
		// The task has no group of its own there: it was in the one that had no memory left, or below it.
		f.scope, f.limitPath = record.Ancestor, last.OOMCgroup
	}
	return f
}

// logged returns a number of kills of the task's processes from the log, or fewer. It waits a moment for lines that
// are still to come.
func (v *victimFinder) logged(number int64) ([]LoggedKill, error) {
	if err := v.open(); err != nil {
		return nil, err
	}
	ours := v.early
	v.early = nil
	anonymous := 0
	for late := time.Now().Add(logDelay); ; {
		kills, err := v.reader.Next()
		for _, kill := range kills {
			switch {
			case !v.young(kill):
			case v.concerns(kill):
				ours = append(ours, kill)
				late = time.Now().Add(restDelay)
			case kill.TaskCgroup == "":
				anonymous++ // rate-limited: it may have been ours, and then there is nothing more to come
			}
		}
		if err != nil {
			return v.take(ours, number), err
		}
		left := time.Until(late)
		if int64(len(ours)+anonymous) >= number || left <= 0 {
			return v.take(ours, number), nil
		}
		if err := v.reader.Wait(left); err != nil {
			return v.take(ours, number), err
		}
	}
}

// take keeps the kills beyond the number for their own notifications.
func (v *victimFinder) take(kills []LoggedKill, number int64) []LoggedKill {
	if len(kills) == 0 {
		return nil
	}
	newest := kills[len(kills)-1].Time
	kills = slices.DeleteFunc(kills, func(k LoggedKill) bool { return newest-k.Time > earlySpan })
	if int64(len(kills)) > number {
		v.early = slices.Clone(kills[number:])
		kills = kills[:number]
	}
	return kills
}

// open opens the log at the first kill, because it costs something.
func (v *victimFinder) open() error {
	if v.reader != nil || v.denied != nil {
		return v.denied
	}
	v.foreign = !kernel.InInitialPIDNamespace(v.host)
	reader, err := OpenLog()
	if err != nil {
		v.denied = err
		return err
	}
	v.reader = reader
	return nil
}

// concerns reports whether a kill was of a process of the task. If the log does not name its group, the number
// decides.
func (v *victimFinder) concerns(kill LoggedKill) bool {
	if kill.TaskCgroup != "" {
		if _, in := kill.In(v.path); in {
			return true
		}
		// A group above the task that is killed as a whole takes the task with it.
		return kill.Group != "" && v.knows(kill)
	}
	return v.knows(kill)
}

// knows reports whether the killed process is one of ours that still exists, or that was sampled.
func (v *victimFinder) knows(kill LoggedKill) bool {
	if v.foreign {
		return false
	}
	if kill.PID == v.main.PID {
		return true
	}
	if c, err := kernel.FindCgroup(v.host, kill.PID); err == nil && v.own != "" {
		return slices.ContainsFunc(append(slices.Collect(maps.Values(c.V1)), c.V2), func(dir string) bool {
			return dir == v.own || strings.HasPrefix(dir, v.own+"/")
		})
	}
	s := v.latest()
	return s != nil && slices.ContainsFunc(s.Processes, func(p procstats.ProcessRow) bool {
		return p.PID == kill.PID && p.Command == kill.Command
	})
}

// young reports whether a line was logged after the task's start, by the log's own clock: it is not steered as
// CLOCK_MONOTONIC is, and drifts from it by some 10 parts in a million.
func (v *victimFinder) young(kill LoggedKill) bool {
	const slack, drift = 2 * time.Second, 20_000
	return kill.Time+kill.Time/drift >= v.since-slack
}

// fromLog converts kills of the log into victims.
func (v *victimFinder) fromLog(kills []LoggedKill) found {
	var f found
	for _, kill := range kills {
		victim := record.Victim{PID: kill.PID, Command: kill.Command, Source: record.FromKmsg, Chosen: kill.chosen()}
		if kill.HasRSS {
			victim.RSSBytes = &kill.RSS
		}
		if v.foreign {
			v.translate(&victim)
		}
		f.add(victim, victim.Namespace == "" && victim.PID == v.main.PID)
		if scope, path := v.scopeOf(kill); scope != "" {
			f.scope, f.limitPath = scope, path
		}
	}
	return f
}

// scopeOf returns what a line of the log means for this task; empty if it does not say.
func (v *victimFinder) scopeOf(kill LoggedKill) (scope record.Scope, limitPath string) {
	switch {
	case kill.Constraint != "" && kill.Constraint != ConstraintMemcg:
		return record.HostScope, ""
	case kill.OOMCgroup == "":
		return "", ""
	}
	own, in := kill.In(v.path)
	if !in {
		return "", ""
	}
	hidden := strings.TrimSuffix(own, v.path)
	visible, ok := strings.CutPrefix(kill.OOMCgroup, hidden)
	if !ok {
		visible = ""
	}
	switch {
	case kill.OOMCgroup == own:
		return record.Own, visible
	case strings.HasPrefix(kill.OOMCgroup, own+"/"):
		return record.Descendant, visible
	}
	return record.Ancestor, visible
}

// translate gives a victim its number in our namespace: that of the only process of its name that is gone. The
// numbers of a dead process in other namespaces are lost.
func (v *victimFinder) translate(victim *record.Victim) {
	victim.Namespace = "host"
	killed, gone := v.dead()
	match := slices.DeleteFunc(append(killed, gone...), func(row procstats.ProcessRow) bool {
		return row.Command != victim.Command
	})
	if len(match) == 1 {
		victim.PID, victim.Namespace = match[0].PID, ""
	}
}

// isLarge reports whether a process had a good part of the memory. A small one probably ended by itself, and the
// victim began after the sample.
func (v *victimFinder) isLarge(row procstats.ProcessRow) bool {
	if v.peak == nil {
		return true
	}
	peak, known := v.peak()
	return !known || 4*rss(row) >= float64(peak)
}

// fromSample finds victims among the processes of the last sample: those that are being killed, the largest first, or
// else the only one that is gone. If several are gone they may have ended by themselves.
func (v *victimFinder) fromSample(number int64) found {
	const looks = 8
	killed, gone := v.dead()
	for i := 0; i < looks && len(killed)+len(gone) == 0; i++ {
		<-time.After(deathDelay / looks) // nothing tells when the signal has arrived
		killed, gone = v.dead()
	}
	if s := v.latest(); s == nil || len(s.Processes) == 0 {
		return found{reason: "nothing was sampled while the task ran"}
	}
	// How the main process ended is known for certain later; that it is gone proves nothing.
	gone = slices.DeleteFunc(gone, func(row procstats.ProcessRow) bool { return row.ProcessID == v.main })
	if len(killed) == 0 && len(gone) == 1 && v.isLarge(gone[0]) {
		killed = gone
	}
	if len(killed) == 0 {
		return found{reason: "no process of the last sample is known to have been killed"}
	}
	slices.SortFunc(killed, func(a, b procstats.ProcessRow) int { return cmp.Compare(rss(b), rss(a)) })
	if int64(len(killed)) > number {
		killed = killed[:number]
	}
	var f found
	for _, row := range killed {
		f.add(victimOf(row), row.ProcessID == v.main)
	}
	return f
}

func victimOf(row procstats.ProcessRow) record.Victim {
	victim := record.Victim{PID: row.PID, Command: row.Command, Source: record.FromSample}
	// Who is on the way out has given the memory back.
	if bytes := rss(row); bytes > 0 {
		victim.RSSBytes = new(int64(bytes))
	}
	return victim
}

// nameMain makes the main process the victim of a kill whose victim is unknown, or known only by a number of another
// PID namespace. Its memory is that of the last sample or, as an upper bound, of wait4(2).
func (v *victimFinder) nameMain(kill *record.Kill, final *procstats.Sample) {
	var victim record.Victim
	switch {
	case len(kill.Victims) == 0:
		victim = record.Victim{Command: v.command, Source: record.FromSample}
	case kill.Main, len(kill.Victims) == 1 && kill.Victims[0].Namespace != "" && kill.Victims[0].Command == v.command:
		victim = kill.Victims[0]
	default:
		return
	}
	victim.PID, victim.Namespace = v.main.PID, ""
	victim.RSSBytes = cmp.Or(victim.RSSBytes, v.resident)
	if most, ok := final.Task.Number(procstats.RusageMaxRSS); ok && victim.RSSBytes == nil {
		victim.RSSBytes = new(int64(most))
	}
	kill.Main, kill.Reason = true, ""
	kill.Victims = append([]record.Victim{victim}, kill.Victims[min(1, len(kill.Victims)):]...)
}

// dead returns the rows of the last sample whose processes are being killed, and those whose processes are gone,
// without those of earlier kills.
func (v *victimFinder) dead() (killed, gone []procstats.ProcessRow) {
	s := v.latest()
	if s == nil {
		return nil, nil
	}
	seen := map[procstats.ProcessID]bool{}
	for _, row := range s.Processes {
		if v.knownDead[row.ProcessID] {
			seen[row.ProcessID] = true
			continue
		}
		switch process.StateOf(v.host, row.ProcessID) {
		case process.Killed:
			killed = append(killed, row)
		case process.Gone:
			gone = append(gone, row)
		case process.Alive:
		}
	}
	v.knownDead = seen
	return killed, gone
}

// markDead notes which processes of the last sample are dead by now: they are not the victims of the next kill.
func (v *victimFinder) markDead() {
	s := v.latest()
	if s == nil {
		return
	}
	if v.knownDead == nil {
		v.knownDead = map[procstats.ProcessID]bool{}
	}
	for _, row := range s.Processes {
		if process.StateOf(v.host, row.ProcessID) != process.Alive {
			v.knownDead[row.ProcessID] = true
		}
	}
}

func rss(row procstats.ProcessRow) float64 {
	bytes, _ := row.Readings.Number(procstats.ProcessRSS)
	return bytes
}

func (v *victimFinder) close() error {
	if v.reader == nil {
		return nil
	}
	return v.reader.Close()
}

// Victims names the processes that were killed in a cgroup whose counters the caller reads. It registers for no events,
// so that nothing is written in the cgroup. It is used by one goroutine at a time; nil is closed.
type Victims struct{ finder victimFinder }

// OpenVictims looks for kills since a time on the monotonic clock.
func OpenVictims(host kernel.FS, cgroup procstats.Cgroup, since time.Duration) *Victims {
	own, _ := findGroups(host, cgroup) // without them the log names no group that is ours
	return &Victims{victimFinder{host: host, own: own.own, path: own.path, since: since}}
}

// Describe says what became of a number of kills that the counters tell of: before and after are the samples around
// them.
func (v *Victims) Describe(kills int64, before, after *procstats.Sample) record.Kill {
	v.finder.latest = func() *procstats.Sample { return before }
	if peak, known := after.Task.Number(procstats.CgroupMemoryPeak); known {
		v.finder.peak = func() (int64, bool) { return int64(peak), true }
	}
	found := v.finder.find(kills)
	kill := record.Kill{At: time.Now(), Kills: kills, Victims: found.victims, Reason: found.reason}
	limit, limited := after.Task.Number(procstats.CgroupMemoryMax)
	was, is := countersOf(before, limited), countersOf(after, limited)
	kill.Group, kill.Scope = is.GroupKills > was.GroupKills, record.ScopeOf(was, is, found.scope, false)
	if limited && kill.Scope == record.Own {
		kill.LimitBytes = new(int64(limit))
	}
	return kill
}

// countersOf returns the counters of a sample. The events are those of groups below, too: without a limit, they are not
// the group's own.
func countersOf(s *procstats.Sample, limited bool) (c record.OOMCounters) {
	groups, _ := s.Task.Number(procstats.CgroupMemoryEventsOOMGroupKill) // since Linux 5.17
	c.GroupKills = int64(groups)
	if limited {
		own, _ := s.Task.Number(procstats.CgroupMemoryEventsOOM) // not of version 1
		c.Own = int64(own)
	}
	return c
}

// Close closes the kernel's log.
func (v *Victims) Close() error {
	if v == nil {
		return nil
	}
	return v.finder.close()
}
