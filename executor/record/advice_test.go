// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// history is runs of one command with a known need.
type history struct {
	name string
	// need is the most memory that a run can use, in MiB.
	need float64
	runs int
	// lowest is the least share of the need that a run uses; the others are between it and 1, more often near it the
	// higher skew is.
	lowest, skew float64
	// rare is how many runs use the whole need while the others use lowest of it.
	rare int
}

func (h history) records(r *rand.Rand) (records []*Record) {
	for n := range h.runs {
		share := h.lowest
		switch {
		case h.rare == 0:
			part := r.Float64()
			for range int(h.skew) {
				part *= r.Float64()
			}
			share += (1 - h.lowest) * part
		case n < h.rare:
			share = 1
		}
		records = append(records, runOf(share*h.need, procstats.Exact, n))
	}
	return records
}

// runOf returns the record of a run of 10 s with half a core, n days after the first.
func runOf(peakMiB float64, g procstats.Guarantee, n int) *Record {
	peak, cpu, wall := peakMiB*mebibyte, 5.0, 10.0
	return &Record{
		State: Exited, StartedAt: time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC).AddDate(0, 0, n), WallSeconds: &wall,
		Diagnosis: Diagnosis{Verdict: Completed, OOM: OOM{Kills: new(int64)}},
		Headline: map[string]HeadlineValue{
			procstats.HeadlineMemoryPeak.String(): {Value: &peak, Guarantee: g},
			procstats.HeadlineCPU.String():        {Value: &cpu, Guarantee: procstats.Exact},
		},
	}
}

func killed(r *Record) *Record {
	r.Diagnosis.OOM.Kills = new(int64(1))
	return r
}

// loaded adds what others had loaded beside the peak of a run, and the resident memory of its largest process.
func loaded(r *Record, othersMiB float64, largestMiB int64) *Record {
	r.Measurements = map[string]any{
		procstats.TreeUncharged.String(): othersMiB * mebibyte, procstats.TreeUnchargedData.String(): othersMiB * mebibyte,
	}
	r.Commands = &Commands{Rows: []procstats.Command{
		{PeakRSSBytes: largestMiB * mebibyte, PeakRSSGuarantee: procstats.LowerBound},
		{PeakRSSBytes: 1 << 40, PeakRSSGuarantee: procstats.UpperBound},
	}}
	return r
}

// readingFiles returns a run with a peak of 100 MiB that read files, some of it from storage, with processes that had so
// much each.
func readingFiles(storedMiB, readMiB float64, residentMiB, processes int64) *Record {
	r := runOf(100, procstats.Exact, 0)
	r.Measurements = map[string]any{procstats.TreeIORchar.String(): readMiB * mebibyte}
	r.Headline[procstats.HeadlineIORead.String()] = HeadlineValue{Value: new(storedMiB * mebibyte)}
	r.Commands = &Commands{Rows: []procstats.Command{{Processes: processes, PeakRSSBytes: residentMiB * mebibyte}}}
	return r
}

// starved lets a run wait for a CPU for so many seconds.
func starved(r *Record, seconds float64) *Record {
	r.Measurements, r.Host.CPUs = map[string]any{procstats.PSICPUFull.String(): seconds}, 2
	return r
}

// onlyCode says of what others had loaded that it is code.
func onlyCode(r *Record) *Record {
	r.Measurements[procstats.TreeUnchargedData.String()] = 0.0
	return r
}

// weakened makes the peak of a run a lower bound by some rules.
func weakened(r *Record, rules ...string) *Record {
	h := r.Headline[procstats.HeadlineMemoryPeak.String()]
	h.Source, h.Guarantee = procstats.CgroupMemoryPeak.String(), procstats.LowerBound
	for _, rule := range rules {
		h.Notes = append(h.Notes, procstats.Note{Rule: rule})
	}
	r.Headline[procstats.HeadlineMemoryPeak.String()] = h
	return r
}

// TestHistories holds that the limit is never below the need, and at most 1.5 times above it.
func TestHistories(t *testing.T) {
	for _, h := range []history{
		{name: "always the same", need: 100, runs: 30, lowest: 1},
		{name: "once", need: 100, runs: 1, lowest: 1},
		{name: "twice", need: 300, runs: 2, lowest: 0.9},
		{name: "three times", need: 700, runs: 3, lowest: 0.85},
		{name: "small", need: 12, runs: 10, lowest: 0.9},
		{name: "a little above a step", need: 16.1, runs: 40, lowest: 0.99},
		{name: "large", need: 60000, runs: 10, lowest: 0.8},
		{name: "large and many", need: 33000, runs: 200, lowest: 0.5},
		{name: "wide, few", need: 512, runs: 6, lowest: 0.6},
		{name: "wide, many", need: 512, runs: 50, lowest: 0.3},
		{name: "skewed", need: 1024, runs: 100, lowest: 0.7, skew: 1},
		{name: "very skewed", need: 1024, runs: 300, lowest: 0.8, skew: 2},
		{name: "two modes", need: 256, runs: 20, lowest: 0.4, rare: 10},
		{name: "a rare peak", need: 256, runs: 40, lowest: 0.3, rare: 1},
		{name: "some rare peaks", need: 2048, runs: 100, lowest: 0.2, rare: 5},
		{name: "a rare peak of few", need: 128, runs: 8, lowest: 0.25, rare: 1},
		{name: "a rare small peak", need: 64, runs: 60, lowest: 0.7, rare: 1},
		{name: "nearly constant", need: 41, runs: 37, lowest: 0.98},
		{name: "steps", need: 97, runs: 12, lowest: 0.5, rare: 3},
		{name: "a thousand", need: 777, runs: 1000, lowest: 0.1},
	} {
		t.Run(h.name, func(t *testing.T) {
			for seed := range uint64(50) {
				a := AdviseRuns(h.records(rand.New(rand.NewPCG(seed, 14)))) //nolint:gosec // the same histories each time
				if a.MemoryMiB == nil {
					t.Fatalf("no advice: %q", a.Why)
				}
				limit := float64(*a.MemoryMiB)
				if a.MemoryMaxMiB != nil {
					limit = float64(*a.MemoryMaxMiB)
				}
				if limit < h.need || limit > 1.5*h.need || *a.MemoryMiB > int64(limit) {
					t.Errorf("seed %d: %v MiB for a need of %v: %q", seed, limit, h.need, a.Why)
				}
			}
		})
	}
}

// TestInsufficientData holds that nothing is advised from a bound on the wrong side, and that the reason is said.
func TestInsufficientData(t *testing.T) {
	exact := func() *Record { return runOf(100, procstats.Exact, 0) }
	running, throttled, brief, failed := exact(), exact(), exact(), exact()
	brief.WallSeconds = new(0.0037)
	failed.Diagnosis.Verdict = StartFailed
	running.State = Running
	aborted := func(peak float64, verdict Verdict) *Record {
		r := runOf(peak, procstats.Exact, 2)
		r.Diagnosis.Verdict = verdict
		return r
	}
	swapping, thrashing, above, idle := exact(), exact(), exact(), exact()
	idle.Measurements = map[string]any{procstats.CgroupMemorySwapPeak.String(): 1.0 * mebibyte}
	swapping.Measurements = map[string]any{procstats.CgroupMemorySwapPeak.String(): 500.0 * mebibyte}
	thrashing.Diagnosis.Stall, above.Diagnosis.Stall = MemoryThrashing, CPUThrottled
	throttled.Measurements = map[string]any{procstats.CgroupCPUThrottled.String(): 3.0}
	for _, test := range []struct {
		name          string
		records       []*Record
		memory, cores bool
		why           string
	}{
		{"no run", nil, false, false, "No run has ended"},
		{"one that runs", []*Record{running}, false, false, "No run has ended"},
		{"only lower bounds", []*Record{runOf(50, procstats.LowerBound, 0)}, false, true, "at least 50 MiB"},
		{"only samples", []*Record{runOf(50, procstats.Sampled, 0)}, false, true, "at least 50 MiB"},
		{"a lower bound above all exact peaks", []*Record{exact(), runOf(120, procstats.LowerBound, 1)}, false, true, "1 run needed at least 120 MiB, more than any run whose peak is known"},
		{"a lower bound below", []*Record{exact(), runOf(80, procstats.LowerBound, 1)}, true, true, "peak 100 MiB exact in 1 run"},
		{"an upper bound", []*Record{runOf(80, procstats.UpperBound, 1)}, true, true, "an upper bound in 1"},
		{"killed", []*Record{killed(exact())}, false, true, "1 run with OOM kills ended at a peak of up to 100 MiB: the need is higher"},
		{"killed at more than the others needed", []*Record{runOf(60, procstats.Exact, 0), killed(exact())}, false, true, "1 run with OOM kills ended at a peak of up to 100 MiB, more than"},
		{"killed at less than a bound", []*Record{killed(runOf(60, procstats.Exact, 0)), runOf(80, procstats.LowerBound, 1)}, false, true, "1 run with OOM kills ended at a peak of up to 60 MiB: the need"},
		{"killed at less than a peak, a bound above", []*Record{killed(runOf(60, procstats.Exact, 0)), exact(), runOf(120, procstats.Sampled, 1)}, false, true, "1 run needed at least 120 MiB"},
		{"killed at less", []*Record{killed(runOf(60, procstats.Exact, 0)), exact()}, true, true, "1 run with OOM kills at less"},
		{"throttled", []*Record{throttled}, true, false, "1 run was throttled by a quota, at up to 0.50 cores"},
		{"too short for CPU", []*Record{brief}, true, false, "CPU: no run lasted 1 s: too short to advise."},
		{"one of them long enough", []*Record{brief, exact()}, true, true, "CPU: up to 0.50 cores on average in 1 run"},
		{"swapped", []*Record{swapping}, false, true, "1 run swapped or waited for memory at a peak of up to 600 MiB: the need is higher"},
		{"a few pages swapped", []*Record{idle}, true, true, "peak 101 MiB an upper bound in 1"},
		{"thrashing, at less than another", []*Record{thrashing, runOf(120, procstats.Exact, 1)}, true, true, "peak 120 MiB exact in 1 run"},
		{"throttled by a cgroup above", []*Record{above}, true, false, "1 run was throttled by a quota"},
		{"failed at less", []*Record{aborted(20, Failed), aborted(20, Signaled), exact()}, true, true, "peak 100 MiB exact in 1 run"},
		{"failed at more", []*Record{aborted(200, TimedOut), exact()}, true, true, "peak 200 MiB exact in 2 runs"},
		{"all failed", []*Record{aborted(20, Failed)}, true, true, "peak 20 MiB exact in 1 run"},
		{"never started", []*Record{failed}, false, false, "The command was never started: there are no data."},
		{"few", []*Record{exact()}, true, true, "1 run is too few to be sure"},
		{"others had loaded pages", []*Record{loaded(exact(), 50, 0)}, true, true, "peak 100 MiB exact, and up to 50 MiB more that others had loaded in 1 run, no OOM kill: ask for 192 MiB."},
		{"others had loaded code", []*Record{onlyCode(loaded(exact(), 50, 0))}, true, true, "up to 50 MiB more that others had loaded in 1 run, no OOM kill: ask for 208 MiB."},
		{"others had loaded much", []*Record{weakened(loaded(exact(), 50, 0), procstats.MemoryUnchargedRule)}, true, true, "up to 50 MiB more that others had loaded in 1 run, no OOM kill: ask for 192 MiB."},
		{"it left its cgroup too", []*Record{weakened(loaded(exact(), 50, 0), procstats.MemoryUnchargedRule, "memory_left_cgroup")}, false, true, "at least 100 MiB"},
		{"a process had more than was charged", []*Record{loaded(exact(), 50, 210)}, true, true, "up to 110 MiB more that others had loaded"},
		{"the sum of one run is more than another's peak", []*Record{loaded(runOf(60, procstats.Exact, 1), 50, 0), exact()}, true, true, "peak 60 MiB exact, and up to 50 MiB more that others had loaded in 2 runs"},
		{"killed at less than was charged and loaded", []*Record{killed(runOf(120, procstats.Exact, 1)), loaded(exact(), 50, 0)}, true, true, "1 run with OOM kills at less"},
		{"files read once", []*Record{readingFiles(90, 90, 20, 1)}, true, true, "peak 100 MiB exact, but for 76 MiB of files that it read once in 1 run, no OOM kill: ask for 30 MiB."},
		{"files read once by several", []*Record{readingFiles(90, 90, 20, 3)}, true, true, "peak 100 MiB exact, but for 36 MiB of files"},
		{"files read again", []*Record{readingFiles(90, 900, 20, 1)}, true, true, "peak 100 MiB exact in 1 run, no OOM kill: ask for 128 MiB."},
		{"files that others had loaded", []*Record{readingFiles(1, 900, 20, 1)}, false, true, "1 run read up to 899 MiB of files that others had loaded: whether they must stay in memory is not known. Run it once when"},
		{"and a run on a cold cache", []*Record{readingFiles(1, 900, 20, 1), readingFiles(90, 900, 20, 1)}, true, true, "peak 100 MiB exact in 1 run, no"},
		{"few files that others had loaded", []*Record{readingFiles(1, 60, 20, 1)}, true, true, "ask for 128 MiB."},
		{"starved of CPU", []*Record{starved(exact(), 5)}, true, true, "CPU: up to 1.00 cores on average in 1 run"},
	} {
		a := AdviseRuns(test.records)
		if (a.MemoryMiB != nil) != test.memory || (a.Cores != nil) != test.cores || !strings.Contains(strings.Join(a.Why, "\n"), test.why) {
			t.Errorf("%s: %+v, want %q", test.name, a, test.why)
		}
	}
}

// TestTaskAdvice holds that the advice on tasks of jobs has remedies for jobs.
func TestTaskAdvice(t *testing.T) {
	failed := runOf(100, procstats.Exact, 0)
	failed.Diagnosis.Verdict = StartFailed
	for _, test := range []struct {
		records []*Record
		want    string
	}{
		{[]*Record{runOf(100, procstats.Exact, 0)}, "1 run is too few to be sure: let it run more often."},
		{[]*Record{killed(runOf(100, procstats.Exact, 0))}, "Let it run once with enough memory."},
		{[]*Record{runOf(100, procstats.Sampled, 0)}, "Let it run once in a cgroup."},
		{[]*Record{failed}, "The task was never started: there are no data."},
	} {
		a := AdviseTask(test.records)
		if text := a.Text(1000); !strings.Contains(text, test.want) || strings.Contains(text, "tacho run") {
			t.Errorf("%q, want %q and nothing of tacho run", text, test.want)
		}
	}
}
