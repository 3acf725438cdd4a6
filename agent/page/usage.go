// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"math"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// memory is a task's memory against its limit.
type memory struct {
	Needed, Charged, Cache, Peak, Limit number
	// Bar is nil where there is nothing to compare.
	Bar *bar
	// Share is the charged part of the limit in words.
	Share string
	Class string
}

// bar is a stacked bar in percent of its width.
type bar struct {
	Needed, Cache string
	// CacheX is where the cache begins, PeakX where the peak is; PeakX is empty where it is not known.
	CacheX, PeakX string
	Label         string
	Limited       bool
}

// memoryOf splits what is charged to a task into what it needs and what the kernel can take back.
func memoryOf(t task) memory {
	list, sample := t.usage.Headlines, t.usage.Sample
	m := memory{
		Needed:  headline(list, procstats.HeadlineMemory, procstats.Bytes.Text),
		Charged: headline(list, procstats.HeadlineMemoryCharged, procstats.Bytes.Text),
		Peak:    headline(list, procstats.HeadlineMemoryPeak, procstats.Bytes.Text),
		Cache:   absent("memory_charged_bytes", "only a memory cgroup tells page cache apart"),
		Limit:   absent("cgroup_memory_max_bytes", "no limit was read"),
	}
	needed, okNeeded := headlineValue(list, procstats.HeadlineMemory)
	charged, okCharged := headlineValue(list, procstats.HeadlineMemoryCharged)
	peak, okPeak := headlineValue(list, procstats.HeadlineMemoryPeak)
	if okNeeded && okCharged {
		m.Cache = numberOf("memory_charged_bytes", procstats.Bytes.Text(max(0, charged-needed)),
			"memory_charged_bytes − memory_bytes", procstats.Exact, time.Time{})
	}
	limit, limited := sample.Task.Number(procstats.CgroupMemoryMax)
	if r, found := sample.Task.Get(procstats.CgroupMemoryMax); found {
		m.Limit = reading(sample, r)
	}
	used, ok := charged, okCharged
	if !ok {
		used, ok = needed, okNeeded
	}
	if !ok {
		return m
	}
	scale := limit
	if !limited {
		scale = max(used, peak) * 1.05
	}
	if scale <= 0 {
		return m
	}
	m.Bar = &bar{
		Needed: percent(min(needed, used) / scale), CacheX: percent(min(needed, used) / scale),
		Cache: percent(max(0, used-needed) / scale), Limited: limited,
	}
	if okPeak {
		m.Bar.PeakX = percent(min(peak, scale) / scale)
	}
	m.Bar.Label = "needed " + m.Needed.Text + ", page cache " + m.Cache.Text + ", peak " + m.Peak.Text
	if limited {
		m.Share = procstats.Share.Text(used / limit)
		m.Bar.Label += ", limit " + m.Limit.Text
		// Page cache is taken back at the limit; what is needed is what kills.
		if needed/limit >= 0.9 {
			m.Class = "bad"
		} else if needed/limit >= 0.75 {
			m.Class = "warn"
		}
	}
	return m
}

// percent writes a share of 1 for a bar.
func percent(share float64) string { return coordinate(100 * min(1, max(0, share))) }

// pressure is what a task waited for in the last seconds.
type pressure struct {
	// Word is empty where pressure could not be read; Hint says why then.
	Word, Class, Hint string
	Shares            []share
}

// share is one resource's part in it.
type share struct{ Name, Text, Bar, Class string }

// From these shares of the time on, a task is said to wait. They are of the last seconds and so higher than those of
// a whole run would be.
const (
	throttledFrom = 0.1
	starvedFrom   = 0.2
	thrashingFrom = 0.1
	stalledFrom   = 0.05 // memory, everybody at once
	ioBoundFrom   = 0.25
	idleBelow     = 0.005
)

// pressureOf says in a word what a task waits for.
func pressureOf(newest, before *moment) pressure {
	rate := func(q quantity) float64 { return rateSince(newest, before, q) }
	cpu, mem, io := rate(stallCPU), rate(stallMemory), rate(stallIO)
	if math.IsNaN(cpu) && math.IsNaN(mem) && math.IsNaN(io) {
		if before != nil {
			return pressure{Hint: "pressure is not read: the kernel has no pressure files for this task"}
		}
		return pressure{Hint: "pressure needs an earlier reading"}
	}
	p := pressure{Class: "good", Word: string(record.Fine), Hint: "nothing held it up in the last seconds"}
	switch {
	case mem >= thrashingFrom || rate(stallMemoryFull) >= stalledFrom:
		p = pressure{Class: "bad", Word: string(record.MemoryThrashing), Hint: "it waits for memory to be reclaimed or read back"}
	case rate(throttled) >= throttledFrom:
		p = pressure{Class: "warn", Word: string(record.CPUThrottled), Hint: "its own quota holds it back"}
	case io >= ioBoundFrom:
		p = pressure{Class: "warn", Word: string(record.IOBound), Hint: "it waits for block I/O"}
	case cpu >= starvedFrom:
		p = pressure{Class: "warn", Word: string(record.CPUStarved), Hint: "it waits for a CPU that others have"}
	case rate(cpuSeconds) < idleBelow && !(cpu >= idleBelow || mem >= idleBelow || io >= idleBelow):
		p = pressure{Class: "quiet", Word: string(record.Idle), Hint: "it neither uses nor waits"}
	}
	var told []string
	for _, s := range []struct {
		name, class string
		value       float64
	}{{"cpu", "cpu", cpu}, {"memory", "memory", mem}, {"io", "io", io}} {
		text := procstats.NoValue
		if !math.IsNaN(s.value) {
			text = procstats.Share.Text(min(1, s.value))
		}
		p.Shares = append(p.Shares, share{Name: s.name, Text: text, Bar: percent(s.value), Class: s.class})
		told = append(told, s.name+" "+text)
	}
	p.Hint += "; some of its processes waited for " + strings.Join(told, ", ") + " of the time (psi_*_some_seconds_total, exact)"
	return p
}

// spark is a small line of the CPU over the last minutes.
type spark struct {
	Lines []string
	Label string
}

func sparkOf(recent []moment, now time.Time) spark {
	f := frame{since: now.Add(-trackSpan), until: now, moments: recent}
	values := ratesOf(recent, cpuSeconds)
	_, low, high, ok := extent(values)
	if !ok {
		return spark{Label: "no CPU history"}
	}
	s := spark{Label: "CPU over 5 min, between " + procstats.CoresText(low) + " and " + procstats.CoresText(high) + " cores"}
	for _, path := range f.paths(trace{values: values}, max(high, 0.05)*1.05) {
		s.Lines = append(s.Lines, path.Path)
	}
	return s
}

// ratesOf are the rates of a counter between every two moments, NaN where there is none.
func ratesOf(moments []moment, q quantity) []float64 {
	values := make([]float64, len(moments))
	for i := range moments {
		values[i] = math.NaN()
		if i > 0 {
			values[i] = moments[i].rate(&moments[i-1], q)
		}
	}
	return values
}

// valuesOf are the values of a gauge.
func valuesOf(moments []moment, q quantity) []float64 {
	values := make([]float64, len(moments))
	for i := range moments {
		values[i] = math.NaN()
		if moments[i].gap == 0 {
			values[i] = moments[i].values[q]
		}
	}
	return values
}
