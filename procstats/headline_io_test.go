// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestWrites holds what is said of a task's writes on each kind of host against readings that kernels gave: Linux 6.12
// on version 2, 6.1 on version 1.
func TestWrites(t *testing.T) {
	const mib = 1 << 20
	// v2 is a cgroup with io and memory: charged to it, handed over by its processes, cancelled, dirty, and the lower
	// bound.
	v2 := func(charged, handed, cancelled, dirty, stored float64) *procstats.Sample {
		return sampleAt(at(2), number(procstats.CgroupIOWrite, charged), number(procstats.TreeIOWrite, handed),
			number(procstats.TreeIOCancelledWrite, cancelled), number(procstats.RusageOublock, handed),
			number(procstats.CgroupMemoryFileDirty, dirty), number(procstats.CgroupMemoryFileWriteback, 0), number(procstats.TreeIOStored, stored))
	}
	none := func(handed, cancelled, stored float64) *procstats.Sample {
		return sampleAt(at(2), absent(procstats.CgroupIOWrite, "the task has no cgroup"), number(procstats.TreeIOWrite, handed),
			number(procstats.TreeIOCancelledWrite, cancelled), number(procstats.RusageOublock, handed), number(procstats.TreeIOStored, stored))
	}
	tests := []struct {
		name   string
		sample *procstats.Sample
		want   string
		words  string
		short  string
	}{
		{"nothing", v2(0, 0, 0, 0, 0), "0 exact cgroup_io_write_bytes_total", "written 0 B", "written 0 B"},
		{
			"fsynced", v2(24*mib, 24*mib, 0, 0, 22*mib),
			"25165824 exact cgroup_io_write_bytes_total", "written 24 MiB", "written 24 MiB",
		},
		{
			"fsynced, with the file system's own blocks dirty", v2(24*mib, 24*mib, 0, 40<<10, 22*mib),
			"25165824 exact cgroup_io_write_bytes_total", "written 24 MiB", "written 24 MiB",
		},
		{
			"not fsynced", v2(0, 64*mib, 0, 64*mib, 0), "0 sampled cgroup_io_write_bytes_total",
			"64 MiB written by the task, 0 B reached storage, 64 MiB not yet written", "written 64 MiB (0 B reached storage)",
		},
		{
			"a page, not fsynced", v2(0, 4096, 0, 4096, 0), "0 sampled cgroup_io_write_bytes_total",
			"4 KiB written by the task, 0 B reached storage, 4 KiB not yet written", "written 4 KiB (0 B reached storage)",
		},
		{
			"partly written back", v2(24*mib, 64*mib, 0, 40*mib, 0), "25165824 sampled cgroup_io_write_bytes_total",
			"64 MiB written by the task, 24 MiB reached storage, 40 MiB not yet written", "written 64 MiB (24 MiB reached storage)",
		},
		{
			"deleted before it was written", v2(0, 64*mib, 64*mib, 0, 0), "0 exact cgroup_io_write_bytes_total",
			"64 MiB written by the task, 0 B reached storage, 64 MiB deleted before", "written 64 MiB (0 B reached storage)",
		},
		{
			"pages of another cgroup, fsynced", v2(0, 24*mib, 0, 0, 23*mib), "24117248 lower_bound tree_io_stored_bytes_total",
			"24 MiB written by the task, at least 23 MiB reached storage", "written 24 MiB",
		},
		{
			"pages of another cgroup, not fsynced", v2(0, 24*mib, 0, 0, 0), "0 sampled cgroup_io_write_bytes_total",
			"24 MiB written by the task, 0 B reached storage", "written 24 MiB (0 B reached storage)",
		},
		{
			"charged with what others wrote", v2(48*mib, 24*mib, 0, 0, 23*mib), "50331648 sampled cgroup_io_write_bytes_total",
			"24 MiB written by the task, 48 MiB reached storage", "written 24 MiB (48 MiB reached storage)",
		},
		{
			"only the cgroup is read", sampleAt(at(2), number(procstats.CgroupIOWrite, 5*mib)),
			"5242880 sampled cgroup_io_write_bytes_total", "written 5 MiB", "written 5 MiB",
		},
		{
			"no cgroup, fsynced", none(24*mib, 0, 23*mib), "24117248 lower_bound tree_io_stored_bytes_total",
			"24 MiB written by the task, at least 23 MiB reached storage", "written 24 MiB",
		},
		{
			"no cgroup, not fsynced", none(64*mib, 0, 0), "0 lower_bound tree_io_stored_bytes_total",
			"64 MiB written by the task", "written 64 MiB",
		},
		{
			"no cgroup, deleted", none(64*mib, 64*mib, 0), "0 lower_bound tree_io_stored_bytes_total",
			"64 MiB written by the task, 64 MiB deleted before", "written 64 MiB",
		},
		{
			"no cgroup, processes that nobody could read", sampleAt(at(2), absent(procstats.CgroupIOWrite, "the task has no cgroup"),
				absent(procstats.TreeIOStored, "1 process ended before their io could be read"), number(procstats.RusageOublock, 64*mib)),
			"absent: tree_io_stored_bytes_total: 1 process ended before their io could be read", "64 MiB written by the task", "written 64 MiB",
		},
		{"nothing is known", sampleAt(at(2)), "absent: nothing it can be taken from is selected", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			list := procstats.Headlines(test.sample, procstats.History{})
			for _, h := range list {
				if h.ID == procstats.HeadlineIOWrite && headline(h) != test.want {
					t.Errorf("got %s, want %s", headline(h), test.want)
				}
			}
			written := procstats.WrittenOf(test.sample, list)
			if what, since := written.Text(); strings.TrimSuffix(what+", "+since, ", ") != test.words {
				t.Errorf("got %q and %q, want %q", what, since, test.words)
			}
			testkit.Equal(t, written.Short(), test.short, "result")
		})
	}
}
