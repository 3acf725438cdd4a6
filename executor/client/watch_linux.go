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

	cancel  context.CancelFunc
	waiting sync.WaitGroup
}

// watch holds a process. The error wraps ErrLost if it is gone.
func watch(id procstats.ProcessID) (*watchedProcess, error) {
	p, err := process.Open(kernel.HostFS(), id)
	if errors.Is(err, process.ErrGone) {
		return nil, ErrLost
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &watchedProcess{Process: p, gone: make(chan struct{}), cancel: cancel}
	w.waiting.Go(func() {
		if p.Wait(ctx) == nil {
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
	return w.Close()
}
