// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func fromCgroup(l line) bool { return strings.HasPrefix(l.source, "cgroup_") }

// spikePeak holds the peak against what was touched, and against the meter's own peak to the page.
func spikePeak(t *testing.T, r run) {
	l := headline(r.record, "memory_peak_bytes", procstats.Bytes)
	l.true = float64(*r.truth.Memory.Spike)
	switch {
	case math.IsNaN(l.reported):
		l.fault = "not measured: " + r.record.Headline[l.what].Reason
	case !fromCgroup(l):
		l.bound = "labelled, never exact"
		if l.guarantee == procstats.Exact || l.guarantee == "" {
			l.fault = "called exact without a cgroup"
		}
		if l.guarantee == procstats.LowerBound && l.reported > l.true+memorySlack {
			l.fault = "more than there was"
		}
	case l.guarantee != procstats.Exact:
		l.fault = "from the cgroup and not called exact"
	default:
		l.bound = "at least the touched bytes"
		if l.reported < l.true || l.reported > l.true+memorySlack {
			l.fault = "not the peak"
		}
	}
	if r.mode.Placement == rig.Below && r.meter.HasPeak() && !fromCgroup(l) {
		l.fault = "not taken from the cgroup: " + strings.Join(r.record.Notes, " ")
	}
	l.hold(t)
	if !fromCgroup(l) || r.mode.Placement != rig.Below || r.truth.Memory.MeterOffset == nil {
		return
	}
	peak := testkit.Value(r.meter.MemoryPeak())(t)
	// The meter's group also holds what the kernel charged ahead for those who started the run: a batch of 64 pages
	// per CPU (MEMCG_CHARGE_BATCH).
	chargedAhead := float64(runtime.NumCPU() * 64 * os.Getpagesize())
	l.what, l.bound, l.fault = "memory_peak_bytes (meter)", "a batch per CPU", ""
	l.true = float64(peak - *r.truth.Memory.MeterOffset)
	if l.reported > l.true+pageSlack || l.reported < l.true-chargedAhead {
		l.fault = "not the meter's peak"
	}
	l.hold(t)
}

// sharedOnce checks that a mapping of many processes is counted once, or the sum labelled as too large. The
// headline is of the last sample, which may be one of the workload's end; the largest sample is not.
func sharedOnce(t *testing.T, r run) {
	l := headline(r.record, "memory_bytes", procstats.Bytes)
	r.holdShared(t, l, 0)
	l.what, l.reported = "memory_bytes, at most", math.NaN()
	if peak := r.record.Peak; peak != nil {
		row, _ := procstats.LookupName(peak.Measurement)
		l.reported, l.source, l.guarantee = peak.MemoryBytes, peak.Measurement, row.Guarantee
	}
	least := float64(*r.truth.Memory.Shared)
	if l.guarantee == procstats.LowerBound { // smaps is read on a slow clock: the newest reading may be of the beginning
		least = 0
	}
	r.holdShared(t, l, least)

	rss := measurement(r.record, "tree_rss_bytes")
	rss.true, rss.bound = float64(*r.truth.Memory.Shared)*9+float64(*r.truth.Memory.Anon), "labelled upper_bound"
	if math.IsNaN(rss.reported) {
		rss.fault = "not measured"
	}
	if rss.guarantee != procstats.UpperBound {
		rss.fault = "not labelled upper_bound"
	}
	rss.hold(t)
}

// holdShared holds a number of bytes against the one mapping and what nine processes have beside it.
func (r run) holdShared(t *testing.T, l line, least float64) {
	t.Helper()
	l.true = float64(*r.truth.Memory.Shared + *r.truth.Memory.Anon)
	switch {
	case math.IsNaN(l.reported):
		l.fault = "not measured: " + r.record.Headline["memory_bytes"].Reason
	case l.guarantee == procstats.UpperBound && !fromCgroup(l):
		l.bound = "labelled upper_bound"
		if l.reported < least {
			l.fault = "an upper bound below the truth"
		}
	default:
		// Text and kernel memory of nine processes come on top.
		l.bound = "counted once"
		if l.reported < least || l.reported > l.true+3*memorySlack {
			l.fault = "not counted once"
		}
	}
	if r.mode.Placement == rig.Below && r.meter.HasMemory() && !fromCgroup(l) {
		l.fault = "not taken from the cgroup: " + strings.Join(r.record.Notes, " ")
	}
	l.hold(t)
}

// cacheApart checks that a flood of page cache is charged and not needed.
func cacheApart(t *testing.T, r run) {
	need := headline(r.record, "memory_bytes", procstats.Bytes)
	if peak := r.record.Peak; peak != nil && peak.Measurement == need.source && need.source == procstats.TreeMemory.String() {
		// The headline is of the last sample, which can catch the workload on its way out, its memory given back.
		need.reported = max(need.reported, peak.MemoryBytes)
	}
	need.true, need.bound = float64(*r.truth.Memory.Anon), "without the cache"
	switch {
	case math.IsNaN(need.reported):
		need.fault = "not measured: " + r.record.Headline[need.what].Reason
	case need.reported < need.true-memorySlack/4 || need.reported > need.true+memorySlack:
		need.fault = "not what the workload needs"
	}
	need.hold(t)
	charged := headline(r.record, "memory_charged_bytes", procstats.Bytes)
	if math.IsNaN(charged.reported) {
		if r.mode.Placement == rig.Below && r.meter.HasMemory() {
			charged.fault = "not measured: " + r.record.Headline[charged.what].Reason
			charged.hold(t)
		}
		return
	}
	charged.true, charged.bound = float64(*r.truth.Memory.Anon+*r.truth.Memory.Cached), "with the cache"
	if charged.reported < float64(*r.truth.Memory.Cached) || charged.reported > charged.true+memorySlack {
		charged.fault = "not what is charged"
	}
	charged.hold(t)
}

// measureLauncher has tacho started by a process that holds 400 MiB, and checks that /bin/true is not held
// to have used them.
func measureLauncher(t *testing.T, m rig.Mode) {
	if _, err := os.Stat("/bin/true"); err != nil {
		t.Skipf("this system is too small for it: %v", err)
	}
	s := subject{name: "/bin/true, 400 MiB launcher", launcher: []string{rig.Workload(), "launch", "-hold", "419430400", "--"}}
	r := run{mode: m, subject: s, place: rig.NewPlace(t, m.User)}
	flags, meter := m.Place(t)
	r.finish(t, append(flags, "--", "/bin/true"))
	l := headline(r.record, "memory_peak_bytes", procstats.Bytes)
	switch {
	case m.Placement == rig.Below && meter.HasPeak() && !fromCgroup(l):
		l.fault = "not taken from the cgroup: " + strings.Join(r.record.Notes, " ")
	case fromCgroup(l):
		l.bound = "1 MiB"
		if l.reported > mib {
			l.fault = "more than /bin/true uses"
		}
	case math.IsNaN(l.reported):
		l.bound = "labelled, never exact"
	case l.reported == 0:
		l.bound, l.fault = "labelled, never exact", "0 for what was not measured"
	default:
		l.bound = "labelled, never exact"
		if l.guarantee == procstats.Exact || l.guarantee == "" {
			l.fault = "called exact without a cgroup"
		}
	}
	l.hold(t)
}
