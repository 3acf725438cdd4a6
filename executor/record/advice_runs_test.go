// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"time"

	"github.com/tachograph/tacho/procstats"
)

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
	r.Commands = &Commands{LostRecords: 1, Rows: []procstats.Command{
		{PeakRSSBytes: largestMiB * mebibyte, PeakRSSGuarantee: procstats.LowerBound},
		{PeakRSSBytes: 1 << 40, PeakRSSGuarantee: procstats.UpperBound},
	}}
	return r
}

// readingFiles returns a run with a peak of 100 MiB that read files, some of it from storage, with processes that had so
// much each.
func readingFiles(storedMiB, readMiB float64, residentMiB, processes int64) *Record {
	r := runOf(100, procstats.Exact, 0)
	r.Measurements = map[string]any{
		procstats.TreeIORchar.String(): readMiB * mebibyte, procstats.ExitsPageCache.String(): 100.0 * mebibyte,
	}
	r.Headline[procstats.HeadlineIORead.String()] = HeadlineValue{Value: new(storedMiB * mebibyte)}
	r.Commands = &Commands{Rows: []procstats.Command{{Processes: processes, PeakRSSBytes: residentMiB * mebibyte}}}
	return r
}

// caching says that the kernel had so much of a run for itself at its end.
func caching(kernelMiB float64, r *Record) *Record {
	r.Measurements[procstats.ExitsKernelMemory.String()] = kernelMiB * mebibyte
	return r
}

// inTurn says that a run had what others had loaded and what was charged not at once: that it had so much of both.
func inTurn(r *Record, residentMiB int64, writtenMiB float64) *Record {
	r.Measurements[procstats.TreeIOWchar.String()] = writtenMiB * mebibyte
	r.Commands = &Commands{Rows: []procstats.Command{{Processes: 2, PeakRSSBytes: residentMiB * mebibyte / 2}}}
	return r
}

// inherited makes what the processes of a run had resident an upper bound.
func inherited(r *Record) *Record {
	r.Commands.Rows[0].PeakRSSGuarantee = procstats.UpperBound
	return r
}

// writing lets a run write to files.
func writing(r *Record, mib float64) *Record {
	r.Headline[procstats.HeadlineIOHanded.String()] = HeadlineValue{Value: new(mib * mebibyte)}
	return r
}

// seen says what the last sample saw of the process of a run, and how many page faults it had.
func seen(r *Record, residentMiB float64, faults int64) *Record {
	r.Commands.Rows[0].MinorFaults = faults
	r.Processes = &Processes{Rows: []ProcessRow{{Measurements: map[string]any{procstats.ProcessRSS.String(): residentMiB * mebibyte}}}}
	return r
}

// early says that the only process of a run was seen before it had most of what it used, with so many page faults in
// the end.
func early(r *Record, residentMiB float64, faults int64) *Record {
	r.Commands = &Commands{Rows: []procstats.Command{{Processes: 1, PeakRSSBytes: 24 * mebibyte}}}
	return seen(inherited(r), residentMiB, faults)
}

// met says that a run met a limit.
func met(r *Record) *Record {
	r.Headline[procstats.HeadlineMemoryPeak.String()] = HeadlineValue{Value: new(50.0 * mebibyte), Guarantee: procstats.Exact}
	r.Measurements[procstats.CgroupMemoryFailcnt.String()] = 7.0
	return r
}

// uncharged says how much a run had mapped of code that others had loaded.
func uncharged(r *Record, mib float64) *Record {
	r.Measurements[procstats.TreeUncharged.String()] = mib * mebibyte
	r.Measurements[procstats.TreeIOWchar.String()] = 100.0 * mebibyte
	return onlyCode(r)
}

// longer lets a run take longer than others.
func longer(r *Record) *Record {
	r.WallSeconds = new(11.1)
	return r
}

// quick lets a run last 0.9 s.
func quick(r *Record) *Record {
	r.WallSeconds = new(0.9)
	return r
}

func wall(r *Record, seconds float64) *Record {
	r.WallSeconds = &seconds
	return r
}

// waiting lets a quick run wait for memory for a fifteenth of its time.
func waiting(r *Record) *Record { return waitingFor(r, 0.06) }

func waitingFor(r *Record, seconds float64) *Record {
	r.Measurements[procstats.PSIMemorySome.String()] = seconds
	return r
}

// cached is the page cache of files that a run had at its end.
func cached(r *Record, mib float64) *Record {
	r.Measurements[procstats.ExitsPageCache.String()] = mib * mebibyte
	return r
}

// receiving lets a run read so much from the network.
func receiving(r *Record, mib float64) *Record {
	r.Headline[procstats.HeadlineNetworkReceived.String()] = HeadlineValue{Value: new(mib * mebibyte)}
	return r
}

// fast lets a run take little CPU time for what it read, on a disk that reads so much ahead.
func fast(r *Record, ahead int64) *Record {
	r.Headline[procstats.HeadlineCPU.String()] = HeadlineValue{Value: new(0.5), Guarantee: procstats.Exact}
	r.Host.ReadAheadBytes = ahead
	return r
}

// starved lets a run wait for a CPU for so many seconds.
func starved(r *Record, seconds float64) *Record {
	r.Measurements, r.Host.CPUs = map[string]any{procstats.PSICPUFull.String(): seconds, procstats.CgroupCPUUsage.String(): 5.0}, 2
	return r
}

// missed says that a process had mapped so much at least.
func missed(r *Record, mib int64) *Record {
	r.Commands.Rows[0].MappedBytes, r.Commands.Rows[0].MinorFaults = mib*mebibyte, mib*mebibyte>>14
	return r
}

// readThrough says that what a process had mapped was read from one end to the other.
func readThrough(r *Record) *Record {
	r.Commands.Rows[0].MinorFaults /= 4
	return r
}

// owning says how much of what was mapped was charged to a run.
func owning(r *Record, mib float64) *Record {
	r.Measurements[procstats.TreeChargedMapped.String()] = mib * mebibyte
	return r
}

// onlyCode says of what others had loaded that it is code.
func onlyCode(r *Record) *Record {
	r.Measurements[procstats.TreeUnchargedData.String()] = 0.0
	return r
}

func halfCode(r *Record) *Record {
	r.Measurements[procstats.TreeUnchargedData.String()] = 25.0 * mebibyte
	return r
}

// around adds what lies around what others had loaded.
func around(r *Record, mib float64) *Record {
	r.Measurements[procstats.TreeUnchargedAround.String()] = mib * mebibyte
	return r
}

// waitingForDisk lets a run wait for storage.
func waitingForDisk(r *Record, seconds float64) *Record {
	r.Measurements[procstats.PSIIOSome.String()] = seconds
	return r
}

// threads says how many threads a run had at once, on a machine of 8 CPUs.
func threads(r *Record, n float64) *Record {
	if r.Measurements == nil {
		r.Measurements = map[string]any{}
	}
	r.Measurements[procstats.CgroupPidsPeak.String()], r.Host.CPUs = n, 8
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

func timedOut(r *Record) *Record {
	r.Diagnosis.Verdict = TimedOut
	return r
}

func watched(r *Record, until string) *Record {
	r.Diagnosis.Verdict, r.Diagnosis.Reason = Watched, until
	return r
}

func lasting(r *Record, d time.Duration) *Record {
	*r.Headline[procstats.HeadlineCPU.String()].Value *= d.Seconds() / *r.WallSeconds
	r.WallSeconds = new(d.Seconds())
	return r
}
