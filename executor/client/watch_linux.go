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

	cancel  context.CancelFunc
	waiting sync.WaitGroup
}

// watch holds a process, and reaps it if it is a child of this one. The error wraps ErrLost if it is gone.
func watch(id procstats.ProcessID, child *child) (*watchedProcess, error) {
	p, err := process.Open(kernel.HostFS(), id)
	if errors.Is(err, process.ErrGone) {
		return nil, ErrLost
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &watchedProcess{Process: p, gone: make(chan struct{}), cancel: cancel, child: child}
	w.waiting.Go(func() {
		if p.Wait(ctx) == nil {
			child.reap()
			close(w.gone)
		}
	})
	return w, nil
}

// close stops watching. Closing nil is fine.
func (w *watchedProcess) close() error {
	if w == nil {
		return nil
	}
	w.cancel()
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
