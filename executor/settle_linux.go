// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// settler keeps the heap small, and the collector of garbage quiet: every task pays for its executor's memory, and for
// each time it wakes. What starting up and launching left on the heap goes back to the kernel once. From then on, while
// samples are streamed, collecting early and often is cheap, because little is allocated. While none are, next to
// nothing is, and the runtime's collection of every two minutes would be all that an idle executor does.
type settler struct {
	mu      sync.Mutex  // guards following
	timer   *time.Timer // nil before a task is launched, and once the executor ends
	streams int
	idle    bool
	limit   int64 // of memory, while samples are streamed
}

const (
	// settleAfter is how long after its start a task is taken to be one that stays; one that is over before is spared
	// the work, and so is one whose last stream ends because it does.
	settleAfter = 500 * time.Millisecond
	// streamingPercent is GOGC while samples are streamed.
	streamingPercent = 25
	// idleAllowance is how many bytes may be allocated while none are before garbage is collected.
	idleAllowance = 3 << 19
)

// launched begins to settle.
func (s *settler) launched() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(settleAfter, s.settle)
}

// streaming says that samples are streamed until the returned function is called.
func (s *settler) streaming() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	if s.idle {
		s.idle = false
		debug.SetGCPercent(streamingPercent)
		debug.SetMemoryLimit(s.limit)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.streams--; s.streams == 0 && s.timer != nil {
			s.timer.Reset(settleAfter)
		}
	}
}

// settle is called by the timer.
func (s *settler) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil || s.idle {
		return
	}
	debug.FreeOSMemory()
	if s.streams > 0 {
		debug.SetGCPercent(streamingPercent)
		return
	}
	s.idle = true
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.limit = debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + idleAllowance) // what it counts: runtime/debug
	debug.SetGCPercent(-1)
}

// close ends the timer's work.
func (s *settler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}
