// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"fmt"
	"slices"
)

// Note says that another reading of the same quantity contradicts a headline: which two numbers disagree, and the
// likely cause. The headline it is on has been corrected: it is the better of the two values, or its guarantee is
// weaker.
type Note struct {
	// Rule is the name of the rule in the table of checks. It never changes its meaning.
	Rule string `json:"rule"`
	// Source and Value are what the headline would have been without the check.
	Source string  `json:"source"`
	Value  float64 `json:"value"`
	// OtherSource and OtherValue are the reading that contradicts it.
	OtherSource string  `json:"other_source"`
	OtherValue  float64 `json:"other_value"`
	// Cause is the likely cause, in words.
	Cause string `json:"cause"`
	// Text says all this in one sentence.
	Text string `json:"text"`
}

// check holds headlines against other readings of the same quantity. correct gets a headline that has a value from one
// of the accounts, or from anywhere if there are none, and leaves it as it is, or replaces or weakens it if a reading
// contradicts it.
type check struct {
	rule         string
	of, accounts []ID
	correct      func(h *HeadlineValue, f *facts)
}

// checks are the rules, in the order in which they are applied: each gets what those before it have left. One that
// takes a value from elsewhere must leave a guarantee that holds for that value.
//
//nolint:gochecknoglobals // the one table of rules, never written to
var checks = [...]check{
	{"cpu_above_cgroup", []ID{HeadlineCPU, HeadlineCoresAverage}, []ID{CgroupCPUUsage}, cpuAboveCgroup},
	{"cpu_below_exits", []ID{HeadlineCPU, HeadlineCoresAverage}, []ID{CgroupCPUUsage}, cpuBelowExits},
	{"cores_above_cgroup", []ID{HeadlineCores}, []ID{CgroupCPUUsage}, cpuAboveCgroup},
	{coresAboveCPUsRule, []ID{HeadlineCores, HeadlineCoresAverage}, nil, coresAboveCPUs},
	{"peak_below_sampled", []ID{HeadlineMemoryPeak}, []ID{CgroupMemoryPeak}, peakBelowSampled},
	{
		"memory_left_cgroup",
		[]ID{HeadlineMemory, HeadlineMemoryCharged, HeadlineMemoryPeak},
		[]ID{CgroupMemoryCurrent, CgroupMemoryPeak},
		memoryLeftCgroup,
	},
	{MemoryUnchargedRule, []ID{HeadlineMemory, HeadlineMemoryPeak}, nil, memoryUncharged},
	{"io_left_cgroup", []ID{HeadlineIORead, HeadlineIOWrite, HeadlineIOHanded}, nil, ioLeftCgroup},
	{"peak_without_hugetlb", []ID{HeadlineMemoryPeak}, nil, peakWithoutHugetlb},
	{"read_above_cgroup", []ID{HeadlineIORead}, []ID{CgroupIORead}, readAboveCgroup},
	{"network_uncounted", []ID{HeadlineNetworkReceived, HeadlineNetworkSent}, nil, networkUncounted},
	{"write_above_cgroup", []ID{HeadlineIOWrite}, []ID{CgroupIOWrite}, writeAboveCgroup},
}

// coresAboveCPUsRule is the rule whose notes say nothing against the account that a headline is taken from.
const coresAboveCPUsRule = "cores_above_cpus"

// facts are what the rules see: the sample and what is known of the time before it.
type facts struct {
	*Sample
	History
}

// checked holds every headline against the other readings of the same quantity, and corrects it if one contradicts it.
func (f *facts) checked(list []HeadlineValue) []HeadlineValue {
	for i := range list {
		f.check(&list[i])
		f.inform(&list[i])
	}
	return list
}

// inform says of a lower bound of 0 what it is: not known. While the task goes on, counters keep it, to be seen
// growing from there, and rates, which are often 0.
func (f *facts) inform(h *HeadlineValue) {
	value, ok := h.Reading.Number()
	if !ok || value != 0 || h.Guarantee != LowerBound {
		return
	}
	if m := rowOf(h.ID); !f.Ended && (m.Kind == Counter || m.Unit != Bytes) {
		return
	}
	reason := h.Source + " counted nothing and is incomplete"
	if notes := len(h.Notes); notes > 0 {
		reason = h.Notes[notes-1].Text
	}
	*h = noHeadline(h.ID, reason)
}

// Guarantees returns how the readings of a task relate to the truth, by name: as the table says, but an account is a
// lower bound if a headline that would have been taken from it was contradicted, a size is one if the walk has not
// seen all, and pressure says only something of the processes in the cgroup: those outside can have waited longer, or
// have run while these waited.
func Guarantees(s *Sample, headlines []HeadlineValue) map[string]Guarantee {
	all := make(map[string]Guarantee, len(s.Task))
	_, _, left := (&facts{Sample: s}).left(TreeLeftPressure)
	walk, walked := s.Task.Text(DiskWalk)
	for _, r := range s.Task {
		if m := rowOf(r.ID()); m != nil && r.Present() && m.Guarantee != "" {
			all[m.Name] = m.Guarantee
			if m.Source == SourcePSI && left {
				all[m.Name] = Sampled
			}
			if (m.ID == DiskUsage || m.ID == DiskFiles) && walked && walk != WalkComplete {
				all[m.Name] = LowerBound
			}
		}
	}
	for _, h := range headlines {
		for _, n := range h.Notes {
			if all[n.Source] == Exact && n.Rule != coresAboveCPUsRule && n.Rule != MemoryUnchargedRule {
				all[n.Source] = LowerBound
			}
		}
	}
	return all
}

// check applies all rules to one headline.
func (f *facts) check(h *HeadlineValue) {
	for i := range checks {
		c := &checks[i]
		if !h.Reading.Present() || !slices.Contains(c.of, h.ID) ||
			c.accounts != nil && !slices.ContainsFunc(c.accounts, h.takenFrom) {
			continue
		}
		before := len(h.Notes)
		c.correct(h, f)
		for i := before; i < len(h.Notes); i++ {
			h.Notes[i].Rule = c.rule
		}
	}
}

// replace takes the value of another source, which is a lower bound and larger.
func (h *HeadlineValue) replace(value float64, from ID, other float64, cause string) {
	h.weaken(from, other, cause)
	h.Reading, h.Source = NumberReading(h.ID, value), rowOf(from).Name
}

// weaken leaves the value as it is, as a lower bound. It is called for few headlines, and needs much of a stack.
//
//go:noinline
func (h *HeadlineValue) weaken(against ID, other float64, cause string) {
	value, _ := h.Reading.Number()
	m := rowOf(against)
	n := Note{Source: h.Source, Value: value, OtherSource: m.Name, OtherValue: other, Cause: cause}
	n.Text = fmt.Sprintf("%s is %s by %s, but %s is %s: %s",
		h.ID, rowOf(h.ID).Unit.Text(value), h.Source, m.Name, m.Unit.Beside(other, value), cause)
	h.Guarantee, h.Notes = LowerBound, append(h.Notes, n)
}

// weakenIfLeft makes an account of the cgroup a lower bound if processes are known to have left it.
func (h *HeadlineValue) weakenIfLeft(account ID, f *facts) {
	if id, processes, left := f.left(account); left && h.Guarantee == Exact {
		h.weaken(id, processes, causeLeft)
	}
}

// takenFrom reports whether the headline is the value of a measurement, or computed from it.
func (h *HeadlineValue) takenFrom(id ID) bool { return h.Source == rowOf(id).Name }

// largest is the largest reading so far of a gauge of memory.
func (h History) largest(id ID) (value float64, ok bool) {
	if h.Window != nil {
		if r, err := h.Window.Reduce(id, Max); err == nil && r.Present() {
			return r.Number()
		}
	}
	return h.Largest.Number(id)
}

const (
	causeLeft   = "processes of the task ran outside its cgroup"
	causeUnseen = "nothing shows whether a process left the cgroup between two samples, " +
		"because it is of version 1 and counts no CPU time"
)

// leaveUnseen reports whether a process can leave the cgroup of a task and end between two samples without a trace.
func (f *facts) leaveUnseen() bool {
	cpu, asked := f.Task.Get(CgroupCPUUsage)
	_, watched := f.Task.Number(RusageOutside)
	return asked && !cpu.Present() && !watched
}

// left says which count of processes that have left a cgroup speaks against an account of the cgroup; ok is false if no
// process is known to have left it. Where one was that ended elsewhere only version 2 says: it may have left all.
func (f *facts) left(account ID) (id ID, processes float64, ok bool) {
	for _, id := range [...]ID{account, RusageOutside, ExitsLeft} {
		if n, known := f.Task.Number(id); known && n > 0 {
			return id, n, true
		}
	}
	return 0, 0, false
}

// cpuBeyond is the largest of the counts of CPU time by process, if it is more than the cgroup has counted: all of
// them are lower bounds, and are read before the cgroup's counter is. 1 % or 20 ms is what their resolution allows, as
// long as no process is known to have left, and the clocks of the live processes have no more than 0.5 % or 2 ms too
// much.
func (f *facts) cpuBeyond() (id ID, value float64, ok bool) {
	cgroup, given := f.Task.Number(CgroupCPUUsage)
	if !given {
		return 0, 0, false
	}
	most := cgroup + max(0.020, cgroup/100)
	rows := f.cpuOfRows()
	_, _, left := f.left(TreeLeftCPU)
	if left || rows > cgroup+max(0.002, cgroup/200) {
		most = cgroup
	}
	for _, from := range [...]ID{TreeCPU, RusageCPU, ExitsCPU} {
		if from == ExitsCPU && !left && !ok {
			continue // see cpuBelowExits
		}
		if counted, read := f.Task.Number(from); read && counted > most {
			id, value, most, ok = from, counted, counted, true
		}
	}
	if rows > most { // tree_cpu_seconds_total has them, but is not selected
		return TreeCPULive, rows, true
	}
	return id, value, ok
}

// cpuOfRows is what the processes have used by their own clocks, those that have exited until they were last seen.
func (f *facts) cpuOfRows() float64 {
	live, _ := f.Task.Number(TreeCPULive)
	exited, _ := f.Task.Number(TreeCPUExited)
	return live + exited
}

// cpuAboveCgroup: the processes have used more than their cgroup has counted.
func cpuAboveCgroup(h *HeadlineValue, f *facts) {
	from, counted, beyond := f.cpuBeyond()
	switch {
	case !beyond:
		h.weakenIfLeft(TreeLeftCPU, f)
	case h.ID == HeadlineCores:
		f.coresAboveCgroup(h, from, counted)
	case h.ID == HeadlineCoresAverage:
		h.replace(counted/f.Elapsed.Seconds(), from, counted, causeLeft)
	default:
		h.replace(counted, from, counted, causeLeft)
	}
}

// cpuBelowExits: the processes that ended in the v2 cgroup had used more in their lives than was counted for the task.
// No process was seen that left, or one would have said how much it used; as well some may have joined with time of
// their own.
func cpuBelowExits(h *HeadlineValue, f *facts) {
	ended, ok := f.Task.Number(ExitsCPU)
	cgroup, _ := f.Task.Number(CgroupCPUUsage)
	if !ok || h.Guarantee != Exact || ended <= cgroup+max(0.020, cgroup/100) {
		return
	}
	h.weaken(ExitsCPU, ended, "processes have left the cgroup unseen, or joined it")
}

// coresAboveCgroup is cpuAboveCgroup of the rate. What processes use outside adds to the cgroup's. The growth of the
// whole count is too much when a process is found that left long ago, and the sum is when one comes back between two
// samples: the lower of both holds.
func (f *facts) coresAboveCgroup(h *HeadlineValue, from ID, counted float64) {
	value, _ := h.Reading.Number()
	outside, okOutside := f.History.rate(f.Sample, TreeOutsideCPU).Number()
	all, okAll := f.History.rate(f.Sample, TreeCPU).Number()
	if rate := min(value+outside, all); okOutside && okAll && rate > value {
		h.replace(rate, TreeCPU, counted, causeLeft)
		return
	}
	h.weaken(from, counted, causeLeft)
}

// coresAboveCPUs: more CPUs were kept busy than there are. The clocks of CPUs differ by less than 1 %.
func coresAboveCPUs(h *HeadlineValue, f *facts) {
	cpus := float64(f.CPUs)
	value, _ := h.Reading.Number()
	if cpus == 0 || value <= cpus {
		return
	}
	h.Reading = NumberReading(h.ID, cpus)
	if value <= cpus*1.01 {
		return
	}
	n := Note{
		Source: h.Source, Value: value, OtherSource: "host.cpus", OtherValue: cpus,
		Cause: "part of the CPU time was used before the time that it is divided by, or the readings were delayed",
	}
	n.Text = fmt.Sprintf("%s is %s by %s, but the machine has %s: %s",
		h.ID, Cores.Text(value), h.Source, Counted(f.CPUs, "CPU", "CPUs"), n.Cause)
	h.Guarantee, h.Notes = Sampled, append(h.Notes, n)
}

// reapedBeyond is the CPU time of the reaped processes, if it is more than the cgroup has counted by 0.1 % or 1 ms. It
// is counted in microseconds, and lacks the last moments of each process, which the cgroup has.
func (f *facts) reapedBeyond() (id ID, value float64, ok bool) {
	cgroup, known := f.Task.Number(CgroupCPUUsage)
	reaped, _ := f.Task.Number(RusageCPU)
	return RusageCPU, reaped, known && reaped > cgroup+max(0.001, cgroup/1000)
}

// memoryLeftCgroup: what processes hold elsewhere is not charged to the cgroup. If nothing has looked at the
// processes, their CPU time says that they have left. One that left and ended between two samples can have held much
// and run for less than what the CPU time of the task is exact to; where there is no version 2, nothing else says from
// where it ended. If its CPU time is not counted either, nothing can contradict the cgroup.
func memoryLeftCgroup(h *HeadlineValue, f *facts) {
	cause := causeLeft
	against, n, left := f.left(TreeLeftMemory)
	if !left {
		if against, n, left = f.cpuBeyond(); !left {
			if against, n, left = f.reapedBeyond(); !left {
				if !f.leaveUnseen() {
					return
				}
				against, cause = TreeLeftMemory, causeUnseen
			}
		}
	}
	f.weakenMemory(h, against, n, cause)
}

// weakenMemory makes a headline of memory a lower bound: the best one that is known.
func (f *facts) weakenMemory(h *HeadlineValue, against ID, n float64, cause string) {
	upper := h.Guarantee == UpperBound
	h.weaken(against, n, cause)
	value, _ := h.Reading.Number()
	if upper { // at most and at least are neither: what cannot be reclaimed is at least the anonymous memory
		value = -1
	}
	for _, r := range f.memoryBounds(h.ID) {
		if bound, _ := r.Number(); r.Present() && bound > value {
			h.Reading, h.Source, value = NumberReading(h.ID, bound), rowOf(r.id).Name, bound
		}
	}
}

// memoryBounds are the readings that a headline of memory is at least, wherever the memory is charged to.
func (f *facts) memoryBounds(id ID) []Reading {
	anon, _ := f.Task.Get(CgroupMemoryAnon)
	now, _ := f.Task.Get(TreeMemory)
	switch id {
	case HeadlineMemory:
		return []Reading{anon, now}
	case HeadlineMemoryPeak:
		largest, _ := f.largest(TreeMemory)
		reaped, _ := f.Task.Get(RusagePeakRSS)
		return []Reading{now, NumberReading(TreeMemory, largest), reaped}
	}
	return nil
}

// MemoryUnchargedRule is the rule whose notes say, as their OtherValue, how much more a run can need that others had
// loaded. The account itself is right.
const MemoryUnchargedRule = "memory_uncharged"

// memoryUncharged: the processes had mapped what others had loaded, more than is usual for libraries. It is charged to
// those, and the task needs it.
func memoryUncharged(h *HeadlineValue, f *facts) {
	const usual, part = 16 << 20, 10
	data, ok := f.Task.Number(TreeUncharged)
	notCode, _ := f.Task.Number(TreeUnchargedData)
	value, _ := h.Reading.Number()
	cause := "up to " + Bytes.Text(data) + " more that others had loaded"
	switch {
	case !ok || notCode <= max(usual, value/part):
	case h.Guarantee == UpperBound:
		f.weakenMemory(h, TreeUncharged, data, cause)
	default:
		h.weaken(TreeUncharged, data, cause)
	}
}

// ioLeftCgroup: what processes read and write elsewhere is not charged to the cgroup.
func ioLeftCgroup(h *HeadlineValue, f *facts) { h.weakenIfLeft(TreeLeftIO, f) }

// peakBelowSampled: the largest sample is above the kernel's own peak, which a task may reset that can write to its
// cgroup. A peak is recorded without a lock, and may miss what several CPUs charge at once: 1 % or 1 MiB.
func peakBelowSampled(h *HeadlineValue, f *facts) {
	sampled, ok := f.largest(CgroupMemoryCurrent)
	value, _ := h.Reading.Number()
	if !ok || sampled <= value+max(1<<20, value/100) {
		return
	}
	h.replace(sampled, CgroupMemoryCurrent, sampled, "the peak was reset while the task ran")
}

// peakWithoutHugetlb: huge pages were held that the peak does not count.
func peakWithoutHugetlb(h *HeadlineValue, f *facts) {
	const cause = "the memory of a cgroup is counted without huge pages"
	held, ok := f.largest(HugetlbUncharged)
	if now, read := f.Task.Number(HugetlbUncharged); read && now > held {
		held, ok = now, true
	}
	value, _ := h.Reading.Number()
	switch {
	case !ok || held == 0:
		return
	case held > value:
		h.replace(held, HugetlbUncharged, held, cause)
		return
	}
	h.weaken(HugetlbUncharged, held, cause)
}

// readAboveCgroup: the processes have caused more reads than their cgroup has counted. They are read a moment after it:
// 1 MiB or 1 %.
func readAboveCgroup(h *HeadlineValue, f *facts) {
	cgroup, _ := h.Reading.Number()
	for _, from := range ioReadSources[1:] {
		read, ok := f.Task.Number(from)
		if ok && read > cgroup && (cgroup == 0 || read > cgroup+max(1<<20, cgroup/100)) {
			h.replace(read, from, read, causeLeft)
			return
		}
	}
}

// writeAboveCgroup: more of what the processes wrote has reached storage than was charged to their cgroup. The lower
// bound has no need of a tolerance; it is taken whenever it is higher, so that the headline never falls.
func writeAboveCgroup(h *HeadlineValue, f *facts) {
	stored, ok := f.Task.Number(TreeIOStored)
	cgroup, _ := h.Reading.Number()
	if !ok || stored <= cgroup {
		return
	}
	h.replace(stored, TreeIOStored, stored,
		"the task changed pages that are charged to other cgroups, such as those of devices, or ran outside its cgroup")
}

// networkUncounted: the task has sockets that were made outside its cgroup, or are of AF_PACKET, or may have made some
// where its version 2 cgroup does not count them.
func networkUncounted(h *HeadlineValue, f *facts) {
	if sockets, _ := f.Task.Number(SkbUncountedSockets); sockets > 0 {
		h.weaken(SkbUncountedSockets, sockets, "their packets are not counted")
	}
	h.weakenIfLeft(TreeLeftPressure, f)
}
