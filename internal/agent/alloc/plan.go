// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"fmt"
	"slices"

	"github.com/tachograph/tacho/internal/agent/job"
)

// progress is how far one task of an allocation is.
type progress struct {
	name      string
	lifecycle *job.Lifecycle
	leader    bool
	// launched tasks have a runner at work; started ones have run at least once.
	launched, started bool
	// stuck tasks run on although they were signaled to end.
	dead, failed, stuck bool
}

func (p *progress) hook() string {
	if p.lifecycle == nil {
		return ""
	}
	return p.lifecycle.Hook
}

// rank orders tasks by when they end, as on Nomad's clients: those of a rank do together, when those before are gone.
func (p *progress) rank() int { return rankOf(p.leader, p.lifecycle) }

const (
	leaderRank = iota
	mainRank   // with prestart and poststart tasks that are to end by themselves
	sidecarRank
	poststopRank // it begins when the others are gone
)

func rankOf(leader bool, l *job.Lifecycle) int {
	switch {
	case l != nil && l.Hook == job.HookPoststop:
		return poststopRank
	case leader:
		return leaderRank
	case l != nil && l.Sidecar:
		return sidecarRank
	}
	return mainRank
}

// ready reports whether the tasks that wait for a prestart task may begin.
func (p *progress) ready() bool {
	if p.lifecycle.Sidecar {
		return p.started
	}
	return p.dead && !p.failed
}

// steps is what has to be done for an allocation now.
type steps struct {
	launch []string
	// stop are launched tasks that must end, for the reason.
	stop   []string
	skip   []string // tasks that must end without having begun
	reason string
	// done is set when all tasks are dead.
	done bool
}

// plan decides what comes next:
//
//	prestart ──► main ──► poststart        each begins when the one before is ready
//	main dead, a task failed, the leader dead, or a stop ──► all others end ──► poststop
//
// Sidecars serve the others until these are gone, and are restarted until then. The others are told to end at once, so
// that none is started again; the turn of each to be signaled comes with [Task.turn].
func plan(tasks []progress, stopping string) steps {
	var s steps
	s.reason = endReason(tasks, stopping)
	ended := s.reason != ""
	prestartReady, mainsStarted, othersDead, allDead := true, true, true, true
	for i := range tasks {
		p := &tasks[i]
		switch hook := p.hook(); {
		case hook == job.HookPrestart && !p.ready():
			prestartReady = false
		case hook == "" && !p.started:
			mainsStarted = false
		}
		allDead = allDead && p.dead
		othersDead = othersDead && (p.dead || p.hook() == job.HookPoststop)
	}
	if s.done = allDead; s.done {
		return s
	}
	served := slices.ContainsFunc(tasks, func(p progress) bool {
		return p.rank() < sidecarRank && p.launched && !p.dead && !p.stuck
	})
	for i := range tasks {
		p := &tasks[i]
		switch {
		case p.dead:
		case p.hook() == job.HookPoststop:
			if !p.launched && othersDead {
				s.launch = append(s.launch, p.name)
			}
		case ended && p.launched && served && p.rank() == sidecarRank:
		case ended && p.launched:
			s.stop = append(s.stop, p.name)
		case ended:
			s.skip = append(s.skip, p.name)
		case !p.launched && mayBegin(p, prestartReady, mainsStarted):
			s.launch = append(s.launch, p.name)
		}
	}
	return s
}

// mayBegin reports whether a task may begin now. A task that ran before the agent was restarted may at once.
func mayBegin(p *progress, prestartReady, mainsStarted bool) bool {
	switch p.hook() {
	case "":
		return p.started || prestartReady
	case job.HookPoststart:
		return p.started || prestartReady && mainsStarted
	}
	return true
}

// endReason says why an allocation's tasks must end; empty if they need not.
func endReason(tasks []progress, stopping string) string {
	if stopping != "" {
		return stopping
	}
	mainsDead := true
	for i := range tasks {
		p := &tasks[i]
		switch {
		case p.failed && p.hook() != job.HookPoststop:
			return fmt.Sprintf("task %s failed", p.name)
		case p.leader && p.dead:
			return fmt.Sprintf("the leader %s has ended", p.name)
		}
		mainsDead = mainsDead && (p.hook() != "" || p.dead)
	}
	if mainsDead {
		return "the main tasks have ended"
	}
	return ""
}
