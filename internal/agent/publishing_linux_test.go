// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// logSink records log lines of all levels.
type logSink struct {
	mu    sync.Mutex // guards following
	lines []logLine
}

type logLine struct {
	level hclog.Level
	text  string
	args  map[string]any
}

// Accept implements hclog.SinkAdapter.
func (s *logSink) Accept(_ string, level hclog.Level, text string, args ...any) {
	l := logLine{level, text, make(map[string]any)}
	for i := 1; i < len(args); i += 2 {
		l.args[fmt.Sprint(args[i-1])] = args[i]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, l)
}

func (s *logSink) matching(is func(logLine) bool) (lines []logLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		if is(l) {
			lines = append(lines, l)
		}
	}
	return lines
}

// TestPublishingOffIsLoggedOnce has two tasks whose stats are not collected: the agent says so once, with the remedy,
// and for each task at trace level. Lines of the stats hook name hook, task and allocation.
func TestPublishingOffIsLoggedOnce(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	c.Telemetry.PublishAllocationMetrics = false
	var sink logSink
	a := newAgent(t, c)
	a.log.(hclog.InterceptLogger).RegisterSink(&sink)
	r := run(t, a)
	id := r.sleeping().ID
	must(t, r.RestartAlloc(id, "t"))
	hooks := func() []logLine { return sink.matching(func(l logLine) bool { return l.args["hook"] != nil }) }
	r.eventually("two starts", func() bool { return len(hooks()) == 2 })
	for _, l := range hooks() {
		if l.level != hclog.Trace || l.text != "collects no stats: publishing is off" ||
			l.args["hook"] != "stats" || l.args["task"] != "t" || l.args["alloc_id"] != id {
			t.Errorf("logged %+v", l)
		}
	}
	off := sink.matching(func(l logLine) bool { return l.level >= hclog.Info && strings.Contains(l.text, "publishing is off") })
	if len(off) != 1 || !strings.Contains(off[0].text, "publish_allocation_metrics = true") {
		t.Errorf("logged %+v, want one line with the remedy", off)
	}
	r.end(true)
}
