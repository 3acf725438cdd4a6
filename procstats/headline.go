// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"cmp"
	"slices"
	"time"
)

// HeadlineValue is one of the few numbers that people look at first, with where it was taken from.
type HeadlineValue struct {
	// ID is the headline's own number: HeadlineCPU and so on.
	ID ID
	// Reading holds the value under ID, or the reason for its absence.
	Reading Reading
	// Source is the name of the measurement the value was taken from; empty where absent.
	Source string
	// Guarantee is how the value relates to the truth; empty where absent.
	Guarantee Guarantee
	// Notes say which other readings contradicted the value, and were taken into account: see Note.
	Notes []Note
}

// History is what one sample alone cannot say. Every field may be left out; what needs it is then absent.
type History struct {
	// Previous is an earlier sample of the same task, for cpu_cores.
	Previous *Sample
	// Window has the samples up to this one: cpu_cores is then measured over it. It goes before Previous.
	Window *Window
	// Elapsed is the time of the run up to the sample, or to the end of its last process, for cpu_cores_average.
	Elapsed time.Duration
	// Ended reports that the sample was read after the run had ended: its end is known to have been before Elapsed and
	// before the read, by as long as it took to wake the process that waited for it.
	Ended bool
	// EndKnown reports that Elapsed is to the end itself, by the kernel.
	EndKnown bool
	// Largest are the largest readings over all samples so far, for the peak; those of Window go before them.
	Largest Largest
	// CPUs is how many the machine has, for the cpu_cores; 0 if that is not known.
	CPUs int
}

// Largest remembers the largest readings of the gauges that a peak is taken from, or held against.
type Largest struct{ Readings }

// Add takes a sample into account.
func (l *Largest) Add(s *Sample) {
	for _, id := range sampledPeaks {
		value, ok := s.Task.Number(id)
		if before, known := l.Number(id); ok && (!known || value > before) {
			l.Put(NumberReading(id, value))
		}
	}
}

// Orders of preference: the first that was read is taken. The table's File texts say the same in words.
//
//nolint:gochecknoglobals // constant lists
var (
	cpuSources = [...]ID{CgroupCPUUsage, TreeCPU, RusageCPU, PortableCPU}
	// coresSources grow while processes run. What wait4(2) gives for a child comes at its end, all at once.
	coresSources = [...]ID{CgroupCPUUsage, TreeCPU, PortableCPU}
	// The sum of resident memory is not among them: it counts shared pages several times and misses what is not mapped.
	memorySources = [...]ID{TreeMemory, PortableRSS}
	peakNeeds     = [...]ID{
		CgroupMemoryPeak, CgroupMemoryCurrent, TreeMemory, PortableRSS, RusagePeakRSS, HugetlbUncharged,
	}
	// sampledPeaks are the gauges whose largest sample says something about the peak.
	sampledPeaks   = [...]ID{CgroupMemoryCurrent, PortableRSS, TreeMemory, HugetlbUncharged}
	swapSources    = [...]ID{CgroupMemorySwapCurrent, TreeSwap}
	hugetlbSources = [...]ID{HugetlbCgroupCurrent, HugetlbMapped}
	ageSources     = [...]ID{TreeProcesses}
	// cgroupMemory is the cgroup's charge and, after it, what the kernel can take back of it.
	cgroupMemory = [...]ID{
		CgroupMemoryCurrent, CgroupMemoryActiveFile, CgroupMemoryInactiveFile, CgroupMemorySlabReclaimable,
	}
	memoryNeeds = [...]ID{
		CgroupMemoryCurrent, CgroupMemoryActiveFile, CgroupMemoryInactiveFile, CgroupMemorySlabReclaimable,
		CgroupMemoryAnon, CgroupMemoryShmem, TreeMemory, PortableRSS, HugetlbCgroupCurrent, HugetlbUncharged,
	}
)

// Headlines returns every headline of a sample, in the order of the table, each with a value or with the
// reason why there is none, and held against every other reading of the same quantity: see Note. Those of swap, huge
// pages and the age of the processes are listed if they are not 0.
func Headlines(s *Sample, h History) []HeadlineValue { return HeadlinesInto(nil, s, h) }

// HeadlinesInto does the same in the memory of a list that is not read any more.
func HeadlinesInto(used []HeadlineValue, s *Sample, h History) []HeadlineValue {
	list, f := slices.Grow(used[:0], len(headlineMakers)), &facts{s, h}
	for i := range headlineMakers {
		maker := &headlineMakers[i]
		made := maker.make(f, maker.id, maker.sources)
		if value, _ := made.Reading.Number(); value > 0 || !maker.positive {
			list = append(list, made)
		}
	}
	return f.checked(list)
}

// headlineMaker makes a headline of the measurements that it can be taken from. It is listed if it is positive, or
// always.
type headlineMaker struct {
	id       ID
	sources  []ID
	positive bool
	make     func(f *facts, id ID, sources []ID) HeadlineValue
}

// headlineMakers are in the order of the list. One call of each after the other would need the stack of all together,
// which each of a thousand readers of tasks had.
//
//nolint:gochecknoglobals // constant
var headlineMakers = [...]headlineMaker{
	{HeadlineCPU, cpuSources[:], false, first},
	{HeadlineCores, cpuSources[:], false, cores},
	{HeadlineCoresAverage, cpuSources[:], false, coresAverage},
	{HeadlineMemory, memoryNeeds[:], false, memory},
	{HeadlineMemoryCharged, cgroupMemory[:1], false, first},
	{HeadlineMemoryPeak, peakNeeds[:], false, memoryPeak},
	{HeadlineIORead, ioReadSources[:], false, largestRead},
	{HeadlineIOWrite, ioWriteNeeds[:], false, ioWrite},
	{HeadlineIOHanded, ioHandedSources[:], false, largestRead},
	{HeadlineIOPending, ioPendingSources[:], false, ioPending},
	{HeadlineSwap, swapSources[:], true, first},
	{HeadlineHugetlb, hugetlbSources[:], true, first},
	{HeadlineProcessesAge, ageSources[:], true, processesAge},
	{HeadlineNetworkReceived, receivedSources[:], false, packets},
	{HeadlineNetworkSent, sentSources[:], false, packets},
}

// headlineNeeds lists the measurements that a headline can be taken from.
func headlineNeeds(id ID) []ID {
	i := slices.IndexFunc(headlineMakers[:], func(m headlineMaker) bool { return m.id == id })
	return headlineMakers[i].sources
}

// Lasting reports whether the headlines of a sample are those of the next, but for what moves with the time, if that
// has the very readings of this one, and of the one before it: rates were 0 and are so. A contradiction may end with
// the time.
func Lasting(list []HeadlineValue) bool {
	for i := range list {
		if len(list[i].Notes) > 0 {
			return false
		}
	}
	return len(list) > 0
}

// processesAge is how much older than the sample its process rows are. After the end no process is left to read.
func processesAge(f *facts, id ID, _ []ID) HeadlineValue {
	age := RowsAge(f.Sample)
	seconds, ok := age.Number()
	if !ok || f.Ended {
		return noHeadline(id, reasonUnread)
	}
	v := takenFrom(id, seconds, TreeProcesses)
	v.Guarantee = Exact
	return v
}

// RowsAge is how much older than a sample its process rows are.
func RowsAge(s *Sample) Reading {
	set, ok := s.RowsAt()
	if !ok || set.Mono >= s.Mono {
		return AbsentReading(HeadlineProcessesAge, reasonUnread)
	}
	return NumberReading(HeadlineProcessesAge, (s.Mono - set.Mono).Seconds())
}

// CPUTotal returns the CPU time of the task as its headline has it, which the rows of its processes are held against.
// It has no notes. The rules for it are called by their names and not by the table, because every sample needs it:
// what a table's functions are given is allocated.
func CPUTotal(s *Sample) HeadlineValue {
	h, f := firstRead(s, HeadlineCPU, cpuSources[:]), facts{Sample: s}
	if h.takenFrom(CgroupCPUUsage) {
		cpuAboveCgroup(&h, &f)
		cpuBelowExits(&h, &f)
		h.Notes = nil
	}
	return h
}

// takenFrom is a headline's value, from a measurement whose guarantee it shares.
func takenFrom(id ID, value float64, from ID) HeadlineValue {
	m := rowOf(from)
	return HeadlineValue{ID: id, Reading: NumberReading(id, value), Source: m.Name, Guarantee: m.Guarantee}
}

func noHeadline(id ID, reason string) HeadlineValue {
	return HeadlineValue{ID: id, Reading: AbsentReading(id, reason)}
}

func first(f *facts, id ID, sources []ID) HeadlineValue { return firstRead(f.Sample, id, sources) }

// firstRead takes the first measurement that was read.
func firstRead(s *Sample, id ID, sources []ID) HeadlineValue {
	for _, from := range sources {
		if value, ok := s.Task.Number(from); ok {
			return takenFrom(id, value, from)
		}
	}
	return noHeadline(id, whyNone(s, sources))
}

// whyNone is the reason of the most preferred measurement that has one.
func whyNone(s *Sample, sources []ID) string {
	for _, from := range sources {
		if r, found := s.Task.Get(from); found && !r.Present() {
			return rowOf(from).Name + ": " + r.Reason()
		}
	}
	return "nothing it can be taken from is selected"
}

func cores(f *facts, _ ID, _ []ID) HeadlineValue {
	return f.ofEnded(coresHeadline(f.Sample, f.History))
}

// coresHeadline is the rate of the first CPU counter that was read more than once, over the time between its own
// reads.
func coresHeadline(s *Sample, h History) HeadlineValue {
	if h.Window == nil && h.Previous == nil {
		return noHeadline(HeadlineCores, "a rate needs an earlier sample")
	}
	reason := ""
	for _, from := range coresSources {
		if _, ok := s.Task.Number(from); !ok {
			continue
		}
		rate := h.rate(s, from)
		if value, ok := rate.Number(); ok {
			v := takenFrom(HeadlineCores, value, from)
			if v.Guarantee == LowerBound {
				v.Guarantee = Sampled // what the earlier of two lower bounds missed, the later one can have
			}
			return v
		}
		reason = cmp.Or(reason, rate.Reason())
	}
	return noHeadline(HeadlineCores, cmp.Or(reason, whyNone(s, coresSources[:])))
}

// CoresSince returns how many cores the task kept busy since an earlier sample, from the source of the headline.
func CoresSince(s, before *Sample) Reading {
	return coresHeadline(s, History{Previous: before}).Reading
}

// rate is the rate of a counter of the task up to a sample.
func (h History) rate(s *Sample, id ID) Reading {
	if h.Window == nil {
		return s.Rate(h.Previous, id)
	}
	r, err := h.Window.Reduce(id, Rate)
	if err != nil {
		return AbsentReading(id, err.Error())
	}
	return r
}

// settledRun is the shortest run for which the delay between its end and the time that was taken of it, milliseconds
// and on a busy machine tens of them, is no part worth a word.
const settledRun = 10 * time.Second

// startedRun is the shortest run in which what the start of its first process cost the cgroup, up to half a millisecond
// before the run began, is a small part.
const startedRun = 5 * time.Millisecond

// ofEnded lowers the guarantee of an average over a short run: its time is too long by the delay.
func (h History) ofEnded(v HeadlineValue) HeadlineValue {
	if h.Ended && h.Elapsed < settledRun && v.Guarantee == Exact {
		v.Guarantee = LowerBound
	}
	return v
}

// coresAverage is the CPU time over the time of the run.
func coresAverage(f *facts, id ID, sources []ID) HeadlineValue {
	cpu := firstRead(f.Sample, id, sources)
	value, ok := cpu.Reading.Number()
	switch {
	case !ok:
		return cpu
	case f.Elapsed <= 0:
		return noHeadline(id, "the wall time of the run is not known")
	}
	cpu.Reading = NumberReading(id, value/f.Elapsed.Seconds())
	if !f.EndKnown {
		return f.ofEnded(cpu)
	}
	if f.Elapsed < startedRun && cpu.Guarantee == Exact {
		cpu.Guarantee = Sampled
	}
	return cpu
}

func memory(f *facts, _ ID, _ []ID) HeadlineValue { return memoryHeadline(f.Sample) }

// memoryHeadline is what the kernel cannot take back from the cgroup, else the processes' own memory, with the huge
// pages that neither has.
func memoryHeadline(s *Sample) HeadlineValue {
	v := cgroupMemoryHeadline(s)
	if !v.Reading.Present() {
		if v = firstRead(s, HeadlineMemory, memorySources[:]); !v.Reading.Present() {
			return noHeadline(HeadlineMemory, whyNone(s, memoryNeeds[:]))
		}
	}
	huge, ok := s.Task.Number(HugetlbUncharged)
	if !ok || huge == 0 {
		return v
	}
	value, _ := v.Reading.Number()
	if _, counted := s.Task.Number(HugetlbCgroupCurrent); !counted {
		if v.Guarantee == UpperBound {
			// At most this and at least that would be neither: what the cgroup holds at least is its own memory.
			anon, _ := s.Task.Number(CgroupMemoryAnon)
			shmem, _ := s.Task.Number(CgroupMemoryShmem)
			value = min(value, anon+shmem)
		}
		v.Guarantee = LowerBound
	}
	v.Reading = NumberReading(HeadlineMemory, value+huge)
	return v
}

// cgroupMemoryHeadline is what the cgroup says, without a reason if it says nothing.
func cgroupMemoryHeadline(s *Sample) HeadlineValue {
	current, ok := s.Task.Number(CgroupMemoryCurrent)
	active, okActive := s.Task.Number(CgroupMemoryActiveFile)
	inactive, okInactive := s.Task.Number(CgroupMemoryInactiveFile)
	if !ok || !okActive || !okInactive {
		return noHeadline(HeadlineMemory, "")
	}
	slab, okSlab := s.Task.Number(CgroupMemorySlabReclaimable)
	// memory.stat is gathered per CPU and lags behind memory.current, so the difference can fall below 0.
	v := takenFrom(HeadlineMemory, max(0, current-active-inactive-slab), CgroupMemoryCurrent)
	if !okSlab {
		// cgroup v1 has no such key: reclaimable slab stays in the value.
		v.Guarantee = UpperBound
	}
	return v
}

// memoryPeak is the kernel's own record, else the larger of the samples and of the largest process that was
// reaped: the task held at least as much.
func memoryPeak(f *facts, id ID, sources []ID) HeadlineValue {
	if value, ok := f.Task.Number(CgroupMemoryPeak); ok {
		return takenFrom(id, value, CgroupMemoryPeak)
	}
	best := noHeadline(id, whyNone(f.Sample, sources[:len(sources)-1])) // huge pages alone are no peak
	most := -1.0
	for _, from := range [...]ID{CgroupMemoryCurrent, TreeMemory, PortableRSS} {
		if value, ok := f.largest(from); ok && value > most {
			best, most = takenFrom(id, value, from), value
			best.Guarantee = LowerBound
		}
	}
	if value, ok := f.Task.Number(RusagePeakRSS); ok && value > most {
		best = takenFrom(id, value, RusagePeakRSS)
	}
	return best
}

// readAt is the stamp of a measurement's source, or of the sample where the source left none.
func (s *Sample) readAt(id ID) Stamp {
	if stamp, ok := s.ReadAt(id); ok {
		return stamp
	}
	return s.Stamp
}
