// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import "github.com/tachograph/tacho/procstats"

// InheritedPeak is for a task in a group that was there before it, of which the kernel's peak could not be reset. A
// peak that rose during the run was reached in it and is exact; one that did not may be another task's, and the task's
// own is at most that. The headline is changed and the reason returned; it is empty where there is nothing to say.
func InheritedPeak(headline map[string]HeadlineValue, before, after *procstats.Sample) (reason string) {
	name := procstats.HeadlineMemoryPeak.String()
	h, given := headline[name]
	if !given || h.Value == nil || h.Source != procstats.CgroupMemoryPeak.String() || before == nil || after == nil {
		return ""
	}
	then, _ := before.Task.Number(procstats.CgroupMemoryPeak)
	now, _ := after.Task.Number(procstats.CgroupMemoryPeak)
	if now > then {
		return ""
	}
	h.Guarantee = procstats.UpperBound
	h.Reason = "the cgroup was there before the run, and its peak cannot be reset (Linux 6.12 can): the task itself used at most this"
	headline[name] = h
	return h.Reason
}
