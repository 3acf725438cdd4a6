// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Advice is what resources to ask for, from the records of earlier runs. A number that the records do not suffice for
// is nil; its reason is among Why.
type Advice struct {
	// Runs counts the records, from From to To.
	Runs int       `json:"runs"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// MemoryMiB is enough for all runs but outliers, MemoryMaxMiB for them too; nil if there are none.
	MemoryMiB    *int64 `json:"memory_mib"`
	MemoryMaxMiB *int64 `json:"memory_max_mib"`
	// Cores is enough for the average of the run that was busiest. A quota of so much may hold back bursts. One of
	// QuotaCores holds back none, because no more threads can have run at once; nil if neither they nor the CPUs were
	// counted.
	Cores      *float64 `json:"cpu_cores"`
	QuotaCores *float64 `json:"cpu_quota_cores"`
	// Why has the reasons, in sentences.
	Why []string `json:"why"`

	subject *subject
}

// subject is what advice is about, and how its reader gets more data.
type subject struct {
	noun string
	// more says how to get more runs, once how to get one more.
	more, once string
	// flags adds the resources as flags of tacho run.
	flags bool
}

// AdviseRuns returns the advice for the next run of a command that tacho run ran. Runs that have not ended say nothing.
func AdviseRuns(records []*Record) Advice {
	return advise(records, &subject{
		noun: "command", more: fmt.Sprintf("repeat it (tacho run --runs %d)", few), once: "Run it once", flags: true,
	})
}

// AdviseTask returns the advice for the next start of a task of a job.
func AdviseTask(records []*Record) Advice {
	return advise(records, &subject{noun: "task", more: "let it run more often", once: "Let it run once"})
}

// AdviseAllocations returns the advice for a task of a cluster, from its runs in all allocations.
func AdviseAllocations(records []*Record) Advice {
	const once = "Let it run for a day, or to its end,"
	return advise(records, &subject{noun: "task", more: "let it run more often", once: once})
}

func advise(all []*Record, s *subject) Advice {
	records := slices.DeleteFunc(slices.Clone(all), func(r *Record) bool {
		return r.State != Exited || r.Diagnosis.Verdict == StartFailed
	})
	a := Advice{Runs: len(records), subject: s}
	if a.Runs == 0 {
		a.Why = []string{"No run has ended with a complete record: the data do not suffice."}
		started := slices.ContainsFunc(all, func(r *Record) bool { return r.Diagnosis.Verdict != StartFailed })
		if len(all) > 0 && !started {
			a.Why = []string{"The " + s.noun + " was never started: there are no data."}
		}
		return a
	}
	slices.SortFunc(records, func(x, y *Record) int { return x.StartedAt.Compare(y.StartedAt) })
	a.From, a.To = records[0].StartedAt, records[len(records)-1].StartedAt
	a.memory(records)
	a.cpu(records)
	return a
}

const mebibyte = 1 << 20

// peaks are the memory peaks of runs.
type peaks struct {
	// known are exact peaks and upper bounds, upper counts the bounds.
	known []need
	upper int
	// killedAt is the highest peak of the kills runs that the kernel killed something of, atLeast that of the bounds
	// runs of which only a lower bound or a sample is known, and of the cut ones that were not seen to their end.
	killedAt, atLeast  float64
	kills, bounds, cut int
	// found is the most that one of the warm runs read that others had loaded; none is in known.
	found float64
	warm  int
	// unsure runs needed something between two bounds that are far from each other; none is in known. low and high are
	// those of the run with the highest, charged is what was charged to it.
	unsure             int
	low, high, charged float64
	fast               bool // its files pass fast
	// proven is the lowest limit that a run met without waiting for memory or taking longer, tight the highest that one
	// met and took longer; 0 for none.
	proven, tight float64
	// shortAt is the highest peak, with what was swapped, of the short runs that had less memory than they needed and
	// were not killed.
	shortAt float64
	short   int
}

// peaksOf returns the peaks of runs. One that failed or was aborted may have needed less than the command does: it
// counts only if it took more than those that did not.
func peaksOf(records []*Record) (p peaks) {
	whole, usual, fast := 0.0, 0.0, false
	for _, r := range records {
		if h := r.Headline[procstats.HeadlineMemoryPeak.String()]; h.Value != nil && !isAborted(r) {
			whole = max(whole, *h.Value)
			if !metLimit(r) {
				usual, fast = max(usual, waitsOf(r).moving()), fast || usageOf(r, *h.Value).fast
			}
		}
	}
	var sizes []size
	for _, r := range records {
		h := r.Headline[procstats.HeadlineMemoryPeak.String()]
		if h.Value == nil {
			continue
		}
		u := usageOf(r, *h.Value+swapped(r))
		killed := r.Diagnosis.OOM.Kills != nil && *r.Diagnosis.OOM.Kills > 0
		switch {
		case killed:
			p.kills++
			p.killedAt = max(p.killedAt, *h.Value)
		case isAborted(r) && *h.Value < whole:
		case ranShort(r, *h.Value):
			p.short++
			p.shortAt = max(p.shortAt, *h.Value+swapped(r))
		case u.foundLoaded():
			p.warm++
			p.found = max(p.found, u.found)
		case !chargedExactly(&h) && h.Guarantee != procstats.UpperBound:
			p.bounds++
			p.atLeast = max(p.atLeast, *h.Value)
		default:
			if u.limited && hampered(r, usual, fast) {
				p.tight = max(p.tight, u.charged)
				continue
			}
			if u.limited && (p.proven == 0 || u.charged < p.proven) {
				p.proven = u.charged
			}
			sizes = append(sizes, size{r, u, chargedExactly(&h) && swapped(r) == 0})
		}
	}
	for i := range sizes {
		p.add(&sizes[i])
	}
	return p
}

// size is a run whose peak is known, or an upper bound of it.
type size struct {
	*Record
	usage
	exact bool
}

// add adds a run after all that had too little memory, which are lower bounds, and that had enough with less, which
// say more.
func (p *peaks) add(s *size) {
	const apart = 1.5
	least, most := s.cache()
	if isCutShort(s.Record) {
		p.cut++
		if s.exact {
			p.atLeast = max(p.atLeast, s.charged-most)
		}
		return
	}
	low, high := max(s.charged-most, p.killedAt, p.shortAt, p.tight), s.charged-least
	if p.proven > 0 && low <= p.proven && p.proven < high && most > least {
		return
	}
	if high > apart*max(low, leastAdvised*mebibyte) {
		p.unsure++
		if high > p.high {
			p.low, p.high, p.charged, p.fast = low, high, s.charged, s.fast
		}
		return
	}
	known := needOf(s.Record, &s.usage, min(low, high), high)
	if s.limited && most > 0 {
		known = needOf(s.Record, &s.usage, min(low, high), min(low, high))
		known.floor = high
	}
	p.known = append(p.known, known)
	if !s.exact {
		p.upper++
	}
}

// chargedExactly reports whether a peak is what was charged, though the need can be more because of what others had
// loaded: that is known too.
func chargedExactly(h *HeadlineValue) bool {
	other := func(n procstats.Note) bool { return n.Rule != procstats.MemoryUnchargedRule }
	return h.Guarantee == procstats.Exact ||
		h.Source == procstats.CgroupMemoryPeak.String() && len(h.Notes) > 0 && !slices.ContainsFunc(h.Notes, other)
}

// isAborted reports whether a run ended before it had done its work, as far as is known. Services end by a stop.
func isAborted(r *Record) bool {
	return r.Diagnosis.Verdict != Completed && r.Diagnosis.Verdict != Stopped
}

// Settled is how long a task has to run for its peak so far to count as that of a run to its end: each hour of a day.
const Settled = 24 * time.Hour

// isCutShort reports whether what a run needs later is not known: its time was up, or that of a watch.
func isCutShort(r *Record) bool {
	span, _ := r.Span()
	d := &r.Diagnosis
	return span < Settled.Seconds() &&
		(d.Verdict == TimedOut || d.Verdict == Watched && d.Reason != ProcessEnded && d.Reason != GroupEmpty)
}

// ranShort reports whether a run had less memory than it needed. A few pages that lie idle are swapped out of any task.
func ranShort(r *Record, peak float64) bool {
	const idle = 20 // of so many parts one
	return swapped(r) > peak/idle || r.amount(procstats.CgroupMemoryEventsHigh) > 0 ||
		r.Diagnosis.Stall == MemoryThrashing && waitsOf(r).thrashing()
}

// hampered reports whether a limit that a run met has cost it time: half of what is thrashing, or a tenth of what
// others take. One whose files pass fast waits as long as the disk takes, which varies: a fifth is too much then, and
// so is any delay beyond that tenth.
func hampered(r *Record, usual float64, fast bool) bool {
	const longer = 1.1
	w, share, delay := waitsOf(r), stalledShare/2, 0.02
	if fast {
		share, delay = stalledShare/5, 0
	}
	return usual > 0 && (w.memoryShare() > share || w.moving() > longer*usual+delay)
}

// waitsOf returns what a run waited for.
func waitsOf(r *Record) Waits {
	span, _ := r.Span()
	return WaitsIn(time.Duration(span*float64(time.Second)), r.measured)
}

// metLimit reports whether a limit has kept the peak of a run from being higher.
func metLimit(r *Record) bool {
	return r.amount(procstats.CgroupMemoryEventsMax) > 0 || r.amount(procstats.CgroupMemoryFailcnt) > 0
}

// swapped is the most of a run that was in swap space, as far as is known.
func swapped(r *Record) float64 {
	return max(r.amount(procstats.CgroupMemorySwapPeak), r.amount(procstats.CgroupMemorySwapCurrent))
}

// memory advises on memory. Only exact peaks and upper bounds count: a lower bound would ask for too little.
func (a *Advice) memory(records []*Record) {
	p := peaksOf(records)
	if a.unknownNeed(&p) {
		return
	}
	usual, outliers := withoutOutliers(p.known)
	most := largest(p.known)
	memory := ask(usual)
	a.MemoryMiB = &memory
	bound, exact, over := "", " exact", ""
	switch upper := min(p.upper, len(usual)); {
	case upper == len(usual):
		bound, exact = "at most ", ""
	case upper > 0:
		exact, over = "", fmt.Sprintf(", an upper bound in %d of them", upper)
	}
	if days := int(math.Ceil(a.To.Sub(a.From).Hours() / 24)); days >= 2 {
		over = fmt.Sprintf(" over %d days", days) + over
	}
	killText := "no OOM kill"
	if p.kills > 0 {
		killText = procstats.Counted(p.kills, "run with OOM kills at less", "runs with OOM kills at less")
	}
	a.because("Memory: peak %s%s in %s%s, %s: ask for %d MiB.", bound, largest(usual).text(exact), runs(len(usual)),
		over, killText, memory)
	if outliers > 0 {
		highest := max(memory, ask(append(slices.Clone(usual), most)))
		a.MemoryMaxMiB = &highest
		a.because("%s used up to %s: allow %d MiB with memory_max.", runs(outliers), most.text(""), highest)
	}
	if len(p.known) < few {
		a.because("%s too few to be sure: %s.", procstats.Counted(len(p.known), "run is", "runs are"), a.subject.more)
	}
}

// unknownNeed reports whether a run needed more memory than all known peaks, and says so.
func (a *Advice) unknownNeed(p *peaks) bool {
	highest, thanOthers := 0.0, ""
	if len(p.known) > 0 {
		highest, thanOthers = largest(p.known).total(), ", more than any run whose peak is known"
	}
	cold, remedy := "", a.subject.once+" in a cgroup"
	if p.warm > 0 {
		cold = " and nothing of it in the page cache"
	}
	if p.cut > 0 {
		remedy = "Let it run to its end, or for a day"
	}
	switch {
	case len(p.known) == 0 && p.fast && p.tight > 0 && p.proven == 0 && p.high > max(p.killedAt, p.shortAt, p.atLeast):
		a.because("%s needed at most %s: files pass through its page cache so fast that a limit costs it time, as %s did. "+
			"Allow %d MiB if it must not take longer.", runs(p.unsure), procstats.Bytes.Text(p.high),
			procstats.Bytes.Text(p.tight), roundUp(1.1*p.high/mebibyte))
	case (len(p.known) == 0 || p.low > highest) && p.high > max(p.killedAt, p.shortAt, p.atLeast):
		a.because("%s needed between %s and %s of a peak of %s: how much of what is cached of files must "+
			"stay in memory is not known. %s with a memory limit of %d MiB%s.", runs(p.unsure), procstats.Bytes.Text(p.low),
			procstats.Bytes.Text(p.high), procstats.Bytes.Text(p.charged), a.subject.once, p.nextTry(), cold)
	case p.killedAt > highest:
		a.because("%s ended at a peak of up to %s%s: the need is higher, and not known. %s with enough memory (try %d MiB).",
			procstats.Counted(p.kills, "run with OOM kills", "runs with OOM kills"), procstats.Bytes.Text(p.killedAt),
			thanOthers, a.subject.once, nextLimit(p.killedAt))
	case p.shortAt > highest:
		a.because("%s swapped or waited for memory at a peak of up to %s%s: the need is higher, and not known. %s with "+
			"enough memory (try %d MiB).", runs(p.short), procstats.Bytes.Text(p.shortAt), thanOthers, a.subject.once,
			nextLimit(p.shortAt))
	case p.atLeast > highest && thanOthers == "":
		a.because("The memory peak is only known to be at least %s: the data do not suffice. %s.",
			procstats.Bytes.Text(p.atLeast), remedy)
	case p.atLeast > highest:
		a.because("%s needed at least %s%s: the need is higher, and not known. %s.",
			runs(p.bounds+p.cut), procstats.Bytes.Text(p.atLeast), thanOthers, remedy)
	case len(p.known) == 0 && p.warm > 0:
		a.because("%s read up to %s that did not come from storage: whether these are files that others had loaded, and "+
			"must stay in memory, is not known. %s when they are not in the page cache.", runs(p.warm),
			procstats.Bytes.Text(p.found), a.subject.once)
	case len(p.known) == 0 && p.cut > 0:
		a.because("No run was seen to its end, or for a day: the data do not suffice. %s.", remedy)
	case len(p.known) == 0:
		a.because("No run has a memory peak: the data do not suffice.")
	default:
		return false
	}
	return true
}

// nextTry is the limit to run with, in MiB, if the need is not known: just above the lower bound, which is enough if
// the page cache is not needed, and in the middle if something lower was too little.
func (p *peaks) nextTry() int64 {
	const margin = 1.25
	if middle := math.Sqrt(p.low * p.high); p.low <= max(p.killedAt, p.shortAt, p.tight) {
		return roundUp(middle / mebibyte)
	}
	return roundUp(margin * p.low / mebibyte)
}

// few is the number of runs below which the advice says that they are few.
const few = 5

// withoutOutliers returns the values without the highest ones that are at least twice as high as nine tenths of all;
// they must be fewer than one of ten.
func withoutOutliers(values []need) (usual []need, outliers int) {
	sorted := slices.SortedFunc(slices.Values(values), compareNeeds)
	at := len(sorted) * 9 / 10
	if at < few {
		return sorted, 0
	}
	limit := 2 * sorted[at-1].total()
	n := len(sorted)
	for n > at && sorted[n-1].total() >= limit {
		n--
	}
	return sorted[:n], len(sorted) - n
}

// shortest is how many seconds a run lasts at least that says anything of CPU: a shorter one is the start of a
// program, which takes a whole core.
const shortest = 1

// cpu advises on CPU, from exact CPU time. Runs that were throttled would have used more.
func (a *Advice) cpu(records []*Record) {
	most, quota, known, throttled, short := 0.0, 0.0, 0, 0, 0
	for _, r := range records {
		h := r.Headline[procstats.HeadlineCPU.String()]
		span, ok := r.Span()
		switch {
		case ok && span < shortest:
			short++
			continue
		case h.Value == nil || !ok || h.Guarantee != procstats.Exact:
			continue
		}
		// While all of it waited for a CPU that others had, nothing moved.
		waited, starved := r.amount(procstats.CgroupCPUThrottled), r.amount(procstats.PSICPUFull)
		if waited > span/100 || r.Diagnosis.Stall == CPUThrottled {
			throttled++
		}
		ran := span - min(max(0, starved-waited), 0.9*span) // of less nothing can be said
		most = max(most, *h.Value/span, min(*h.Value/ran, float64(r.Host.CPUs)))
		known++
		quota = max(quota, min(cmp.Or(r.amount(procstats.CgroupPidsPeak), math.MaxInt32), float64(r.Host.CPUs)))
	}
	switch {
	case short == len(records):
		a.because("CPU: no run lasted %d s: too short to advise.", shortest)
	case known == 0:
		a.because("No run has an exact CPU time: the data do not suffice for CPU.")
	case throttled > 0:
		a.because("CPU: %s throttled by a quota, at up to %s on average: the need is higher, and not known.",
			procstats.Counted(throttled, "run was", "runs were"), procstats.Cores.Text(most))
	default:
		cores := math.Ceil(most*1.1*20) / 20
		a.Cores = &cores
		a.because("CPU: up to %s on average in %s: ask for %s.", procstats.Cores.Text(most), runs(known),
			procstats.Cores.Text(cores))
		if quota > 0 {
			a.QuotaCores = &quota
		}
		if quota > 0 && a.subject.flags { // what a job asks for is a share
			a.because("A CPU quota below %s may hold back bursts: that many threads can run at once.",
				procstats.Cores.Text(quota))
		}
	}
}

// runs counts runs.
func runs(n int) string { return procstats.Counted(n, "run", "runs") }

func (a *Advice) because(format string, args ...any) {
	a.Why = append(a.Why, fmt.Sprintf(format, args...))
}

// Line returns the advice on memory in a sentence, or two if some runs used much more; empty if the data do not
// suffice.
func (a *Advice) Line() string {
	switch {
	case a.MemoryMiB == nil:
		return ""
	case a.MemoryMaxMiB != nil:
		return a.Why[0] + " " + a.Why[1]
	}
	return a.Why[0]
}

// Text returns the reasons, and what to ask for as a block of a job file and, of a command, as flags of tacho run.
// coreMHz is what a core counts for in the job file.
func (a *Advice) Text(coreMHz int) string {
	var b strings.Builder
	for _, line := range a.Why {
		b.WriteString(line + "\n")
	}
	if a.MemoryMiB == nil && a.Cores == nil {
		return b.String()
	}
	b.WriteString("\nresources {\n")
	if a.Cores != nil {
		fmt.Fprintf(&b, "  cpu        = %d # MHz: %s of %d MHz each\n", int(math.Ceil(*a.Cores*float64(coreMHz))),
			procstats.Cores.Text(*a.Cores), coreMHz)
	}
	if a.MemoryMiB != nil {
		fmt.Fprintf(&b, "  memory     = %d\n", *a.MemoryMiB)
	}
	if a.MemoryMaxMiB != nil {
		fmt.Fprintf(&b, "  memory_max = %d\n", *a.MemoryMaxMiB)
	}
	b.WriteString("}\n")
	if most := cmp.Or(a.MemoryMaxMiB, a.MemoryMiB); most != nil && a.subject.flags {
		fmt.Fprintf(&b, "\ntacho run --memory %dM\n", *most)
	}
	return b.String()
}
