// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"sync"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

// unusedLimit is how long what is counted of a started task waits for a stream of it.
const unusedLimit = 10 * time.Second

// early is what the kernel counts of a task from before its start, until the first stream of it takes that over.
type early struct {
	mu      sync.Mutex // held by whoever uses it, and guards following
	taken   bool       // by a stream, or it is closed
	exits   *exitWatch
	packets *network.Counter // nil with the reason why there is none, or if they are not selected
	reason  string
	unused  *time.Timer
}

// Count counts what ends in the cgroup of a task that is about to be started, and its packets if that is wanted. A stream of the task
// goes on with it; without one it ends after a while, and with Forget.
func (l *Loop) Count(id string, cgroup procstats.Cgroup, folder string, packets bool) {
	if l == nil || !cgroup.Encloses() || cgroup.V2 == "" {
		return
	}
	e := &early{exits: l.exits.watch(cgroup, folder)}
	if packets {
		err := l.network()
		if err == nil {
			e.packets, err = network.Count(kernel.HostFS(), cgroup.V2)
		}
		if err != nil {
			e.reason = err.Error()
		}
	}
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.mu.Unlock()
		l.closeEarly(e)
		return
	}
	before := l.early[id]
	l.early[id] = e
	e.unused = time.AfterFunc(unusedLimit, func() {
		if l.dropEarly(id, e) {
			l.asked.Store(false)
		}
	})
	l.mu.Unlock()
	before.take()
	l.closeEarly(before)
}

// Load loads what counts ended processes while an executor starts. The caller gives it up when it has called Count.
func (l *Loop) Load() (giveUp func()) {
	loaded := make(chan error, 1)
	go func() { loaded <- l.exits.hold() }()
	return func() {
		if <-loaded == nil {
			l.exits.giveUp()
		}
	}
}

// Asked reports whether a stream is expected of the next task that is started: one was opened since a counted task went without.
func (l *Loop) Asked() bool { return l != nil && l.asked.Load() }

// Forget ends what Count began of a task that is over and has no stream. It may have none of either.
func (l *Loop) Forget(id string) {
	if l != nil {
		l.closeEarly(l.takeEarly(id))
	}
}

// findEarly returns what is counted of a task without a stream, for use; nil if nothing is.
func (l *Loop) findEarly(id string) *early {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.early[id]
}

// takeEarly returns what is counted of a task, for a stream; nil if nothing is.
func (l *Loop) takeEarly(id string) *early {
	l.mu.Lock()
	e := l.early[id]
	delete(l.early, id)
	l.mu.Unlock()
	e.take()
	return e
}

// dropEarly ends what is counted of a task, and reports whether it was there still.
func (l *Loop) dropEarly(id string, e *early) bool {
	l.mu.Lock()
	found := l.early[id] == e
	if found {
		delete(l.early, id)
	}
	l.mu.Unlock()
	if found {
		e.take()
		l.closeEarly(e)
	}
	return found
}

// take waits until nobody uses it, and nobody does from then on. Taking nil is fine.
func (e *early) take() {
	if e == nil {
		return
	}
	e.unused.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taken = true
}

// use calls f, and reports whether it could: not if a stream has taken it.
func (e *early) use(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.taken {
		f()
	}
	return !e.taken
}

// network is a source of the packets of a selection that were counted; nil if none were to be.
func (e *early) network(selection procstats.Selection) *network.Source {
	if e == nil || e.packets == nil && e.reason == "" {
		return nil
	}
	return network.Of(selection, e.packets, e.reason)
}

func (l *Loop) closeEarly(e *early) {
	if e == nil {
		return
	}
	e.exits.close()
	if e.packets != nil {
		if err := e.packets.Close(); err != nil {
			l.log.Error("stop counting packets of a task", "error", err)
		}
	}
}

// closeAllEarly is for the end of the loop, when nothing is added.
func (l *Loop) closeAllEarly() {
	l.mu.Lock()
	all := l.early
	l.early = make(map[string]*early)
	l.mu.Unlock()
	for _, e := range all {
		e.take()
		l.closeEarly(e)
	}
}

// counted calls one of two functions for a task that has ended: with its reading, when that is opened or cannot be, or with what is counted
// of it without a stream. It calls none if the task is not read here.
func (l *Loop) counted(id string, reading func(*reading), early func(*early)) {
	if l == nil {
		return
	}
	for {
		if r := l.use(id, true); r != nil {
			r.opening.Lock()
			defer l.release(r)
			defer r.opening.Unlock()
			reading(r)
			return
		}
		e := l.findEarly(id)
		if e == nil || e.use(func() { early(e) }) {
			return
		}
	}
}
