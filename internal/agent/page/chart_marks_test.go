// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// killedOften is an agent whose task was killed every two minutes of the last hour, of which its events know nothing.
type killedOften struct{ *pagetest.Agent }

func (killedOften) History(_, _ string, q series.Query) (points []series.Point, err error) {
	for i := range 60 {
		at := moment().Add(time.Duration(i-60) * time.Minute)
		p := series.Point{Stamp: procstats.Stamp{Wall: at, Mono: at.Sub(moment()) + 1000*time.Hour}, Run: 1 + i/2}
		if i%2 == 0 {
			p.Values = map[procstats.ID]float64{procstats.CgroupMemoryCurrent: 1 << 20, procstats.CgroupMemoryEventsOOMKill: 0}
		} else {
			p.Gap = series.GapOOM
		}
		if !at.Before(q.Since) {
			points = append(points, p)
		}
	}
	return points, nil
}

// memoryChart is the drawing of the memory on the page of a task.
func memoryChart(content string) string {
	_, chart, _ := strings.Cut(content, `data-live="chart-memory"`)
	chart, _, _ = strings.Cut(chart, "</svg>")
	return chart
}

// TestEveryKillIsMarked holds that 30 OOM kills in an hour are 30 marks in each chart, and few lines below them.
func TestEveryKillIsMarked(t *testing.T) {
	t.Parallel()
	a := pagetest.New(moment)
	a.Add(&pagetest.Actor{
		ID: pagetest.ID(1), Job: "j", Group: "g", Name: "t", Started: moment().Add(-2 * time.Hour),
		Cores: 1, Memory: 1 << 20,
	})
	content := get(t, page.New(killedOften{a}, page.Options{Now: moment, HistorySpan: 3 * time.Hour}).Handler(false),
		task(1, "t")+"?span=1h").Body.String()
	chart := memoryChart(content)
	if n := strings.Count(chart, `class="event oom"`); n != 30 {
		t.Errorf("30 kills have %d marks", n)
	}
	if n := strings.Count(chart, `class="event start"`); n < 29 {
		t.Errorf("30 starts have %d marks", n)
	}
	if !strings.Contains(content, "earlier in this time") {
		t.Error("all are listed")
	}
}

// TestOnlyKillsAreMarked holds that an end is marked as an OOM kill by what the driver says of it, and not by words
// of its message.
func TestOnlyKillsAreMarked(t *testing.T) {
	t.Parallel()
	end := allocation.Event{
		Type: hook.EventTerminated, Time: moment().Add(-time.Minute),
		Message: "exit code 1: no room for zoom",
	}
	for oom, want := range map[string]int{"false": 0, "true": 1} {
		end.Details = map[string]string{allocation.DetailOOMKilled: oom}
		a := pagetest.New(moment)
		a.Add(&pagetest.Actor{
			ID: pagetest.ID(1), Job: "j", Group: "g", Name: "t", Started: moment().Add(-time.Hour), Restarts: 1,
			Cores: 1, Memory: 1 << 20,
			Events: []allocation.Event{end},
		})
		content := get(t, serve(a, false), task(1, "t")).Body.String()
		if n := strings.Count(memoryChart(content), `class="event oom"`); n != want {
			t.Errorf("oom_killed = %s: %d marks, want %d", oom, n, want)
		}
		if overview := textOf(t, get(t, serve(a, false), "/").Body.String()); !strings.Contains(overview,
			"1 restart") || strings.Contains(overview, "1 restarts") {
			t.Errorf("one restart is not \"1 restart\":\n%s", overview)
		}
	}
}
