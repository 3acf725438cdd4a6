// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// readAboveCgroup: the processes have caused more reads than their cgroup has counted. They are read a moment after it:
// 1 MiB or 1 %.
func readAboveCgroup(h *HeadlineValue, f *facts) {
	if !h.takenFrom(CgroupIORead) {
		return
	}
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
	if !ok || !h.takenFrom(CgroupIOWrite) || stored <= cgroup {
		return
	}
	h.replace(stored, TreeIOStored, stored,
		"the task changed pages that are charged to other cgroups, such as those of devices, or ran outside its cgroup")
}
