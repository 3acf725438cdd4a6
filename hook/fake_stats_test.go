// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/procstats"
)

// statsDriver opens streams by a script, one step per opening; the last step is repeated.
type statsDriver struct {
	script []opening

	mu      sync.Mutex // guards following
	opened  []time.Time
	streams []*stream
	most    int // streams open at one moment
}

// opening is what one call of OpenStats does.
type opening struct {
	err    error
	hang   bool          // OpenStats blocks until ctx is done
	deaf   bool          // OpenStats blocks for an hour, whatever ctx says
	paced  time.Duration // what the stream says is its interval; 0 for one that says nothing
	stream []message
}

// message is what one call of Recv does; after the last one the stream is silent.
type message struct {
	after time.Duration
	err   error
	deaf  bool // Recv blocks for after, whatever ctx says
}

func (d *statsDriver) OpenStats(ctx context.Context, _ time.Duration) (hook.StatsStream, error) {
	d.mu.Lock()
	step := d.script[min(len(d.opened), len(d.script)-1)]
	d.opened = append(d.opened, time.Now())
	d.mu.Unlock()
	switch {
	case step.deaf:
		<-time.After(time.Hour)
		return nil, ctx.Err()
	case step.hang:
		<-ctx.Done()
		return nil, ctx.Err()
	case step.err != nil:
		return nil, step.err
	}
	opened := &stream{driver: d, ctx: ctx, messages: step.stream}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams = append(d.streams, opened)
	d.most = max(d.most, d.openLocked())
	if step.paced > 0 {
		return pacedStream{opened, step.paced}, nil
	}
	return opened, nil
}

// openLocked counts the streams that have not ended. One whose context is done has, whether Recv was called again or
// not.
func (d *statsDriver) openLocked() (n int) {
	for _, s := range d.streams {
		if s.ctx.Err() == nil && !s.ended {
			n++
		}
	}
	return n
}

func (d *statsDriver) openings() []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]time.Time(nil), d.opened...)
}

func (d *statsDriver) openNow() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.openLocked()
}

// waits returns the times between the openings.
func (d *statsDriver) waits() []time.Duration {
	var waits []time.Duration
	opened := d.openings()
	for i := 1; i < len(opened); i++ {
		waits = append(waits, opened[i].Sub(opened[i-1]))
	}
	return waits
}

type stream struct {
	driver   *statsDriver
	ctx      context.Context
	messages []message
	ended    bool // guarded by the driver's mu
}

func (s *stream) Recv() (*procstats.Sample, error) {
	m := message{after: 1000 * time.Hour}
	if len(s.messages) > 0 {
		m, s.messages = s.messages[0], s.messages[1:]
	}
	if m.deaf {
		<-time.After(m.after)
		return &procstats.Sample{}, nil
	}
	timer := time.NewTimer(m.after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		m.err = s.ctx.Err()
	}
	if m.err != nil {
		s.driver.mu.Lock()
		defer s.driver.mu.Unlock()
		s.ended = true
		return nil, m.err
	}
	return &procstats.Sample{}, nil
}

// pacedStream says what its interval is.
type pacedStream struct {
	*stream
	interval time.Duration
}

func (s pacedStream) Interval() time.Duration { return s.interval }

// samples are n samples, one a second, the first at once, and then what follows.
func samples(n int, then ...message) []message {
	messages := make([]message, n, n+len(then))
	for i := 1; i < n; i++ {
		messages[i].after = time.Second
	}
	return append(messages, then...)
}

var (
	endOfStream = message{err: io.EOF}
	errBroken   = errors.New("connection is broken")
)

// flaw is an error that knows whether trying again can help.
type flaw bool

func (f flaw) Error() string     { return "flawed" }
func (f flaw) Recoverable() bool { return bool(f) }

// updates counts samples.
type updates struct {
	mu   sync.Mutex // guards following
	seen int
	each func()
}

func (u *updates) UpdateStats(*procstats.Sample) {
	u.mu.Lock()
	u.seen++
	each := u.each
	u.mu.Unlock()
	if each != nil {
		each()
	}
}

func (u *updates) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen
}

// journal records log lines.
type journal struct {
	mu    sync.Mutex // guards following
	lines []line
}

type line struct {
	level hclog.Level
	text  string
	args  map[string]any
}

// logger returns a logger that writes into the journal.
func (j *journal) logger() hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Trace, Output: io.Discard})
	l.RegisterSink(j)
	return l
}

// Accept implements hclog.SinkAdapter.
func (j *journal) Accept(_ string, level hclog.Level, text string, args ...any) {
	l := line{level, text, make(map[string]any)}
	for i := 1; i < len(args); i += 2 {
		l.args[fmt.Sprint(args[i-1])] = args[i]
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, l)
}

// at returns the lines of a level.
func (j *journal) at(level hclog.Level) []line {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []line
	for _, l := range j.lines {
		if l.level == level {
			lines = append(lines, l)
		}
	}
	return lines
}

func (j *journal) counts() (debugs, errors int) {
	return len(j.at(hclog.Debug)), len(j.at(hclog.Error))
}
