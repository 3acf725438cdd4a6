// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// gcTuner keeps the heap small and the GC idle: every task pays for its executor's memory and wake-ups. What starting
// up and launching left on the heap is returned to the kernel once. From then on, while samples are streamed,
// frequent collections are cheap, because little is allocated. Without streams almost nothing is allocated, and the
// runtime's forced collection every two minutes would be all that an idle executor does.
type gcTuner struct {
	mu      sync.Mutex  // guards following
	timer   *time.Timer // nil before a task is launched, and once the executor ends
	streams int
	idle    bool
	limit   int64 // of memory, while samples are streamed
}

const (
	// streamingPercent is GOGC while samples are streamed.
	streamingPercent = 25
	// idleAllowance is how many bytes may be allocated without streams before the GC runs.
	idleAllowance = 3 << 19
)

// launched starts the timer.
func (t *gcTuner) launched() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(settleDelay, t.tune)
}

// streaming says that samples are streamed until the returned function is called.
func (t *gcTuner) streaming() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams++
	if t.idle {
		t.idle = false
		debug.SetGCPercent(streamingPercent)
		debug.SetMemoryLimit(t.limit)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.streams--; t.streams == 0 && t.timer != nil {
			t.timer.Reset(settleDelay)
		}
	}
}

// tune is called by the timer.
func (t *gcTuner) tune() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil || t.idle {
		return
	}
	runtime.GOMAXPROCS(1) // the start of a task that is sampled has two
	debug.FreeOSMemory()
	if t.streams > 0 {
		debug.SetGCPercent(streamingPercent)
		return
	}
	t.idle = true
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.limit = debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + idleAllowance) // what it counts: runtime/debug
	debug.SetGCPercent(-1)
}

// close ends the timer's work.
func (t *gcTuner) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}
