// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// Stream sends samples of one task to one reader. A slow reader gets the newest.
type Stream struct {
	loop     *Loop
	reading  *reading
	interval time.Duration
	pace     *pace.Pace
	ctx      context.Context
	cancel   context.CancelCauseFunc

	due time.Duration // on the monotonic clock; the loop's mu guards it

	newest atomic.Pointer[procstats.Sample]
	wake   chan struct{} // gets a value when newest is set
	// sent, baseline and over are the reader's.
	sent, baseline *procstats.Sample
	over, complete bool // complete: the final sample was sent
}

// read reads the task, unless another reader has done so less than half an interval ago.
func (s *Stream) read() {
	if s.ctx.Err() != nil {
		return
	}
	if sample := s.reading.Next(s.interval / 2); sample != nil { // or the task is at its end
		s.newest.Store(sample)
	}
}

// deliver wakes the reader if there is something that it has not received.
func (s *Stream) deliver() {
	if s.newest.Load() == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Baseline returns a sample that was taken not long before the first one, until that is received.
func (s *Stream) Baseline() *procstats.Sample { return s.baseline }

// Interval is the time until the next sample: longer than asked for if reading the task takes more than its budget.
func (s *Stream) Interval() time.Duration { return s.pace.Interval() }

// Look has the processes read for every sample for a while.
func (s *Stream) Look() { s.reading.Look() }

// Recv returns the next sample. After the executor's final sample of an ended task, or the end of one whose executor was lost, it is
// io.EOF.
func (s *Stream) Recv() (*procstats.Sample, error) {
	for {
		if sample := s.newest.Swap(nil); s.isNew(sample) {
			return s.send(sample), nil
		}
		if s.over {
			s.cancel(io.EOF)
			return nil, io.EOF
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		case <-s.reading.task.Executor.Lost():
			// The reading has to stay until the driver has killed what is left, and has taken what was counted of it.
			select {
			case <-s.reading.task.Done:
			case <-s.ctx.Done():
				return nil, context.Cause(s.ctx)
			}
			s.over = true
		case <-s.reading.task.Done:
			s.over = true
			if final := s.reading.final(s.ctx, s.sent); final != nil {
				// The loop can have read the task at the same time as the executor, which has what counts: nothing follows it.
				s.complete = true
				if s.sent != nil && final.Mono <= s.sent.Mono {
					final.Stamp = s.loop.now() // nothing has changed since
				}
				return s.send(final), nil
			}
		}
	}
}

func (s *Stream) send(sample *procstats.Sample) *procstats.Sample {
	s.sent, s.baseline = sample, nil
	return sample
}

// isNew reports whether a sample was not sent yet.
func (s *Stream) isNew(sample *procstats.Sample) bool {
	return sample != nil && !s.complete && (s.sent == nil || sample.Mono > s.sent.Mono)
}
