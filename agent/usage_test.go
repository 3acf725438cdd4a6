// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/agent/history"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestForeignReading is about the few numbers of a driver that is not ours: each has the least guarantee it may have.
func TestForeignReading(t *testing.T) {
	s, err := wire.ToSample(&drivers.TaskStats{AggResourceUsage: &drivers.TaskResourceUsage{
		Cpu:    &drivers.CPUUsage{Percent: 150, MeasuredFields: []drivers.CPUUsage_Fields{drivers.CPUUsage_PERCENT}},
		Memory: &drivers.MemoryUsage{Rss: 4096, Usage: 9999, MeasuredFields: []drivers.MemoryUsage_Fields{drivers.MemoryUsage_RSS}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := s.Task.Number(procstats.CgroupMemoryCurrent); ok {
		t.Errorf("a usage of %v that was not measured", v)
	}
	want := map[procstats.ID]struct {
		value     float64
		source    string
		guarantee procstats.Guarantee
	}{
		procstats.HeadlineCores:  {1.5, "the driver", procstats.Sampled},
		procstats.HeadlineMemory: {4096, "portable_rss_bytes", procstats.UpperBound},
	}
	for _, h := range withDriversOwn(procstats.Headlines(s, procstats.History{}), s) {
		v, ok := h.Reading.Number()
		w, wanted := want[h.ID]
		if ok != wanted || v != w.value || h.Source != w.source || h.Guarantee != w.guarantee {
			t.Errorf("%s is %v (read: %v) from %s, %s", h.ID, v, ok, h.Source, h.Guarantee)
		}
	}
}

// blockedWriter blocks whoever writes to it, and says so first.
type blockedWriter struct{ entered, goOn chan struct{} }

func (w blockedWriter) Write(p []byte) (int, error) {
	w.entered <- struct{}{}
	<-w.goOn
	return len(p), nil
}

// TestReadersDoNotWaitForTheHistory has a history that is not written any more, and a log that hangs when it says so,
// as a disk can.
func TestReadersDoNotWaitForTheHistory(t *testing.T) {
	ring, err := history.Open(filepath.Join(t.TempDir(), "history"), 10)
	if err != nil {
		t.Fatal(err)
	}
	s := &procstats.Sample{Stamp: kernel.Now()}
	s.SetNumber(procstats.CgroupCPUUsage, 1)
	if err := errors.Join(ring.Add(s, 1), ring.Close()); err != nil {
		t.Fatal(err)
	}
	w := blockedWriter{make(chan struct{}), make(chan struct{})}
	u := &usage{
		log: hclog.New(&hclog.LoggerOptions{Output: w}), ring: ring, interval: time.Second, counts: &counts{},
		err: func() error { return nil },
	}
	u.begin(1, time.Now())
	for name, write := range map[string]func(){
		"a reading": func() { u.UpdateStats(s) }, "a gap": func() { u.mark(history.GapTask) },
	} {
		written, read := make(chan struct{}), make(chan struct{})
		go func() { defer close(written); write() }()
		<-w.entered
		go func() { defer close(read); u.snapshot("") }()
		select {
		case <-read:
		case <-time.After(5 * time.Second):
			t.Errorf("while %s is written the reader waits", name)
		}
		w.goOn <- struct{}{}
		<-written
		<-read
	}
}

// TestSilence is about a driver that stops sending, as one does whose executor is stopped.
func TestSilence(t *testing.T) {
	for _, test := range []struct {
		name     string
		interval time.Duration
		silence  time.Duration
		reason   string
		gaps     []history.Gap
	}{
		{"a collection that takes long is none", time.Second, 9 * time.Second, "", []history.Gap{history.NoGap, history.NoGap}},
		{"longer", time.Second, 18 * time.Second, "no fresh reading: the driver sent nothing", []history.Gap{history.NoGap, history.GapSilent, history.NoGap}},
		{"of a long interval", 10 * time.Second, 45 * time.Second, "", []history.Gap{history.NoGap, history.NoGap}},
		{"longer than five of them", 10 * time.Second, 60 * time.Second, "no fresh reading: the driver sent nothing", []history.Gap{history.NoGap, history.GapSilent, history.NoGap}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ring, err := history.Open(filepath.Join(t.TempDir(), "history"), 10)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = ring.Close() }()
				u := &usage{
					log: hclog.NewNullLogger(), ring: ring, interval: test.interval, keep: test.interval, counts: &counts{},
					err: func() error { return nil },
				}
				start := time.Now()
				u.begin(1, start)
				read := func(cpu float64) {
					s := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Hour + time.Since(start), Wall: time.Now()}}
					s.Sources[procstats.SourceCgroup] = s.Stamp
					s.SetNumber(procstats.CgroupCPUUsage, cpu)
					u.UpdateStats(s)
				}
				read(1)
				time.Sleep(test.silence) //nolint:forbidigo // in a bubble of synctest
				if reason := u.snapshot("").Reason; reason != test.reason {
					t.Errorf("before it ends: %q, want %q", reason, test.reason)
				}
				read(2)
				got := u.snapshot("")
				if got.Reason != "" {
					t.Errorf("behind it: %q", got.Reason)
				}
				for _, h := range got.Headlines {
					if v, ok := h.Reading.Number(); h.ID == procstats.HeadlineCores && ok != (test.reason == "") {
						t.Errorf("a rate (known: %v) of %v", ok, v)
					}
				}
				points, err := ring.Points(history.Query{})
				if err != nil {
					t.Fatal(err)
				}
				var gaps []history.Gap
				for _, p := range points {
					gaps = append(gaps, p.Gap)
				}
				if diff := cmp.Diff(test.gaps, gaps); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
