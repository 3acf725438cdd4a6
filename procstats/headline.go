// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import "time"

// HeadlineValue is one of the few numbers that people look at first, with where it was taken from.
type HeadlineValue struct {
	// ID is the headline's own number: HeadlineCPU and so on.
	ID ID
	// Reading holds the value under ID, or the reason why there is none.
	Reading Reading
	// Source is the name of the measurement the value was taken from; empty where absent.
	Source string
	// Guarantee is how the value relates to the truth; empty where absent.
	Guarantee Guarantee
}

// History is what one sample alone cannot say. Every field may be left out; what needs it is then absent.
type History struct {
	// Previous is an earlier sample of the same task, for cpu_cores.
	Previous *Sample
	// Elapsed is the wall time of the run up to the sample, for cpu_cores_average.
	Elapsed time.Duration
	// Peak is the largest reading over all samples so far of a gauge of resident memory (tree_rss_bytes,
	// smaps_pss_bytes, portable_rss_bytes), as Window.Reduce(id, Max) gives it.
	Peak Reading
}

// Orders of preference: the first that was read is taken. The table's File texts say the same in words.
//
//nolint:gochecknoglobals // constant lists
var (
	cpuSources     = [...]ID{CgroupCPUUsage, TreeCPU, RusageCPU, PortableCPU}
	memorySources  = [...]ID{SmapsPSS, TreeRSS, PortableRSS}
	peakSources    = [...]ID{CgroupMemoryPeak, TreeRSS, PortableRSS, RusageMaxRSS}
	ioReadSources  = [...]ID{CgroupIORead, TreeIORead, CgroupBlkioRead, RusageInblock}
	ioWriteSources = [...]ID{CgroupIOWrite, TreeIOWrite, CgroupBlkioWrite, RusageOublock}
	// cgroupMemory is the cgroup's charge and, after it, what the kernel can take back of it.
	cgroupMemory = [...]ID{
		CgroupMemoryCurrent, CgroupMemoryActiveFile, CgroupMemoryInactiveFile, CgroupMemorySlabReclaimable,
	}
	// memoryNeeds has no smaps_pss_bytes: it is taken where it is selected, and too costly to be selected unasked.
	memoryNeeds = [...]ID{
		CgroupMemoryCurrent, CgroupMemoryActiveFile, CgroupMemoryInactiveFile, CgroupMemorySlabReclaimable,
		TreeRSS, PortableRSS,
	}
)

// headlineNeeds lists the measurements that a headline can be taken from.
func headlineNeeds(id ID) []ID {
	switch id {
	case HeadlineCPU, HeadlineCores, HeadlineCoresAverage:
		return cpuSources[:]
	case HeadlineMemory:
		return memoryNeeds[:]
	case HeadlineMemoryCharged:
		return cgroupMemory[:1]
	case HeadlineMemoryPeak:
		return peakSources[:]
	case HeadlineIORead:
		return ioReadSources[:]
	case HeadlineIOWrite:
		return ioWriteSources[:]
	}
	return nil
}

// Headlines returns every headline of a sample, in the order of the table, each with a value or with the
// reason why there is none.
func Headlines(s *Sample, h History) []HeadlineValue {
	return []HeadlineValue{
		first(s, HeadlineCPU, cpuSources[:]),
		cores(s, h.Previous),
		coresAverage(s, h.Elapsed),
		memory(s),
		first(s, HeadlineMemoryCharged, cgroupMemory[:1]),
		memoryPeak(s, h.Peak),
		first(s, HeadlineIORead, ioReadSources[:]),
		first(s, HeadlineIOWrite, ioWriteSources[:]),
	}
}

// taken is a headline's value, from a measurement whose guarantee it shares.
func taken(id ID, value float64, from ID) HeadlineValue {
	m := row(from)
	return HeadlineValue{ID: id, Reading: NumberReading(id, value), Source: m.Name, Guarantee: m.Guarantee}
}

func missing(id ID, reason string) HeadlineValue {
	return HeadlineValue{ID: id, Reading: AbsentReading(id, reason)}
}

// first takes the first measurement that was read.
func first(s *Sample, id ID, sources []ID) HeadlineValue {
	for _, from := range sources {
		if value, ok := s.Task.Number(from); ok {
			return taken(id, value, from)
		}
	}
	return missing(id, whyNone(s, sources))
}

// whyNone is the reason of the most preferred measurement that has one.
func whyNone(s *Sample, sources []ID) string {
	for _, from := range sources {
		if r, found := s.Task.Get(from); found && !r.Present() {
			return row(from).Name + ": " + r.Reason()
		}
	}
	return "nothing it can be taken from is selected"
}

// cores is the rate of the first CPU counter that both samples have, over the time between its own reads.
func cores(s, previous *Sample) HeadlineValue {
	if previous == nil {
		return missing(HeadlineCores, "a rate needs an earlier sample")
	}
	for _, from := range cpuSources {
		now, ok := s.Task.Number(from)
		before, had := previous.Task.Number(from)
		if !ok || !had {
			continue
		}
		grown, seconds := now-before, (s.readAt(from).Mono - previous.readAt(from).Mono).Seconds()
		switch {
		case seconds <= 0:
			return missing(HeadlineCores, reasonClock)
		case grown < 0:
			return missing(HeadlineCores, reasonRestarted)
		}
		return taken(HeadlineCores, grown/seconds, from)
	}
	return missing(HeadlineCores, whyNone(s, cpuSources[:]))
}

// coresAverage is the CPU time over the wall time of the run.
func coresAverage(s *Sample, elapsed time.Duration) HeadlineValue {
	cpu := first(s, HeadlineCoresAverage, cpuSources[:])
	value, ok := cpu.Reading.Number()
	switch {
	case !ok:
		return cpu
	case elapsed <= 0:
		return missing(HeadlineCoresAverage, "the wall time of the run is not known")
	}
	cpu.Reading = NumberReading(HeadlineCoresAverage, value/elapsed.Seconds())
	return cpu
}

// memory is what the kernel cannot take back from the cgroup, else the processes' own memory.
func memory(s *Sample) HeadlineValue {
	current, ok := s.Task.Number(CgroupMemoryCurrent)
	active, okActive := s.Task.Number(CgroupMemoryActiveFile)
	inactive, okInactive := s.Task.Number(CgroupMemoryInactiveFile)
	if !ok || !okActive || !okInactive {
		v := first(s, HeadlineMemory, memorySources[:])
		if !v.Reading.Present() {
			v = missing(HeadlineMemory, whyNone(s, memoryNeeds[:]))
		}
		return v
	}
	slab, okSlab := s.Task.Number(CgroupMemorySlabReclaimable)
	// memory.stat is gathered per CPU and lags behind memory.current, so the difference can fall below 0.
	v := taken(HeadlineMemory, max(0, current-active-inactive-slab), CgroupMemoryCurrent)
	if !okSlab {
		// cgroup v1 has no such key: reclaimable slab stays in the value.
		v.Guarantee = UpperBound
	}
	return v
}

// memoryPeak is the kernel's own record, else the largest of the caller's samples, else the largest process.
func memoryPeak(s *Sample, sampled Reading) HeadlineValue {
	if value, ok := s.Task.Number(CgroupMemoryPeak); ok {
		return taken(HeadlineMemoryPeak, value, CgroupMemoryPeak)
	}
	if value, ok := sampled.Number(); ok && row(sampled.id) != nil {
		v := taken(HeadlineMemoryPeak, value, sampled.id)
		v.Guarantee = Sampled
		return v
	}
	if value, ok := s.Task.Number(RusageMaxRSS); ok {
		return taken(HeadlineMemoryPeak, value, RusageMaxRSS)
	}
	return missing(HeadlineMemoryPeak, whyNone(s, peakSources[:]))
}

// readAt is the stamp of a measurement's source, or of the sample where the source left none.
func (s *Sample) readAt(id ID) Stamp {
	if stamp, ok := s.ReadAt(id); ok {
		return stamp
	}
	return s.Stamp
}
