// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package shape

import (
	"math/rand/v2"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Bounds of a whole task: no seed may harm the machine that it is tried on.
const (
	// MaxMemory is what all processes map, send and write to memory together.
	MaxMemory = 200 * mib
	// MaxFiles is what they write to files.
	MaxFiles = 96 * mib
	// MaxCPU is what they burn.
	MaxCPU = time.Second
	// MaxProcesses counts all processes, short-lived ones included.
	MaxProcesses = 100
)

// maker draws a shape, within what is left of the bounds.
type maker struct {
	*rand.Rand
	// shrink divides all sizes.
	shrink        int64
	memory, files int64
	cpu           time.Duration
	processes     int
}

// New returns the shape of a seed. All sizes in it are divided by shrink, for machines that take their time.
func New(seed uint64, shrink int64) Shape {
	m := &maker{
		Rand: rand.New(rand.NewPCG(seed, 0)), shrink: shrink,
		memory: MaxMemory, files: MaxFiles, cpu: MaxCPU, processes: MaxProcesses - 1,
	}
	s := Shape{Seed: seed, Shrink: shrink, Interval: pick(m, 20*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond)}
	if shrink > 1 {
		s.Interval *= 4
	}
	s.Main = m.process(0)
	s.Main.Holds, s.Main.Lingers, s.Main.Daemon = false, false, false
	if !m.chance(15) {
		s.Hold = max(150*time.Millisecond, 4*s.Interval)
	}
	s.Reaps = m.chance(40) && !s.Main.lingers(false)
	s.All = m.chance(60)
	if m.chance(20) {
		s.MaxRows = 1 + m.IntN(3)
	}
	if m.chance(15) {
		s.Quota = pick(m, 40, 80)
	}
	// A process that lingers is never done.
	s.WaitAll = !s.Main.lingers(true) && m.chance(30)
	return s
}

func pick[T any](m *maker, from ...T) T { return from[m.IntN(len(from))] }

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

// lingers reports whether a child lingers, or, with all, anyone below.
func (p Process) lingers(all bool) bool {
	for _, step := range p.Steps {
		if step.Process != nil && (step.Process.Lingers || all && step.Process.lingers(all)) {
			return true
		}
	}
	return false
}

// process draws the steps of one process.
func (m *maker) process(depth int) Process {
	p := Process{Daemon: depth > 0 && m.chance(25), Holds: depth > 0 && m.chance(50)}
	p.Lingers = p.Holds && m.chance(25)
	for _, opening := range []struct {
		kind    Kind
		percent int
	}{{Session, 10}, {Nest, 8}, {Escape, 15}, {Exec, 10}, {Ignore, 8}, {Leaderless, 10}} {
		if opening.kind == Session && (p.Daemon || depth == 0) {
			continue // is the leader of its session or of its process group already
		}
		if m.chance(opening.percent) {
			p.Steps = append(p.Steps, Step{Kind: opening.kind})
		}
	}
	for range 1 + m.IntN(5) {
		if step, ok := m.step(depth); ok {
			p.Steps = append(p.Steps, step)
		}
	}
	return p
}

// step draws a step; ok is false where the bounds leave no room for it.
func (m *maker) step(depth int) (Step, bool) {
	switch group := m.IntN(100); {
	case group < 22:
		return m.busy()
	case group < 45:
		return m.held()
	case group < 70 || depth == 3:
		return m.file()
	}
	if m.processes < 2 {
		return Step{}, false
	}
	m.processes -= 2 // a daemon has one in between
	child := m.process(depth + 1)
	return Step{Kind: Child, Process: &child, Wait: !child.Holds && m.chance(40)}, true
}

func (m *maker) busy() (Step, bool) {
	step := Step{Kind: pick(m, Burn, Burn, Threads, Churn, Sleep), Count: 1}
	step.Time = pick(m, 1*time.Millisecond, 5*time.Millisecond, 30*time.Millisecond, 120*time.Millisecond)
	switch step.Kind {
	case Threads:
		step.Count = 2 + m.IntN(4)
	case Churn:
		step.Count, step.Time = min(m.processes, 1+m.IntN(12)), step.Time/10
		m.processes -= step.Count
	case Sleep:
		return Step{Kind: Sleep, Time: step.Time}, true
	}
	all := time.Duration(step.Count) * step.Time
	if step.Count == 0 || all > m.cpu {
		return step, false
	}
	m.cpu -= all
	if step.Kind == Burn {
		step.Count = 0
	}
	return step, true
}

func (m *maker) size(sizes ...int64) int64 {
	size := pick(m, sizes...)
	return max(4*kib, (size+m.Int64N(size)/2)/m.shrink&^(4*kib-1))
}

func (m *maker) held() (Step, bool) {
	step := Step{Kind: pick(m, Private, Private, Spike, Mapped, Memfd, Shm, Shared, Pipes, Sockets, Huge)}
	step.Size = m.size(64*kib, mib, 5*mib, 20*mib, 60*mib)
	all := step.Size
	switch step.Kind {
	case Spike:
		step.Time = pick(m, 5*time.Millisecond, 60*time.Millisecond, 150*time.Millisecond)
	case Shared:
		step.Count = min(m.processes, 1+m.IntN(6))
		m.processes -= step.Count
		if step.Count == 0 {
			return step, false
		}
	case Pipes:
		step.Count, step.Size = 1+m.IntN(12), 0
		all = int64(step.Count) * mib
	case Sockets:
		step.Count, step.Size = 1+m.IntN(40), 0
		all = int64(step.Count) * mib / 2
	case Huge:
		step.Size = (step.Size + 2*mib - 1) &^ (2*mib - 1)
		all = step.Size
	}
	if all > m.memory {
		return step, false
	}
	m.memory -= all
	return step, true
}

func (m *maker) file() (Step, bool) {
	step := Step{
		Kind:  pick(m, Write, Write, Direct, Store, Sendfile, Copy, Reserve, Overwrite, ReadBack),
		Size:  m.size(4*kib, 300*kib, 2*mib, 10*mib, 30*mib),
		After: pick(m, Keep, Keep, Sync, Unlink, Truncate),
	}
	if step.Kind == ReadBack || step.Kind == Overwrite && step.After != Keep {
		step.After = Sync
	}
	all := step.Size
	if step.Kind == Copy {
		all *= 2
	}
	if all > m.files {
		return step, false
	}
	m.files -= all
	return step, true
}
