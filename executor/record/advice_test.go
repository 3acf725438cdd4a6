// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"math"
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
	reclaiming := starved(exact(), 5)
	reclaiming.Diagnosis.Stall, reclaiming.Measurements[procstats.PSIMemorySome.String()] = MemoryThrashing, 0.9
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
		{"one upper bound of two", []*Record{runOf(80, procstats.UpperBound, 1), exact()}, true, true, "peak 100 MiB in 2 runs, an upper bound in 1 of them, no"},
		{"an upper bound", []*Record{runOf(80, procstats.UpperBound, 1)}, true, true, "peak at most 80 MiB in 1 run, no"},
		{"killed", []*Record{killed(exact())}, false, true, "1 run with OOM kills ended at a peak of up to 100 MiB: the need is higher"},
		{"killed at more than the others needed", []*Record{runOf(60, procstats.Exact, 0), killed(exact())}, false, true, "1 run with OOM kills ended at a peak of up to 100 MiB, more than"},
		{"killed at less than a bound", []*Record{killed(runOf(60, procstats.Exact, 0)), runOf(80, procstats.LowerBound, 1)}, false, true, "1 run with OOM kills ended at a peak of up to 60 MiB: the need"},
		{"killed at less than a peak, a bound above", []*Record{killed(runOf(60, procstats.Exact, 0)), exact(), runOf(120, procstats.Sampled, 1)}, false, true, "1 run needed at least 120 MiB"},
		{"killed at less", []*Record{killed(runOf(60, procstats.Exact, 0)), exact()}, true, true, "1 run with OOM kills at less"},
		{"throttled", []*Record{throttled}, true, false, "1 run was throttled by a quota, at up to 0.50 cores"},
		{"too short for CPU", []*Record{brief}, true, false, "CPU: no run lasted 1 s: too short to advise."},
		{"one of them long enough", []*Record{brief, exact()}, true, true, "CPU: up to 0.50 cores on average in 1 run"},
		{"swapped", []*Record{swapping}, false, true, "1 run swapped or waited for memory at a peak of up to 600 MiB: the need is higher"},
		{"a few pages swapped", []*Record{idle}, true, true, "peak at most 101 MiB in 1 run, no"},
		{"thrashing, at less than another", []*Record{thrashing, runOf(120, procstats.Exact, 1)}, true, true, "peak 120 MiB exact in 1 run"},
		{"waiting for memory while others had the CPU", []*Record{reclaiming}, true, true, "peak 100 MiB exact in 1 run"},
		{"throttled by a cgroup above", []*Record{above}, true, false, "1 run was throttled by a quota"},
		{"failed at less", []*Record{aborted(20, Failed), aborted(20, Signaled), exact()}, true, true, "peak 100 MiB exact in 1 run"},
		{"failed at more", []*Record{aborted(200, Signaled), exact()}, true, true, "peak 200 MiB exact in 2 runs"},
		{"timed out", []*Record{aborted(50, TimedOut)}, false, true, "at least 50 MiB: the data do not suffice. Let it run to its end, or for a day."},
		{"timed out at less", []*Record{aborted(50, TimedOut), exact()}, true, true, "peak 100 MiB exact in 1 run"},
		{"timed out at more", []*Record{aborted(200, TimedOut), exact()}, false, true, "1 run needed at least 200 MiB, more than"},
		{"timed out with page cache", []*Record{timedOut(readingFiles(90, 90, 20, 1))}, false, true, "at least 21 MiB: the data"},
		{"timed out after a day", []*Record{lasting(aborted(50, TimedOut), Settled)}, true, true, "peak 50 MiB exact in 1 run"},
		{"watched for a moment", []*Record{watched(exact(), "time was up")}, false, true, "at least 100 MiB: the data"},
		{"an upper bound of a moment", []*Record{watched(runOf(80, procstats.UpperBound, 1), "time was up")}, false, true, "No run was seen to its end, or for a day: the data do not suffice. Let it"},
		{"watched until it ended", []*Record{watched(exact(), ProcessEnded), watched(exact(), GroupEmpty)}, true, true, "peak 100 MiB exact in 2 runs"},
		{"all failed", []*Record{aborted(20, Failed)}, true, true, "peak 20 MiB exact in 1 run"},
		{"never started", []*Record{failed}, false, false, "The command was never started: there are no data."},
		{"few", []*Record{exact()}, true, true, "1 run is too few to be sure"},
		{"others had loaded pages", []*Record{loaded(exact(), 50, 0)}, true, true, "peak 100 MiB exact, and up to 50 MiB more that others had loaded in 1 run, no OOM kill: ask for 176 MiB."},
		{"others had loaded code", []*Record{onlyCode(loaded(exact(), 50, 0))}, true, true, "up to 50 MiB more that others had loaded in 1 run, no OOM kill: ask for 196 MiB."},
		{"others had loaded a few pages of large files", []*Record{around(loaded(exact(), 50, 0), 24)}, true, true, "up to 50 MiB more that others had loaded, with 24 MiB around it in 1 run, no OOM kill: ask for 204 MiB."},
		{"and mapped more of them later", []*Record{around(loaded(exact(), 50, 170), 24)}, true, true, "up to 70 MiB more that others had loaded, with 4 MiB around it"},
		{"others had loaded data and code, with some around it", []*Record{around(halfCode(loaded(exact(), 50, 0)), 60)}, true, true, "with 60 MiB around it in 1 run, no OOM kill: ask for 212 MiB."},
		{"others had loaded code, with some around it", []*Record{around(onlyCode(loaded(exact(), 50, 0)), 24)}, true, true, "ask for 196 MiB."},
		{"one thread", []*Record{threads(exact(), 1)}, true, true, "A CPU quota below 1.00 cores may hold back bursts"},
		{"many threads", []*Record{threads(exact(), 70), threads(exact(), 1)}, true, true, "A CPU quota below 8.00 cores may hold back bursts"},
		{"others had loaded much", []*Record{weakened(loaded(exact(), 50, 0), procstats.MemoryUnchargedRule)}, true, true, "up to 50 MiB more that others had loaded in 1 run, no OOM kill: ask for 176 MiB."},
		{"it left its cgroup too", []*Record{weakened(loaded(exact(), 50, 0), procstats.MemoryUnchargedRule, "memory_left_cgroup")}, false, true, "at least 100 MiB"},
		{"others had loaded pages for another time", []*Record{inTurn(loaded(exact(), 50, 0), 104, 0)}, true, true, "peak 100 MiB exact, and up to 8 MiB more"},
		{"and seen before most was charged", []*Record{early(loaded(runOf(14, procstats.Exact, 1), 5, 0), 8, 3000)}, true, true, "peak 14 MiB exact, and up to 5 MiB more"},
		{"for all processes", []*Record{inTurn(loaded(exact(), 50, 0), 150, 0)}, true, true, "and up to 50 MiB more"},
		{"and for files that it wrote", []*Record{inTurn(loaded(exact(), 50, 0), 104, 30)}, true, true, "and up to 38 MiB more"},
		{"others had loaded libraries", []*Record{loaded(exact(), 3, 0)}, true, true, "peak 100 MiB exact in 1 run, no OOM kill: ask for 126 MiB."},
		{"which are much of a small program", []*Record{loaded(runOf(10, procstats.Exact, 1), 3, 0)}, true, true, "peak 10 MiB exact, and up to 3 MiB more that others had loaded in 1 run, no OOM kill: ask for 13 MiB."},
		{"and fit into what is advised at least", []*Record{loaded(runOf(6, procstats.Exact, 1), 3, 0)}, true, true, "peak 6 MiB exact in 1 run, no OOM kill: ask for 10 MiB."},
		{"a process had more than was charged", []*Record{loaded(exact(), 50, 210)}, true, true, "up to 110 MiB more that others had loaded"},
		{"the sum of one run is more than another's peak", []*Record{loaded(runOf(60, procstats.Exact, 1), 50, 0), exact()}, true, true, "peak 60 MiB exact, and up to 50 MiB more that others had loaded in 2 runs"},
		{"killed at less than was charged and loaded", []*Record{killed(runOf(120, procstats.Exact, 1)), loaded(exact(), 50, 0)}, true, true, "1 run with OOM kills at less"},
		{"files read once", []*Record{readingFiles(90, 90, 20, 1)}, true, true, "peak 100 MiB exact, but for 79 MiB of page cache in 1 run, no OOM kill: ask for 25 MiB."},
		{"files read once by many", []*Record{readingFiles(90, 90, 20, 30)}, true, true, "peak 100 MiB exact in 1 run"},
		{"files read once by many in turn", []*Record{threads(readingFiles(90, 90, 20, 30), 3)}, true, true, "peak 100 MiB exact, but for 39 MiB of page cache"},
		{"files read once by several", []*Record{readingFiles(90, 90, 20, 3)}, true, true, "peak 100 MiB exact, but for 39 MiB of page cache"},
		{"files read again", []*Record{readingFiles(90, 900, 20, 1)}, true, true, "peak 100 MiB exact in 1 run, no OOM kill: ask for 112 MiB."},
		{"directories read", []*Record{caching(70, readingFiles(1, 1, 20, 1))}, false, true, "1 run needed between 21 MiB and 100 MiB of a peak of 100 MiB: how much of what is cached of files must stay in memory is not known. Run it once with a memory limit of 27 MiB."},
		{"and again, loaded by the run before", []*Record{caching(70, readingFiles(1, 1, 20, 1)), runOf(7, procstats.Exact, 1)}, false, true, "1 run needed between 21 MiB and 100 MiB"},
		{"and with a limit that was met", []*Record{caching(70, readingFiles(1, 1, 20, 1)), met(readingFiles(1, 1, 20, 1))}, true, true, "ask for 63 MiB."},
		{"few directories read", []*Record{caching(10, readingFiles(1, 1, 20, 1))}, true, true, "ask for 110 MiB."},
		{"files read twice", []*Record{readingFiles(90, 180, 20, 1)}, false, true, "1 run needed between 21 MiB and 100 MiB of a peak of 100 MiB: how much of what is cached of files must stay in memory is not known. Run it once with a memory limit of 27 MiB."},
		{"files read twice, and run with less", []*Record{readingFiles(90, 180, 20, 1), runOf(49, procstats.Exact, 1)}, true, true, "peak 49 MiB exact in 1 run"},
		{"files read twice, and a limit met", []*Record{readingFiles(90, 180, 20, 1), met(readingFiles(90, 180, 20, 1))}, false, true, "1 run needed between 21 MiB and 50 MiB of a peak of 50 MiB"},
		{"files read twice, and two limits met", []*Record{readingFiles(90, 180, 20, 1), met(readingFiles(90, 180, 36, 1))}, true, true, "peak 50 MiB exact, but for 13 MiB of page cache in 1 run, no OOM kill: ask for 50 MiB."},
		{"files read twice, and a limit met that took longer", []*Record{readingFiles(90, 180, 20, 1), longer(met(readingFiles(90, 180, 40, 1)))}, false, true, "1 run needed between 50 MiB and 100 MiB of a peak of 100 MiB: how much of what is cached of files must stay in memory is not known. Run it once with a memory limit of 72 MiB."},
		{"files read again because of a limit", []*Record{met(readingFiles(180, 180, 20, 1))}, false, true, "1 run needed between 21 MiB and 50 MiB of a peak of 50 MiB"},
		{"files read fast", []*Record{fast(readingFiles(90, 90, 20, 1), 0)}, false, true, "1 run needed between 21 MiB and 32 MiB of a peak of 100 MiB"},
		{"files read fast, from a disk that is faster", []*Record{waitingForDisk(fast(readingFiles(90, 90, 20, 1), 0), 0.09)}, true, true, "but for 79 MiB of page cache"},
		{"files read faster, from a disk that is too", []*Record{waitingForDisk(fast(readingFiles(150, 150, 20, 1), 0), 0.09)}, false, true, "between 21 MiB and 32 MiB"},
		{"files read fast, from a disk that is hardly faster", []*Record{waitingForDisk(fast(readingFiles(90, 90, 20, 1), 0), 0.2)}, false, true, "between 21 MiB and 32 MiB"},
		{"files read as fast as the disk is", []*Record{waitingForDisk(fast(readingFiles(90, 90, 20, 1), 0), 0.6)}, true, true, "but for 68 MiB of page cache"},
		{"files read fast, little ahead", []*Record{fast(readingFiles(90, 90, 20, 1), mebibyte)}, true, true, "but for 75 MiB of page cache"},
		{"files read twice, and killed with less", []*Record{readingFiles(90, 180, 20, 1), killed(runOf(50, procstats.Exact, 1))}, false, true, "1 run needed between 50 MiB and 100 MiB of a peak"},
		{"files read twice, and killed with little less", []*Record{readingFiles(90, 180, 20, 1), killed(runOf(71, procstats.Exact, 1))}, true, true, "1 run with OOM kills at less: ask for 110 MiB."},
		{"files read twice and mapped", []*Record{readingFiles(90, 180, 90, 1)}, true, true, "peak 100 MiB exact in 1 run, no OOM kill: ask for 110 MiB."},
		{"files read twice, some", []*Record{readingFiles(30, 60, 20, 1)}, true, true, "ask for 110 MiB."},
		{"files written", []*Record{writing(readingFiles(0, 0, 20, 1), 80)}, true, true, "peak 100 MiB exact, but for 79 MiB of page cache in 1 run, no OOM kill: ask for 25 MiB."},
		{"files written by code that others had loaded", []*Record{uncharged(writing(readingFiles(0, 0, 40, 1), 80), 30)}, true, true, "but for 79 MiB of page cache, and up to 30 MiB more that others had loaded"},
		{"few files written", []*Record{writing(readingFiles(0, 0, 20, 1), 30)}, true, true, "but for 29 MiB of page cache"},
		{"files written and read", []*Record{writing(readingFiles(0, 80, 20, 1), 80)}, false, true, "1 run needed between 21 MiB and 100 MiB of a peak of 100 MiB"},
		{"files read once by what may be small, seen", []*Record{seen(inherited(readingFiles(90, 90, 24, 1)), 6, 512)}, true, true, "but for 89 MiB of page cache"},
		{"and seen between bursts", []*Record{seen(inherited(readingFiles(90, 90, 24, 1)), 6, 5120)}, false, true, "1 run needed between 11 MiB and 21 MiB"},
		{"files read once by what may be small", []*Record{inherited(readingFiles(90, 90, 24, 1))}, false, true, "1 run needed between 11 MiB and 25 MiB of a peak of 100 MiB"},
		{"files read fast, that others had loaded before", []*Record{readingFiles(1, 900, 20, 1), fast(readingFiles(90, 90, 20, 1), 0)}, false, true, "Run it once with a memory limit of 27 MiB and nothing of it in the page cache."},
		{"code that no sample has met", []*Record{missed(readingFiles(0, 1, 20, 1), 40)}, true, true, "peak 100 MiB exact, and up to 40 MiB more that others had loaded in 1 run, no OOM kill: ask for 176 MiB."},
		{"a file that no sample has met", []*Record{readThrough(missed(readingFiles(0, 1, 20, 1), 40))}, true, true, "peak 100 MiB exact, and up to 40 MiB more that others had loaded in 1 run, no OOM kill: ask for 168 MiB."},
		{"code of the largest process", []*Record{missed(readingFiles(0, 1, 120, 1), 40)}, true, true, "and up to 40 MiB more that others had loaded in 1 run, no OOM kill: ask for 176 MiB."},
		{"code that came from storage", []*Record{missed(readingFiles(40, 1, 20, 1), 40)}, true, true, "peak 100 MiB exact in 1 run, no OOM kill: ask for 120 MiB."},
		{"files that were written, and mapped", []*Record{missed(inTurn(readingFiles(0, 1, 20, 1), 60, 38), 40)}, true, true, "peak 100 MiB exact in 1 run, no OOM kill"},
		{"shared memory of its own, in another program", []*Record{owning(missed(readingFiles(0, 1, 20, 1), 90), 60)}, true, true, "and up to 30 MiB more that others had loaded"},
		{"code of processes that are not all known", []*Record{missed(loaded(exact(), 0, 50), 40)}, true, true, "peak 100 MiB exact in 1 run, no OOM kill: ask for 126 MiB."},
		{"files mapped, and read ahead", []*Record{readingFiles(90, 2, 60, 1)}, true, true, "peak 100 MiB exact, but for 1 MiB of page cache"},
		{"files read around the page cache", []*Record{cached(readingFiles(90, 90, 20, 1), 3)}, false, true, "1 run needed between 21 MiB and 98 MiB of a peak of 100 MiB"},
		{"files written at once", []*Record{quick(writing(readingFiles(0, 0, 20, 1), 80))}, false, false, "1 run needed between 21 MiB and 100 MiB of a peak of 100 MiB"},
		{"and longer with less", []*Record{quick(writing(readingFiles(0, 0, 20, 1), 80)), met(writing(readingFiles(0, 0, 20, 1), 80))}, false, true, "1 run needed at most 100 MiB: files pass through its page cache so fast that a limit costs it time, as 50 MiB did. Allow 112 MiB if it must not take longer."},
		{"and as long with less, but waiting a little", []*Record{quick(writing(readingFiles(0, 0, 40, 1), 60)), waitingFor(quick(met(writing(readingFiles(0, 0, 40, 1), 60))), 0.03)}, false, false, "as 50 MiB did."},
		{"and a little longer with less", []*Record{quick(writing(readingFiles(0, 0, 40, 1), 60)), wall(quick(met(writing(readingFiles(0, 0, 40, 1), 60))), 1)}, false, true, "as 50 MiB did."},
		{"and as long with less", []*Record{quick(writing(readingFiles(0, 0, 40, 1), 60)), quick(met(writing(readingFiles(0, 0, 40, 1), 60)))}, true, false, "no OOM kill: ask for 52 MiB."},
		{"and waiting for memory with less", []*Record{quick(writing(readingFiles(0, 0, 20, 1), 80)), waiting(quick(met(writing(readingFiles(0, 0, 20, 1), 80))))}, false, false, "as 50 MiB did."},
		{"much received", []*Record{receiving(readingFiles(1, 900, 20, 1), 890)}, true, true, "ask for 126 MiB."},
		{"files that others had loaded", []*Record{readingFiles(1, 900, 20, 1)}, false, true, "1 run read up to 899 MiB that did not come from storage: whether these are files that others had loaded, and must stay in memory, is not known. Run it once when"},
		{"and a run on a cold cache", []*Record{readingFiles(1, 900, 20, 1), readingFiles(90, 900, 20, 1)}, true, true, "peak 100 MiB exact in 1 run, no"},
		{"few files that others had loaded", []*Record{readingFiles(1, 60, 20, 1)}, true, true, "ask for 126 MiB."},
		{"starved of CPU", []*Record{starved(exact(), 5)}, true, true, "CPU: up to 1.00 cores on average in 1 run"},
	} {
		a := AdviseRuns(test.records)
		sameFromBasis(t, test.records)
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
		{[]*Record{killed(runOf(100, procstats.Exact, 0))}, "Let it run once with enough memory (try 136 MiB)."},
		{[]*Record{runOf(100, procstats.Sampled, 0)}, "Let it run once in a cgroup."},
		{[]*Record{failed}, "The task was never started: there are no data."},
	} {
		a := AdviseTask(test.records)
		if text := a.Text(1000); !strings.Contains(text, test.want) || strings.Contains(text, "tacho run") {
			t.Errorf("%q, want %q and nothing of tacho run", text, test.want)
		}
	}
}

// TestDays holds that advice on tasks of 24 h, sampled each minute, has room for what came between two samples, for what
// grew, and none for what was cached once.
func TestDays(t *testing.T) {
	const minutes = 24 * 60
	for name, test := range map[string]struct {
		// anon and file are in MiB by the minute, stored what came from storage of what was read in all; burst comes between two samples.
		anon, file   func(minute int) float64
		stored, read float64
		burst        float64
		need         float64
		runs         int
		unknown      bool
	}{
		"flat":               {anon: func(int) float64 { return 200 }, need: 200, runs: 1},
		"leak":               {anon: func(m int) float64 { return 100 + float64(m)/4 }, need: 460, runs: 3},
		"by day and night":   {anon: func(m int) float64 { return 150 + 100*math.Sin(float64(m)*2*math.Pi/minutes) }, need: 250, runs: 7},
		"burst":              {anon: func(int) float64 { return 50 }, burst: 250, need: 300, runs: 5},
		"cache, read once":   {anon: func(int) float64 { return 80 }, file: func(m int) float64 { return float64(m) }, stored: 1439, read: 1439, need: 80, runs: 2},
		"cache, read again":  {anon: func(int) float64 { return 80 }, file: func(int) float64 { return 300 }, stored: 100, read: 900, need: 380, runs: 2},
		"cache, read thrice": {anon: func(int) float64 { return 80 }, file: func(int) float64 { return 300 }, stored: 300, read: 1000, runs: 2, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			var records []*Record
			for day := range test.runs {
				var w procstats.Window
				var last *procstats.Sample
				start, peak, most := time.Date(2026, 3, 4+day, 0, 0, 0, 0, time.UTC), test.anon(0)+test.burst, 0.0
				for m := range minutes {
					at := time.Duration(m) * time.Minute
					last = &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Second + at, Wall: start.Add(at)}}
					last.SetRead(procstats.SourceCgroup, last.Stamp)
					file := 0.0
					if test.file != nil {
						file = test.file(m)
					}
					most = max(most, test.anon(m))
					peak = max(peak, test.anon(m)+file)
					last.SetNumber(procstats.CgroupMemoryCurrent, (test.anon(m)+file)*mebibyte)
					last.SetNumber(procstats.CgroupMemoryAnon, test.anon(m)*mebibyte)
					last.SetNumber(procstats.CgroupMemoryInactiveFile, file*mebibyte)
					last.SetNumber(procstats.CgroupMemoryActiveFile, 0)
					last.SetNumber(procstats.CgroupMemoryPeak, peak*mebibyte)
					w.Add(last)
				}
				r := runOf(0, procstats.Exact, day)
				r.Headline = Headlines(procstats.Headlines(last, procstats.History{Window: &w, CPUs: 2}))
				r.SetMeasured(MergeFinal(last, last))
				r.WallSeconds = new(86400.0)
				r.Commands = &Commands{Rows: []procstats.Command{{Processes: 1, PeakRSSBytes: int64(most+test.burst) * mebibyte}}}
				r.Headline[procstats.HeadlineIORead.String()] = HeadlineValue{Value: new(test.stored * mebibyte)}
				r.Measurements[procstats.TreeIORchar.String()] = test.read * mebibyte
				records = append(records, r)
			}
			a := AdviseTask(records)
			sameFromBasis(t, records)
			if a.MemoryMiB == nil != test.unknown {
				t.Fatalf("%q", a.Why)
			}
			if a.MemoryMiB != nil && (float64(*a.MemoryMiB) < test.need || float64(*a.MemoryMiB) > 1.5*test.need) {
				t.Errorf("%d MiB for a need of %v: %q", *a.MemoryMiB, test.need, a.Why)
			}
		})
	}
}
