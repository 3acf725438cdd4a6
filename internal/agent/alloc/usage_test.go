// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// blockedWriter blocks whoever writes to it, and says so first.
type blockedWriter struct{ entered, goOn chan struct{} }

func (w blockedWriter) Write(p []byte) (int, error) {
	w.entered <- struct{}{}
	<-w.goOn
	return len(p), nil
}

// newUsage returns the usage of a task whose history is in a new directory.
func newUsage(t *testing.T, interval time.Duration, log hclog.Logger) *usage {
	t.Helper()
	u := &usage{
		log: log, interval: interval, keep: interval, counts: &Counts{}, err: func() error { return nil }, tracker: figures.NewTracker(0, 0, figures.Totals{}),
		history: NewHistory(log, func() {}).Queue(filepath.Join(t.TempDir(), "history"), "", 100, log),
	}
	t.Cleanup(func() { must(t, u.history.Close(context.Background())) })
	return u
}

// readingAt is a sample that was taken some time after the boot.
func readingAt(mono time.Duration) *procstats.Sample {
	s := &procstats.Sample{Stamp: procstats.Stamp{Mono: mono, Wall: time.Unix(1000, 0).Add(mono)}}
	s.SetRead(procstats.SourceCgroup, s.Stamp)
	s.SetNumber(procstats.CgroupCPUUsage, 1)
	return s
}

// TestReadersDoNotWaitForTheLog has a log that blocks when it is told of a late sample, as a full pipe does.
func TestReadersDoNotWaitForTheLog(t *testing.T) {
	t.Parallel()
	w := blockedWriter{make(chan struct{}), make(chan struct{})}
	u := newUsage(t, time.Second, hclog.New(&hclog.LoggerOptions{Output: w}))
	u.begin(1, time.Now())
	u.UpdateStats(readingAt(time.Hour))
	written, read := make(chan struct{}), make(chan struct{})
	go func() { defer close(written); u.UpdateStats(readingAt(time.Hour + 3*time.Second)) }()
	<-w.entered
	go func() { defer close(read); u.figures("") }()
	select {
	case <-read:
	case <-time.After(5 * time.Second):
		t.Error("the reader waits for the log")
	}
	w.goOn <- struct{}{}
	<-written
	<-read
}

// warnings are the log lines of that level about late samples.
type warnings []map[string]any

// Accept implements hclog.SinkAdapter.
func (w *warnings) Accept(_ string, level hclog.Level, text string, args ...any) {
	if level != hclog.Warn || !strings.HasPrefix(text, "collect stats: ") {
		return
	}
	m := make(map[string]any)
	for i := 1; i < len(args); i += 2 {
		m[fmt.Sprint(args[i-1])] = args[i]
	}
	*w = append(*w, m)
}

// TestBacklog holds that late samples are all counted, and logged once per episode with what to change.
func TestBacklog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		between []float64 // seconds between samples, of an interval of one
		late    int64
		logged  []time.Duration
	}{
		"in time":              {[]float64{1, 1.9, 1, 0.1, 2}, 0, nil},
		"one":                  {[]float64{1, 2.5, 1}, 1, []time.Duration{2500 * time.Millisecond}},
		"an episode":           {[]float64{3, 1, 1, 4, 1, 5}, 3, []time.Duration{3 * time.Second}},
		"two episodes":         {[]float64{3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 7}, 3, []time.Duration{3 * time.Second, 7 * time.Second}},
		"a gap is one as well": {[]float64{60, 3}, 2, []time.Duration{time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			var logged warnings
			log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard})
			log.RegisterSink(&logged)
			u := newUsage(t, time.Second, log)
			u.begin(1, time.Now())
			at := time.Hour
			u.UpdateStats(readingAt(at))
			for _, seconds := range test.between {
				at += time.Duration(seconds * float64(time.Second))
				u.UpdateStats(readingAt(at))
			}
			if got := u.figures("").Backlogged; got != test.late || u.counts.Backlogged.Load() != test.late {
				t.Errorf("%d late, the agent's %d; want %d", got, u.counts.Backlogged.Load(), test.late)
			}
			var measured []time.Duration
			for _, line := range logged {
				measured = append(measured, line["measured"].(time.Duration))
				if line["collection_interval"] != time.Second {
					t.Errorf("logged %v, want collection_interval", line)
				}
			}
			testkit.Diff(t, "result", test.logged, measured)
		})
	}
}

// TestSilence is about a driver that stops sending, as one does whose executor is stopped.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		interval time.Duration
		silence  time.Duration
		reason   string
		gaps     []series.Gap
	}{
		{"a collection that takes long is none", time.Second, 9 * time.Second, "", []series.Gap{series.NoGap, series.NoGap}},
		{"longer", time.Second, 18 * time.Second, "no fresh reading: the driver sent no sample", []series.Gap{series.NoGap, series.GapSilent, series.NoGap}},
		{"of a long interval", 10 * time.Second, 45 * time.Second, "", []series.Gap{series.NoGap, series.NoGap}},
		{"longer than five of them", 10 * time.Second, 60 * time.Second, "no fresh reading: the driver sent no sample", []series.Gap{series.NoGap, series.GapSilent, series.NoGap}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUsage(t, test.interval, hclog.NewNullLogger())
				start := time.Now()
				u.begin(1, start)
				read := func(cpu float64) {
					s := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Hour + time.Since(start), Wall: time.Now()}}
					s.SetRead(procstats.SourceCgroup, s.Stamp)
					s.SetNumber(procstats.CgroupCPUUsage, cpu)
					u.UpdateStats(s)
				}
				read(1)
				time.Sleep(test.silence) //nolint:forbidigo // in a bubble of synctest
				if reason := u.figures("").Reason; reason != test.reason {
					t.Errorf("before it ends: %q, want %q", reason, test.reason)
				}
				read(2)
				got := u.figures("")
				testkit.Equal(t, got.Reason, "", "behind it")
				for _, h := range got.Headlines {
					if v, ok := h.Reading.Number(); h.ID == procstats.HeadlineCores && ok != (test.reason == "") {
						t.Errorf("a rate (known: %v) of %v", ok, v)
					}
				}
				points := testkit.Value(u.history.Points(series.Query{}))(t)
				var gaps []series.Gap
				for _, p := range points {
					gaps = append(gaps, p.Gap)
				}
				testkit.Diff(t, "result", test.gaps, gaps)
			})
		})
	}
}

// TestHistoryHasTheBusiest holds that processes are chosen by what they used since the reading that was stored before,
// not since the last one.
func TestHistoryHasTheBusiest(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems have other measurements of a process")
	}
	u := newUsage(t, time.Second, hclog.NewNullLogger())
	u.keep = 3 * time.Second
	u.begin(1, time.Unix(1000, 0))
	for n := range 7 {
		s := readingAt(time.Duration(n+1) * time.Second)
		for pid := 1; pid <= 20; pid++ {
			row := s.AddProcess(procstats.ProcessID{PID: pid})
			row.Command = "p"
			cpu := float64(100 - pid)
			if pid == 15 && n >= 2 { // busy between the stored readings 1 and 4, not in the second before 4
				cpu++
			}
			row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, cpu))
		}
		u.UpdateStats(s)
	}
	points, err := u.history.Points(series.Query{Processes: true})
	if err != nil || len(points) != 3 {
		t.Fatal(points, err)
	}
	for i, want := range []bool{false, true, false} {
		if got := slices.ContainsFunc(points[i].Processes, func(r procstats.ProcessRow) bool { return r.PID == 15 }); got != want {
			t.Errorf("point %d has the process: %v, want %v", i, got, want)
		}
	}
}

// TestHistoryOfSleep holds what the history has of a task that sleeps and wakes, of which it is told no more than
// that nothing has changed, against the samples.
func TestHistoryOfSleep(t *testing.T) {
	t.Parallel()
	for _, keep := range []time.Duration{time.Second, 3 * time.Second} {
		random := rand.New(rand.NewPCG(3, 4))
		u := newUsage(t, time.Second, hclog.NewNullLogger())
		u.keep = keep
		u.begin(1, time.Unix(1000, 0))
		var want, got []map[procstats.ID]float64
		var last *procstats.Sample
		for n := range 300 {
			s := readingAt(time.Duration(n+1) * time.Second)
			if last != nil && random.IntN(6) > 0 { // as source.Quiet does
				stamp := s.Stamp
				*s = *last
				s.Stamp, s.Checked = stamp, stamp
			} else {
				s.SetRead(procstats.SourceTree, s.Stamp) // the age of its rows
				s.SetNumber(procstats.CgroupCPUUsage, float64(n/(1+random.IntN(100))))
				s.SetNumber(procstats.TreeProcesses, 1)
				s.SetNumber(procstats.ExecutorCollections, float64(n))
			}
			last = s
			u.UpdateStats(s)
			if n%3 == 0 {
				if _, err := u.history.Points(series.Query{}); err != nil { // the queue is short
					t.Fatal(err)
				}
			}
			if n%int(keep/time.Second) != 0 {
				continue
			}
			values := map[procstats.ID]float64{}
			for _, r := range s.Task {
				values[r.ID()], _ = r.Number()
			}
			for _, h := range u.figures("").Headlines {
				if v, ok := h.Reading.Number(); ok && h.ID != procstats.HeadlineCoresAverage {
					values[h.ID] = v
				}
			}
			want = append(want, values)
		}
		points := testkit.Value(u.history.Points(series.Query{}))(t)
		for _, p := range points {
			got = append(got, p.Values)
		}
		if len(got) < 100 { // that there is room for
			t.Fatalf("every %s: %d points", keep, len(got))
		}
		testkit.Diff(t, fmt.Sprintf("every %s", keep), want[len(want)-len(got):], got, cmpopts.EquateApprox(0, 1e-6))
	}
}

// TestPulse holds that a time without a beat is noticed, by either clock, and what was late then is told apart.
func TestPulse(t *testing.T) {
	for name, test := range map[string]struct {
		boot, mono time.Duration // since the beat before
		stood      bool
	}{
		"runs":                  {beat, beat, false},
		"a little late":         {missed - 1, missed - 1, false},
		"stopped":               {40 * time.Second, 40 * time.Second, true},
		"suspended":             {time.Hour, beat, true},
		"stopped and suspended": {time.Hour, 5 * time.Second, true},
	} {
		p, boot, mono := &Pulse{}, 2*time.Hour, time.Hour
		testkit.Equal(t, p.beat(boot, mono), 0, "%s: the first beat", name)
		testkit.Equal(t, p.beat(boot+test.boot, mono+test.mono), test.boot, "%s: the time since", name)
		testkit.Equal(t, p.until > mono, test.stood, "%s: it stood still", name)
		testkit.Equal(t, p.beat(boot+test.boot+beat, mono+test.mono+beat), beat, "%s: once", name)
		testkit.Equal(t, p.until > mono+test.mono, false, "%s: what came after it", name)
	}
}

// TestUsageOfAStoppedAgent holds that no task is blamed for a time in which the agent did not run, and that its history
// has that time as one without the agent.
func TestUsageOfAStoppedAgent(t *testing.T) {
	t.Parallel()
	for name, noticed := range map[string]bool{"noticed": true, "not yet noticed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines bytes.Buffer
			u := newUsage(t, time.Second, hclog.New(&hclog.LoggerOptions{Output: &lines}))
			now := kernel.Now().Mono
			up := kernel.SinceBoot()
			u.pulse = &Pulse{last: up - 40*time.Second}
			if noticed {
				u.pulse.beat(up, now)
			}
			u.begin(1, time.Time{})
			u.UpdateStats(readingAt(now - 40*time.Second))
			_, silent, why := u.observe(readingAt(now))
			if !silent || why != series.GapAgent {
				t.Errorf("silent: %v, %v, want a gap of the agent", silent, why)
			}
			u.UpdateStats(readingAt(now))
			if text := lines.String(); strings.Contains(text, "longer than collection_interval") {
				t.Errorf("the task is blamed: %s", text)
			}
			testkit.Equal(t, u.counts.Backlogged.Load(), 0, "late samples")
			u.pulse.beat(up, now)
			u.pulse.beat(up+beat, now+beat)
			if late, _, why := u.observe(readingAt(now + 20*time.Second)); late == 0 || why != series.GapSilent {
				t.Errorf("late: %s, %v: a late sample of an agent that ran", late, why)
			}
		})
	}
}
