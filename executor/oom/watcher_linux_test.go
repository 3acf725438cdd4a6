// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// eatVariable makes the test binary enter the cgroup that it names and touch memory until it is killed.
const eatVariable = "OOMWATCH_EAT"

const limit = 24 << 20

func TestMain(m *testing.M) {
	if dir := os.Getenv(eatVariable); dir != "" {
		if err := eat(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func eat(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	const piece = 1 << 20
	for total := 0; total < 4*limit; total += piece {
		memory, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
	}
	return errors.New("touched everything and lives")
}

// place is a group with the task's group below it and one more below that.
type place struct {
	version                    int
	parent, task, leaf, nested string
}

// newPlace makes the groups below this process's own, or skips the test with the reason why it cannot.
func newPlace(t *testing.T) place {
	t.Helper()
	here := testkit.Value(kernel.FindCgroup(kernel.HostFS(), os.Getpid()))(t)
	p := place{version: 1}
	base := here.V1["memory"]
	if base == "" {
		base, p.version = here.V2, 2
	}
	if base == "" {
		t.Skip("this process has no memory cgroup")
	}
	p.parent = filepath.Join(base, "oomwatch-"+strconv.Itoa(os.Getpid()))
	p.task = filepath.Join(p.parent, "task")
	p.leaf, p.nested = filepath.Join(p.task, "leaf"), filepath.Join(p.task, "nested")
	for _, dir := range []string{p.parent, p.task, p.leaf, p.nested} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("no groups can be made here: %v", err)
		}
		t.Cleanup(func() { remove(t, dir) })
		if p.version == 2 && (dir == p.parent || dir == p.task) {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
				t.Skipf("no memory controller here: %v", err)
			}
		}
	}
	if p.version == 1 {
		p.leaf = p.task // processes may be in it besides groups
	}
	return p
}

// remove waits for the last process that was killed to leave.
func remove(t *testing.T, dir string) {
	t.Helper()
	var err error
	for range 200 {
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Error(err)
}

func (p place) cgroup() procstats.Cgroup {
	if p.version == 1 {
		return procstats.Cgroup{V1: map[string]string{"memory": p.task}}
	}
	return procstats.Cgroup{V2: p.task}
}

func (p place) limit(t *testing.T, dir, value string) {
	t.Helper()
	name := "memory.max"
	if p.version == 1 {
		name = "memory.limit_in_bytes"
		value = strings.Replace(value, "max", "-1", 1)
	}
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(value), 0))
}

// notices collects what a watcher says.
type notices struct {
	mu   sync.Mutex
	list []string
	come chan struct{}
}

func (n *notices) add(before, after record.OOMCounters, seesAll bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, fmt.Sprintf("%s %d", record.ScopeOf(before, after, "", seesAll), after.Kills-before.Kills))
	n.come <- struct{}{}
}

// TestWatcher lets processes go over limits and holds what is noticed against whose limit it was.
func TestWatcher(t *testing.T) {
	p := newPlace(t)
	tests := []struct {
		name, eater, limited, want string
	}{
		{"own limit", p.leaf, p.task, "own 1"},
		{"own limit, process in a nested group", p.nested, p.task, "own 1"},
		{"limit of a nested group", p.nested, p.nested, "descendant 1"},
		{"limit of the parent", p.leaf, p.parent, "ancestor 1"},
		{"limit of the parent, process in a nested group", p.nested, p.parent, "ancestor 1"},
		{"own limit again", p.leaf, p.task, "own 1"},
	}
	w := openWatcher(kernel.HostFS(), p.cgroup())
	if reason := w.Counters().Reason; reason != "" {
		t.Fatal(reason)
	}
	n := &notices{come: make(chan struct{}, 64)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	notice := func(before, after record.OOMCounters) { n.add(before, after, w.SeesAll()) }
	go func() { done <- w.Run(ctx, notice) }()
	var want []string
	for _, test := range tests {
		p.limit(t, test.limited, strconv.Itoa(limit))
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), eatVariable+"="+test.eater)
		text, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(exit.String(), "killed") {
			t.Fatalf("%s: %v, want SIGKILL\n%s", test.name, err, text)
		}
		select {
		case <-n.come:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: nothing was noticed", test.name)
		}
		p.limit(t, test.limited, "max")
		want = append(want, test.want)
	}
	cancel()
	testkit.NoError(t, <-done)
	w.Look(notice)
	testkit.Diff(t, "notices", want, n.list)
	must(t, w.Close())
}

// countingLayout counts the looks.
type countingLayout struct {
	layout
	looks atomic.Int64
}

func (c *countingLayout) look() (record.OOMCounters, bool, error) {
	c.looks.Add(1)
	return c.layout.look()
}

// TestIdle holds that nothing is read while nothing happens, and that the end of the group ends nothing else.
func TestIdle(t *testing.T) {
	p := newPlace(t)
	w := openWatcher(kernel.HostFS(), p.cgroup())
	if reason := w.Counters().Reason; reason != "" {
		t.Fatal(reason)
	}
	counting := &countingLayout{layout: w.layout}
	w.layout = counting
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, func(_, _ record.OOMCounters) { t.Error("a kill was noticed") }) }()
	<-time.After(300 * time.Millisecond)
	if looks := counting.looks.Load(); looks != 0 {
		t.Errorf("%d looks while nothing happened, want none", looks)
	}
	for _, dir := range []string{filepath.Join(p.task, "leaf"), p.nested, p.task} {
		remove(t, dir)
	}
	<-time.After(300 * time.Millisecond)
	t.Logf("%d looks after the group was removed", counting.looks.Load())
	if looks := counting.looks.Load(); looks > 20 {
		t.Errorf("%d looks after the group was removed, want a few", looks)
	}
	cancel()
	testkit.NoError(t, <-done)
	w.Look(func(_, _ record.OOMCounters) { t.Error("a kill was noticed in a group that is gone") })
	must(t, w.Close())
}

// TestNotWatched holds that every case in which nothing can be watched says why, and can be run all the same.
func TestNotWatched(t *testing.T) {
	for name, cgroup := range map[string]procstats.Cgroup{
		"no cgroup":          {},
		"shared":             {V2: t.TempDir(), Shared: true},
		"no memory":          {V2: t.TempDir()},
		"other hierarchies":  {V1: map[string]string{"cpu": t.TempDir()}},
		"a folder that went": {V2: filepath.Join(t.TempDir(), "gone")},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWatcher(kernel.HostFS(), cgroup)
			if c := w.Counters(); c.Read || c.Reason == "" {
				t.Errorf("%+v, want a reason", c)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			testkit.NoError(t, w.Run(ctx, nil))
			w.Look(nil)
			must(t, w.Close())
		})
	}
}

func TestLimitHits(t *testing.T) {
	tests := []struct {
		fired []int64
		own   int64
		above []int64
	}{
		{[]int64{3}, 3, []int64{}},
		{[]int64{3, 1, 1}, 2, []int64{0, 1}},
		{[]int64{5, 5, 2}, 0, []int64{3, 2}},
		{[]int64{0, 1, 0}, 0, []int64{1, 0}}, // the task's own is still to come
	}
	for _, test := range tests {
		own, above := limitHits(test.fired)
		if own != test.own || !cmp.Equal(test.above, above) {
			t.Errorf("%v: own %d, above %v, want %d, %v", test.fired, own, above, test.own, test.above)
		}
	}
}

// script is a layout that is read again and again while its counters change.
type script []record.OOMCounters

func (s *script) look() (record.OOMCounters, bool, error) {
	c := (*s)[0]
	*s = (*s)[1:]
	return c, false, nil
}

func (*script) close() error { return nil }

// TestGroupIsAwaited looks between the kernel's count of the chosen process and that of the group that goes with it.
func TestGroupIsAwaited(t *testing.T) {
	own := t.TempDir()
	must(t, os.WriteFile(filepath.Join(own, "memory.oom.group"), []byte("1\n"), 0o600))
	chosen := record.OOMCounters{Read: true, Own: 1, Kills: 1}
	all := record.OOMCounters{Read: true, Own: 1, Kills: 3, GroupKills: 1}
	below := record.OOMCounters{Read: true, Own: 1, Below: 1, Kills: 4, GroupKills: 1}
	w := &watcher{layout: &script{chosen, chosen, all, below}, groups: groups{version: 2, own: own}}
	for i, awaits := range []bool{true, true, false, false} {
		before, after, ok := w.step()
		if !ok || after.Kills <= before.Kills {
			t.Fatalf("look %d: %+v, %+v, %v, want a kill", i, before, after, ok)
		}
		if got := w.awaitsGroup(before, after); got != awaits || got && w.recheck == 0 {
			t.Errorf("look %d: %v, and again in %s; want %v", i, got, w.recheck, awaits)
		}
		if !awaits {
			w.report(before, after, func(_, _ record.OOMCounters) {})
		}
	}
	w.awaited = time.Now().Add(-groupCountWait)
	if w.awaitsGroup(record.OOMCounters{}, chosen) {
		t.Error("the group is awaited for ever")
	}
}

// TestHitIsEarly holds that a kill is attributed to a hit that was seen together with the kill before, and that each hit
// counts for one kill.
func TestHitIsEarly(t *testing.T) {
	at := func(kills, own, above int64) record.OOMCounters {
		return record.OOMCounters{Read: true, Kills: kills, Own: own, Above: []int64{above}}
	}
	for name, test := range map[string]struct {
		looks script
		want  []record.Scope
	}{
		"with the kill before": {script{at(1, 2, 0), at(2, 2, 0), at(3, 2, 0)}, []record.Scope{record.Own, record.Own, record.HostScope}},
		"of two limits": {
			script{at(1, 1, 1), at(2, 1, 1), at(3, 1, 1)}, []record.Scope{record.Own, record.Ancestor, record.HostScope},
		},
		"and one of another limit since": {script{at(1, 2, 0), at(2, 2, 1)}, []record.Scope{record.Own, record.Ancestor}},
		"several kills at once":          {script{at(3, 4, 0), at(4, 4, 0), at(5, 5, 0)}, []record.Scope{record.Own, record.Own, record.Own}},
	} {
		w := &watcher{layout: &test.looks, base: at(0, 0, 0), last: at(0, 0, 0)}
		var got []record.Scope
		for range len(test.want) {
			w.Look(func(before, after record.OOMCounters) { got = append(got, record.ScopeOf(before, after, "", true)) })
		}
		testkit.Diff(t, name, test.want, got)
	}
	w := &watcher{layout: &script{at(1, 2, 0), at(2, 2, 0)}, base: at(0, 0, 0), last: at(0, 0, 0)}
	w.Look(func(_, _ record.OOMCounters) {})
	w.hitAt = w.hitAt.Add(-2 * hitSpan)
	w.Look(func(before, after record.OOMCounters) {
		testkit.Equal(t, record.ScopeOf(before, after, "", true), record.HostScope, "long after the hit: scope")
	})
}

// TestPause holds that a descriptor which fires again and again is left alone for longer and longer, and one that
// was quiet is not.
func TestPause(t *testing.T) {
	w := newWatch(0, 0, 40*time.Millisecond)
	now := time.Now()
	for i, want := range []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 40 * time.Millisecond} {
		w.fired(now.Add(time.Millisecond), 0)
		testkit.Equal(t, w.pause, want, "event %d: pause", i+1)
		now = w.armNext
		w.armed = now
	}
	w.fired(now.Add(time.Second), 0)
	testkit.Equal(t, w.pause, firstPause, "after a quiet second: pause")
	for cost, want := range map[time.Duration]time.Duration{
		time.Microsecond: firstPause, time.Millisecond: 50 * time.Millisecond, time.Second: costPause,
	} {
		w.armed = now.Add(-time.Hour)
		w.fired(now, cost)
		testkit.Equal(t, w.armNext.Sub(now), want, "after a look of %s: pause", cost)
	}
}
