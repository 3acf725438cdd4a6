// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package advice says what resources to ask for, from the records of earlier runs.
package advice

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// Advice is what to ask for. A number that the records do not suffice for is nil; its reason is among Why.
type Advice struct {
	// Runs counts the records, from From to To.
	Runs int       `json:"runs"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// MemoryMiB is enough for all runs but outliers, MemoryMaxMiB for them too; nil if there are none.
	MemoryMiB    *int64 `json:"memory_mib"`
	MemoryMaxMiB *int64 `json:"memory_max_mib"`
	// Cores is enough for the average of the run that was busiest.
	Cores *float64 `json:"cpu_cores"`
	// Why has the reasons, in sentences.
	Why []string `json:"why"`
}

// Of returns the advice for the next run of what the records are of. Runs that have not ended say nothing.
func Of(records []*record.Record) Advice {
	records = slices.DeleteFunc(slices.Clone(records), func(r *record.Record) bool {
		return r.State != record.Exited || r.Diagnosis.Verdict == record.StartFailed
	})
	a := Advice{Runs: len(records)}
	if a.Runs == 0 {
		a.Why = []string{"No run has ended with a complete record: the data do not suffice."}
		return a
	}
	slices.SortFunc(records, func(x, y *record.Record) int { return x.StartedAt.Compare(y.StartedAt) })
	a.From, a.To = records[0].StartedAt, records[len(records)-1].StartedAt
	a.memory(records)
	a.cpu(records)
	return a
}

const mebibyte = 1 << 20

// memory advises on memory. Only exact peaks and upper bounds count: a lower bound would ask for too little.
func (a *Advice) memory(records []*record.Record) {
	var peaks []float64
	upper, kills, atLeast := 0, 0, 0.0
	for _, r := range records {
		h := r.Headline[procstats.HeadlineMemoryPeak.String()]
		killed := r.Diagnosis.OOM.Kills != nil && *r.Diagnosis.OOM.Kills > 0
		switch {
		case h.Value == nil:
		case killed:
			kills++
			atLeast = max(atLeast, *h.Value)
		case h.Guarantee == procstats.Exact:
			peaks = append(peaks, *h.Value)
		case h.Guarantee == procstats.UpperBound:
			peaks = append(peaks, *h.Value)
			upper++
		default:
			atLeast = max(atLeast, *h.Value)
		}
	}
	bytes := procstats.Bytes.Text
	switch {
	case len(peaks) == 0 && atLeast > 0:
		a.because("The memory peak is only known to be at least %s: the data do not suffice. Run it once with enough memory, in a cgroup.", bytes(atLeast))
		return
	case len(peaks) == 0:
		a.because("No run has a memory peak: the data do not suffice.")
		return
	case atLeast > slices.Max(peaks) && kills > 0:
		a.because("%s ended at a peak of %s, more than any run that was not killed: the need is higher, and not known. Run it once with enough memory.",
			procstats.Counted(kills, "run with OOM kills", "runs with OOM kills"), bytes(atLeast))
		return
	case atLeast > slices.Max(peaks):
		a.because("A run needed at least %s, more than all exact peaks: the need is higher, and not known.", bytes(atLeast))
		return
	}
	usual, outliers := withoutOutliers(peaks)
	most := slices.Max(peaks)
	memory := ask(usual)
	a.MemoryMiB = &memory
	what := "exact"
	if upper > 0 {
		what = fmt.Sprintf("an upper bound in %d, otherwise exact,", upper)
	}
	killText := "no OOM kill"
	if kills > 0 {
		killText = procstats.Counted(kills, "run with OOM kills at less", "runs with OOM kills at less")
	}
	a.because("Memory: peak %s %s in %s%s, %s: ask for %d MiB.", bytes(slices.Max(usual)), what, procstats.Counted(len(peaks), "run", "runs"), a.days(), killText, memory)
	if outliers > 0 {
		highest := max(memory, ask(append(slices.Clone(usual), most)))
		a.MemoryMaxMiB = &highest
		a.because("%s used up to %s: allow %d MiB with memory_max.", procstats.Counted(outliers, "run", "runs"), bytes(most), highest)
	}
	if len(peaks) < few {
		a.because("%s too few to be sure: repeat it (tacho run --runs %d).", procstats.Counted(len(peaks), "run is", "runs are"), few)
	}
}

// few is the number of runs below which the advice says that they are few.
const few = 5

// withoutOutliers returns the values without the highest ones that are at least twice as high as nine tenths of all; they must be
// fewer than one of ten.
func withoutOutliers(values []float64) (usual []float64, outliers int) {
	sorted := slices.Sorted(slices.Values(values))
	at := len(sorted) * 9 / 10
	if at < few {
		return sorted, 0
	}
	limit := 2 * sorted[at-1]
	n := len(sorted)
	for n > at && sorted[n-1] >= limit {
		n--
	}
	return sorted[:n], len(sorted) - n
}

// ask returns the MiB to ask for: above the highest value by a margin that is smaller the more runs there are, and above what the
// spread of the values makes likely, but not more than 1.33 times the highest; rounded up to a number that people use.
func ask(values []float64) int64 {
	const highest = 1.33
	n := float64(len(values))
	most, mean, squares := slices.Max(values), 0.0, 0.0
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	margin, deviations := 1.25, 6.0
	switch {
	case n >= 20:
		margin, deviations = 1.1, 4
	case n >= few:
		margin = 1.15
	}
	spread := 0.0
	if n > 1 {
		spread = math.Sqrt(squares / (n - 1))
	}
	likely := mean + deviations*spread
	if n < 2*few && spread > mean/50 {
		likely = most * highest // of so few that vary, the spread is not known either
	}
	return roundUp(max(most*margin, min(likely, most*highest)) / mebibyte)
}

// roundUp rounds MiB up by at most an eighth, from 10 MiB on, below which orchestrators accept nothing.
func roundUp(mib float64) int64 {
	const least = 10
	step := 1.0
	for mib > 16*step {
		step *= 2
	}
	return max(least, int64(math.Ceil(mib/step)*step))
}

// cpu advises on CPU, from exact CPU time. Runs that were throttled would have used more.
func (a *Advice) cpu(records []*record.Record) {
	most, known, throttled := 0.0, 0, 0
	for _, r := range records {
		h := r.Headline[procstats.HeadlineCPU.String()]
		span, ok := r.Span()
		if h.Value == nil || !ok || h.Guarantee != procstats.Exact {
			continue
		}
		if waited, ok := r.Measurements[procstats.CgroupCPUThrottled.String()].(float64); ok && waited > span/100 {
			throttled++
		}
		most = max(most, *h.Value/span)
		known++
	}
	switch {
	case known == 0:
		a.because("No run has an exact CPU time: the data do not suffice for CPU.")
	case throttled > 0:
		a.because("CPU: %s throttled by a quota, at up to %s on average: the need is higher, and not known.", procstats.Counted(throttled, "run was", "runs were"),
			procstats.Cores.Text(most))
	default:
		cores := math.Ceil(most*1.1*20) / 20
		a.Cores = &cores
		a.because("CPU: up to %s on average in %s: ask for %s.", procstats.Cores.Text(most), procstats.Counted(known, "run", "runs"), procstats.Cores.Text(cores))
	}
}

func (a *Advice) because(format string, args ...any) {
	a.Why = append(a.Why, fmt.Sprintf(format, args...))
}

// days says over how many days the runs are; empty for one.
func (a *Advice) days() string {
	days := int(math.Ceil(a.To.Sub(a.From).Hours() / 24))
	if days < 2 {
		return ""
	}
	return fmt.Sprintf(" over %d days", days)
}

// Line returns the advice on memory in one sentence; empty if the data do not suffice.
func (a *Advice) Line() string {
	if a.MemoryMiB == nil {
		return ""
	}
	return a.Why[0]
}

// Text returns the reasons, and what to ask for as a block of a job file and as flags of tacho run. coreMHz is what a core counts for in
// the job file.
func (a *Advice) Text(coreMHz int) string {
	var b strings.Builder
	for _, line := range a.Why {
		b.WriteString(line + "\n")
	}
	if a.MemoryMiB == nil && a.Cores == nil {
		return b.String()
	}
	flags := ""
	b.WriteString("\nresources {\n")
	if a.Cores != nil {
		fmt.Fprintf(&b, "  cpu        = %d # MHz: %s of %d MHz each\n", int(math.Ceil(*a.Cores*float64(coreMHz))), procstats.Cores.Text(*a.Cores), coreMHz)
	}
	if a.MemoryMiB != nil {
		fmt.Fprintf(&b, "  memory     = %d\n", *a.MemoryMiB)
		flags = fmt.Sprintf("--memory %dM", *a.MemoryMiB)
	}
	if a.MemoryMaxMiB != nil {
		fmt.Fprintf(&b, "  memory_max = %d\n", *a.MemoryMaxMiB)
		flags = fmt.Sprintf("--memory %dM", *a.MemoryMaxMiB)
	}
	b.WriteString("}\n")
	if flags != "" {
		fmt.Fprintf(&b, "\ntacho run %s\n", flags)
	}
	return b.String()
}
