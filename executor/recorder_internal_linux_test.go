// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestReportsOfALongRun holds that the reports of a day are few and leave nothing out, and that the newest is never
// old.
func TestReportsOfALongRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	store := testkit.Value(record.Create(dir))(t)
	r := &recorder{
		log: hclog.NewNullLogger(), store: store, interval: 10 * time.Second, report: time.Minute, growing: time.Minute,
		info: new(record.Record), reader: new(reader.Reader),
	}
	began := procstats.Stamp{Wall: time.Unix(1e9, 0).UTC(), Mono: time.Hour}
	at := func(after time.Duration) procstats.Stamp {
		return procstats.Stamp{Wall: began.Wall.Add(after), Mono: began.Mono + after}
	}
	r.reportEnds = began.Mono + r.report
	reports := func() (all []*record.Usage) {
		for u, err := range record.ReadUsage(dir) {
			testkit.Must(t, err)
			all = append(all, u)
		}
		return all
	}
	for after := time.Duration(0); after <= 24*time.Hour; after += r.interval {
		s := &procstats.Sample{Stamp: at(after)}
		s.Task.Put(procstats.NumberReading(procstats.TreeProcesses, 1))
		r.add(s)
		if after%(97*time.Minute) == 0 && after > 0 {
			if all := reports(); at(after).Wall.Sub(all[len(all)-1].To) > r.report {
				t.Fatalf("after %s the newest report ends at %s", after, all[len(all)-1].To)
			}
		}
	}
	r.writeReport(r.last, false)
	if err := store.Close(); err != nil || r.info.Incomplete != "" {
		t.Fatal(err, r.info.Incomplete)
	}
	all := reports()
	if len(all) != 6 || all[0].To.Sub(all[0].From) != time.Minute || !all[len(all)-1].To.Equal(began.Wall.Add(24*time.Hour)) {
		t.Errorf("%d reports, the first of %s, the last until %s", len(all), all[0].To.Sub(all[0].From), all[len(all)-1].To)
	}
	for i := 1; i < len(all); i++ {
		if !all[i].From.Equal(all[i-1].To) {
			t.Errorf("report %d begins at %s, the one before ends at %s", i, all[i].From, all[i-1].To)
		}
	}
}

// TestReadingOfNobody holds that a sample of a task without a process is not its last one.
func TestReadingOfNobody(t *testing.T) {
	sample := func(mono time.Duration, processes float64) *procstats.Sample {
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: mono}}
		s.SetNumber(procstats.TreeProcesses, processes)
		return s
	}
	r := &recorder{report: time.Hour, reportEnds: time.Hour}
	first, second := sample(time.Second, 2), sample(2*time.Second, 1)
	for _, s := range []*procstats.Sample{first, second, sample(3*time.Second, 0)} {
		r.add(s)
	}
	if r.last != second || r.whole.Samples() != 2 {
		t.Errorf("last %v, of %d samples", r.last, r.whole.Samples())
	}
}

// TestTickPhase holds that executors started one after the other, a few PIDs apart, are spread over all phases.
func TestTickPhase(t *testing.T) {
	const interval, executors = time.Second, 400
	for step := 1; step <= 32; step++ {
		count := map[time.Duration]int{}
		for i := range executors {
			count[tickPhase(1000+i*step, interval)]++
		}
		if len(count) != tickPhases {
			t.Errorf("PIDs %d apart: phases %v, want %d of them", step, count, tickPhases)
		}
		for phase, n := range count {
			if phase < 0 || phase >= interval || n < executors/tickPhases/2 || n > executors/tickPhases*2 {
				t.Errorf("PIDs %d apart: %d of %d executors at %s", step, n, executors, phase)
			}
		}
	}
}

// TestLooks holds that the longest time without a look counts, not the newest one.
func TestLooks(t *testing.T) {
	var l looks
	for _, at := range []time.Duration{100 * time.Second, 101 * time.Second, 108 * time.Second, 109 * time.Second} {
		l.add(at)
	}
	testkit.Equal(t, l.gap, 7*time.Second, "the longest gap")
}
