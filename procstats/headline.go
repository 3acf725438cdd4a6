// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"cmp"
	"time"
)

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
	// Window has the samples up to this one: cpu_cores is then measured over it. It goes before Previous.
	Window *Window
	// Elapsed is the time of the run up to the sample, or to the end of its last process, for cpu_cores_average.
	Elapsed time.Duration
	// Peak is the largest reading over all samples so far of a gauge of resident memory (tree_rss_bytes,
	// smaps_pss_bytes, portable_rss_bytes), as Window.Reduce(id, Max) gives it.
	Peak Reading
}

// Orders of preference: the first that was read is taken. The table's File texts say the same in words.
//
//nolint:gochecknoglobals // constant lists
var (
	cpuSources = [...]ID{CgroupCPUUsage, TreeCPU, RusageCPU, PortableCPU}
	// smaps_pss_bytes is truer and not among them: it has a slow clock of its own, and an old reading is no reading.
	memorySources  = [...]ID{TreeRSS, PortableRSS}
	peakSources    = [...]ID{CgroupMemoryPeak, TreeRSS, PortableRSS, RusageMaxRSS}
	ioReadSources  = [...]ID{CgroupIORead, TreeIORead, CgroupBlkioRead, RusageInblock}
	ioWriteSources = [...]ID{CgroupIOWrite, TreeIOWrite, CgroupBlkioWrite, RusageOublock}
	// cgroupMemory is the cgroup's charge and, after it, what the kernel can take back of it.
	cgroupMemory = [...]ID{
		CgroupMemoryCurrent, CgroupMemoryActiveFile, CgroupMemoryInactiveFile, CgroupMemorySlabReclaimable,
	}
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
		firstRead(s, HeadlineCPU, cpuSources[:]),
		coresHeadline(s, h),
		coresAverageHeadline(s, h.Elapsed),
		memoryHeadline(s),
		firstRead(s, HeadlineMemoryCharged, cgroupMemory[:1]),
		memoryPeakHeadline(s, h.Peak),
		ioHeadline(s, HeadlineIORead, ioReadSources[:]),
		ioHeadline(s, HeadlineIOWrite, ioWriteSources[:]),
	}
}

// takenFrom is a headline's value, from a measurement whose guarantee it shares.
func takenFrom(id ID, value float64, from ID) HeadlineValue {
	m := rowOf(from)
	return HeadlineValue{ID: id, Reading: NumberReading(id, value), Source: m.Name, Guarantee: m.Guarantee}
}

func noHeadline(id ID, reason string) HeadlineValue {
	return HeadlineValue{ID: id, Reading: AbsentReading(id, reason)}
}

// firstRead takes the first measurement that was read.
func firstRead(s *Sample, id ID, sources []ID) HeadlineValue {
	for _, from := range sources {
		if value, ok := s.Task.Number(from); ok {
			return takenFrom(id, value, from)
		}
	}
	return noHeadline(id, whyNone(s, sources))
}

// ioHeadline takes the exact counter where there is one, and otherwise the largest of the lower bounds: each misses
// something else, and none counts too much.
func ioHeadline(s *Sample, id ID, sources []ID) HeadlineValue {
	best := firstRead(s, id, sources)
	if best.Guarantee == Exact {
		return best
	}
	for _, from := range sources {
		value, ok := s.Task.Number(from)
		if most, _ := best.Reading.Number(); ok && value > most {
			best = takenFrom(id, value, from)
		}
	}
	return best
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

// coresHeadline is the rate of the first CPU counter that was read more than once, over the time between its own
// reads.
func coresHeadline(s *Sample, h History) HeadlineValue {
	if h.Window == nil && h.Previous == nil {
		return noHeadline(HeadlineCores, "a rate needs an earlier sample")
	}
	reason := ""
	for _, from := range cpuSources {
		if _, ok := s.Task.Number(from); !ok {
			continue
		}
		rate := h.rate(s, from)
		if value, ok := rate.Number(); ok {
			return takenFrom(HeadlineCores, value, from)
		}
		reason = cmp.Or(reason, rate.Reason())
	}
	return noHeadline(HeadlineCores, cmp.Or(reason, whyNone(s, cpuSources[:])))
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

// coresAverageHeadline is the CPU time over the time of the run.
func coresAverageHeadline(s *Sample, elapsed time.Duration) HeadlineValue {
	cpu := firstRead(s, HeadlineCoresAverage, cpuSources[:])
	value, ok := cpu.Reading.Number()
	switch {
	case !ok:
		return cpu
	case elapsed <= 0:
		return noHeadline(HeadlineCoresAverage, "the wall time of the run is not known")
	}
	cpu.Reading = NumberReading(HeadlineCoresAverage, value/elapsed.Seconds())
	return cpu
}

// memoryHeadline is what the kernel cannot take back from the cgroup, else the processes' own memory.
func memoryHeadline(s *Sample) HeadlineValue {
	current, ok := s.Task.Number(CgroupMemoryCurrent)
	active, okActive := s.Task.Number(CgroupMemoryActiveFile)
	inactive, okInactive := s.Task.Number(CgroupMemoryInactiveFile)
	if !ok || !okActive || !okInactive {
		v := firstRead(s, HeadlineMemory, memorySources[:])
		if !v.Reading.Present() {
			v = noHeadline(HeadlineMemory, whyNone(s, memoryNeeds[:]))
		}
		return v
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

// memoryPeakHeadline is the kernel's own record, else the larger of the caller's samples and of the largest process
// that was reaped: where that is larger, the samples missed it.
func memoryPeakHeadline(s *Sample, sampled Reading) HeadlineValue {
	if value, ok := s.Task.Number(CgroupMemoryPeak); ok {
		return takenFrom(HeadlineMemoryPeak, value, CgroupMemoryPeak)
	}
	largest, reaped := s.Task.Number(RusageMaxRSS)
	if value, ok := sampled.Number(); ok && value >= largest && rowOf(sampled.id) != nil {
		v := takenFrom(HeadlineMemoryPeak, value, sampled.id)
		v.Guarantee = Sampled
		return v
	}
	if reaped {
		return takenFrom(HeadlineMemoryPeak, largest, RusageMaxRSS)
	}
	return noHeadline(HeadlineMemoryPeak, whyNone(s, peakSources[:]))
}

// readAt is the stamp of a measurement's source, or of the sample where the source left none.
func (s *Sample) readAt(id ID) Stamp {
	if stamp, ok := s.ReadAt(id); ok {
		return stamp
	}
	return s.Stamp
}
