// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

// memory is a task's memory against its limit.
type memory struct {
	Needed, Charged, Cache, Peak, Limit number
	// Bar is nil if there is nothing to compare.
	Bar *bar
	// Share is the needed part of the limit in words.
	Share string
	Class string
}

// bar is a stacked bar in percent of its width.
type bar struct {
	Needed, Cache string
	// CacheX is where the cache begins, PeakX where the peak is; PeakX is empty if it is not known.
	CacheX, PeakX string
	Label         string
	Limited       bool
}

// The parts of its limit from which a task's need is in trouble, and on the way to it.
const nearLimit, towardsLimit = 0.9, 0.75

// memoryOf splits what is charged to a task into what it needs and what the kernel can take back.
func memoryOf(t task) memory {
	list, sample := t.usage.Headlines, t.usage.Sample
	m := memory{
		Needed:  headline(list, procstats.HeadlineMemory, procstats.Bytes.Text),
		Charged: headline(list, procstats.HeadlineMemoryCharged, procstats.Bytes.Text),
		Peak:    headline(list, procstats.HeadlineMemoryPeak, procstats.Bytes.Text),
		Cache:   absent("memory_charged_bytes", "only a memory cgroup counts page cache separately"),
		Limit:   absent("cgroup_memory_max_bytes", "no limit was read"),
	}
	needed, okNeeded := figures.HeadlineNumber(list, procstats.HeadlineMemory)
	charged, okCharged := figures.HeadlineNumber(list, procstats.HeadlineMemoryCharged)
	peak, okPeak := figures.HeadlineNumber(list, procstats.HeadlineMemoryPeak)
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
		m.Share = procstats.Share.Text(needed / limit)
		m.Bar.Label += ", limit " + m.Limit.Text
		// Page cache is taken back at the limit; what is needed is what kills.
		if needed/limit >= nearLimit {
			m.Class = "bad"
		} else if needed/limit >= towardsLimit {
			m.Class = "warn"
		}
	}
	return m
}

// percent writes a share of 1 for a bar.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(1000*min(1, max(0, share)))/10, 'f', -1, 64)
}

// pressure is what a task waited for in the last seconds.
type pressure struct {
	// Word is empty if pressure could not be read; Hint says why then.
	Word, Class, Hint string
	// Most is the largest share, if the task is held up.
	Most   string
	Shares []share
}

// share is one resource's part in it.
type share struct{ Name, Text, Bar, Class string }

// pressureSince says what a task waited for until its newest moment, from one that is old enough, else the oldest.
func pressureSince(moments []moment, newest *moment) pressure {
	from, _ := since(moments, newest, pressureSpan-time.Second)
	return pressureOf(newest, from)
}

// pressureOf says in a word what a task waited for between two moments.
func pressureOf(newest, before *moment) pressure {
	w := newest.Waits(before)
	if w.CPUSome == nil && w.MemorySome == nil && w.IOSome == nil {
		if before != nil {
			return pressure{Hint: "pressure is not read: the kernel has no pressure files for this task"}
		}
		return pressure{Hint: "pressure needs an earlier reading"}
	}
	stall := record.StallOf(w)
	p := pressures[stall]
	p.Word = string(stall)
	if p.Word == string(record.CPUThrottled) && w.ThrottledAbove() {
		p.Hint = "throttled by the CPU quota of a cgroup above its own"
	}
	label := string(procstats.Exact)
	if w.Left != nil && *w.Left > 0 {
		label = "without those that run outside its cgroup"
	}
	var shares []string
	most := 0.0
	for _, s := range []struct {
		name  string
		value *float64
	}{{"cpu", w.CPUSome}, {"memory", w.MemorySome}, {"io", w.IOSome}} {
		shown := share{Name: s.name, Text: procstats.NoValue, Class: s.name}
		if s.value != nil {
			shown.Text, shown.Bar = procstats.Share.Text(min(1, *s.value)), percent(*s.value)
			if *s.value > most && (p.Class == "warn" || p.Class == "bad") {
				most, p.Most = *s.value, shown.Text
			}
		}
		p.Shares = append(p.Shares, shown)
		shares = append(shares, s.name+" "+shown.Text)
	}
	p.Hint += "; some of its processes waited for " + strings.Join(shares, ", ") +
		" of the time (psi_*_some_seconds_total, " + label + ")"
	return p
}

// pressureSpan is the time that the word for a task's pressure is about: over shorter ones it would flicker.
const pressureSpan = 10 * time.Second

// pressures are the words for what a task waits for, with the class of their colour and a sentence.
//
//nolint:gochecknoglobals // a constant table
var pressures = map[record.Stall]pressure{
	record.MemoryThrashing: {Class: "bad", Hint: "it waits for memory to be reclaimed or read back"},
	record.CPUThrottled:    {Class: "warn", Hint: "throttled by its own quota"},
	record.IOBound:         {Class: "warn", Hint: "it waits for block I/O"},
	record.CPUStarved:      {Class: "warn", Hint: "it waits for a CPU that others use"},
	record.Idle:            {Class: "quiet", Hint: "it neither uses nor waits"},
	record.Fine:            {Class: "good", Hint: "nothing held it up in the last seconds"},
	"":                     {Class: "quiet", Hint: "pressure is not known of all its processes and resources"},
}
