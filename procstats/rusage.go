// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// rusage hands on what the executor's wait4(2) calls summed up. Nothing is read: the kernel gave it at each reap.
type rusage struct {
	reaped func() Reaped
	sel    Selection
}

// OpenRusage returns the source of the resource usage of reaped children.
func OpenRusage(t Target, sel Selection) Source { return &rusage{reaped: t.Reaped, sel: sel} }

// Describe implements Source.
func (r *rusage) Describe() Description {
	if r.reaped == nil {
		return Description{ID: SourceRusage, Reason: "nobody waits for the task's processes here"}
	}
	return Description{ID: SourceRusage, Available: true}
}

// Collect implements Source.
func (r *rusage) Collect(s *Sample) {
	if r.reaped == nil {
		for id := RusageCPU; id <= RusageOublock; id++ {
			if r.sel.Has(id) {
				s.SetAbsent(id, r.Describe().Reason)
			}
		}
		return
	}
	s.Sources[SourceRusage] = Now()
	sum := r.reaped()
	for id := RusageCPU; id <= RusageOublock; id++ {
		if !r.sel.Has(id) {
			continue
		}
		if sum.Processes == 0 {
			s.SetAbsent(id, "no process of the task was reaped yet")
			continue
		}
		s.SetNumber(id, rusageValue(&sum, id))
	}
}

func rusageValue(sum *Reaped, id ID) float64 {
	switch id {
	case RusageCPU:
		return sum.CPU.Seconds()
	case RusageMaxRSS:
		return float64(sum.MaxRSS)
	case RusageMinflt:
		return float64(sum.Minflt)
	case RusageMajflt:
		return float64(sum.Majflt)
	case RusageNvcsw:
		return float64(sum.Nvcsw)
	case RusageNivcsw:
		return float64(sum.Nivcsw)
	case RusageInblock:
		return float64(sum.Inblock)
	}
	return float64(sum.Oublock)
}

// Close implements Source.
func (r *rusage) Close() error { return nil }
