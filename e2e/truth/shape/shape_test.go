// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package shape

import (
	"reflect"
	"testing"
	"time"
)

// used is what the steps of a process and of those below it use together.
type used struct {
	memory, files int64
	burnt, waited time.Duration
	processes     int
	kinds         map[Kind]int
}

func (u *used) add(p Process) {
	u.processes++
	if p.Daemon {
		u.processes++
	}
	for _, step := range p.Steps {
		u.kinds[step.Kind]++
		switch step.Kind {
		case Burn:
			u.burnt += step.Time
		case Threads, Churn:
			u.burnt += time.Duration(step.Count) * step.Time
			if step.Kind == Churn {
				u.processes += step.Count
			}
		case Sleep, Spike:
			u.waited += step.Time
			u.memory += step.Size
		case Shared:
			u.processes += step.Count
			u.memory += step.Size
		case Private, Mapped, Memfd, Shm, Huge:
			u.memory += step.Size
		case Pipes:
			u.memory += int64(step.Count) * mib
		case Sockets:
			u.memory += int64(step.Count) * mib / 2
		case Write, Direct, Store, Sendfile, Reserve, Overwrite, ReadBack:
			u.files += step.Size
		case Copy:
			u.files += 2 * step.Size
		case Child:
			u.add(*step.Process)
		}
	}
}

// TestBounds checks that no seed uses more than the bounds, and that a seed always gives the same shape.
func TestBounds(t *testing.T) {
	kinds := map[Kind]int{}
	for seed := range uint64(5000) {
		s := New(seed, 1)
		if !reflect.DeepEqual(s, New(seed, 1)) {
			t.Fatalf("seed %d gives two shapes", seed)
		}
		u := used{kinds: kinds}
		u.add(s.Main)
		if u.memory > MaxMemory || u.files > MaxFiles || u.burnt > MaxCPU || u.processes > MaxProcesses || u.waited > 3*time.Second {
			t.Errorf("seed %d uses too much: %+v: %s", seed, u, s)
		}
	}
	for _, kind := range []Kind{
		Burn, Threads, Sleep, Churn, Private, Spike, Mapped, Memfd, Shm, Shared, Pipes, Sockets, Huge, Write, Direct, Store,
		Sendfile, Copy, Reserve, Overwrite, ReadBack, Escape, Nest, Session, Exec, Leaderless, Ignore, Child,
	} {
		if kinds[kind] < 200 {
			t.Errorf("%d steps %q in 5000 seeds", kinds[kind], kind)
		}
	}
}

// TestFind checks that each process is found by its path.
func TestFind(t *testing.T) {
	s := Shape{Main: Process{Steps: []Step{
		{Kind: Burn}, {Kind: Child, Process: &Process{Steps: []Step{{Kind: Child, Process: &Process{Holds: true}}}}},
	}}}
	if p, err := s.Find("1.0"); err != nil || !p.Holds {
		t.Errorf("Find(1.0) = %v, %v", p, err)
	}
	for _, path := range []string{"0", "1.1", "2", "x"} {
		if _, err := s.Find(path); err == nil {
			t.Errorf("Find(%q) found a process", path)
		}
	}
}
