// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"sync"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// watchedProcess is an executor's process, which is held and waited for.
type watchedProcess struct {
	*process.Process
	// gone is closed when the process has ended, or never if close is called first.
	gone chan struct{}
	// child is nil for a process that this one has not started.
	child *child

	end     func() // of the watch
	waiting sync.WaitGroup
}

// watch holds a process, and reaps it if it is a child of this one. It is waited for in the goroutine of a set, or in one of its own
// where there is none. The error wraps ErrLost if it is gone.
func watch(id procstats.ProcessID, child *child, set *process.EpollSet) (*watchedProcess, error) {
	p, err := process.Open(kernel.HostFS(), id)
	if errors.Is(err, process.ErrGone) {
		return nil, ErrLost
	}
	if err != nil {
		return nil, err
	}
	w := &watchedProcess{Process: p, gone: make(chan struct{}), child: child}
	if set != nil {
		w.end, err = p.Watch(set, func() { w.waiting.Go(w.ended) })
	}
	if set == nil || err != nil {
		ctx, cancel := context.WithCancel(context.Background())
		w.end = cancel
		w.waiting.Go(func() {
			if p.Wait(ctx) == nil {
				w.ended()
			}
		})
	}
	return w, nil
}

func (w *watchedProcess) ended() {
	w.child.reap()
	close(w.gone)
}

// close stops watching. Closing nil is fine.
func (w *watchedProcess) close() error {
	if w == nil {
		return nil
	}
	w.end()
	w.waiting.Wait()
	select {
	case <-w.gone:
	default:
		if w.child != nil {
			go w.child.reap() // it goes on, and its end has to be reaped for as long as this process runs
		}
	}
	return w.Close()
}
