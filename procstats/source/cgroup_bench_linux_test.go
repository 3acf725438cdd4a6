// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"testing"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// headlineIDs need four files on each version: CPU time, memory now, its peak and its parts.
func headlineIDs() []procstats.ID {
	return []procstats.ID{
		procstats.CgroupCPUUsage, procstats.CgroupMemoryCurrent, procstats.CgroupMemoryPeak,
		procstats.CgroupMemoryFile, procstats.CgroupMemoryShmem, procstats.CgroupMemoryActiveFile,
		procstats.CgroupMemoryInactiveFile, procstats.CgroupMemorySlabReclaimable,
	}
}

func benchmarkCollect(b *testing.B, s Source) {
	b.Helper()
	b.Cleanup(func() { _ = s.Close() })
	if !s.Describe().Available {
		b.Skip(s.Describe().Reason)
	}
	var sample procstats.Sample
	s.Collect(&sample)
	b.ReportAllocs()
	for b.Loop() {
		sample.Reset()
		s.Collect(&sample)
	}
}

// benchmarkLayout reads the running system's cgroups of one version.
func benchmarkLayout(b *testing.B, narrow func(procstats.Cgroup) procstats.Cgroup) {
	b.Helper()
	target := Target{FS: kernel.HostFS(), Cgroup: narrow(hostCgroup(b))}
	b.Run("four files", func(b *testing.B) {
		benchmarkCollect(b, openCgroup(target, procstats.Select(headlineIDs()...)))
	})
	b.Run("all", func(b *testing.B) {
		benchmarkCollect(b, openCgroup(target, procstats.Select(idsOf(procstats.SourceCgroup)...)))
	})
}

func BenchmarkCgroupCollectV1(b *testing.B) {
	benchmarkLayout(b, func(c procstats.Cgroup) procstats.Cgroup { return procstats.Cgroup{V1: c.V1} })
}

func BenchmarkCgroupCollectV2(b *testing.B) {
	benchmarkLayout(b, func(c procstats.Cgroup) procstats.Cgroup { return procstats.Cgroup{V2: c.V2} })
}

func BenchmarkCgroupCollectHybrid(b *testing.B) {
	benchmarkLayout(b, func(c procstats.Cgroup) procstats.Cgroup { return c })
}

// BenchmarkCgroupCollectCaptured reads captured files: the cost of everything but the kernel's.
func BenchmarkCgroupCollectCaptured(b *testing.B) {
	target := capturedTarget(b, "testdata/cgroup/v2-6.12.txtar")
	benchmarkCollect(b, openCgroup(target, procstats.Select(idsOf(procstats.SourceCgroup)...)))
}

func BenchmarkPSICollect(b *testing.B) {
	target := Target{FS: kernel.HostFS(), Cgroup: hostCgroup(b)}
	benchmarkCollect(b, openPSI(target, procstats.Select(idsOf(procstats.SourcePSI)...)))
}

// TestCgroupCollectAllocatesNothing covers values, limits that are not set, and files that do not exist.
func TestCgroupCollectAllocatesNothing(t *testing.T) {
	for _, archive := range []string{"hybrid-6.18", "v1-6.1", "v2-6.1", "v2-6.12"} {
		target := capturedTarget(t, "testdata/cgroup/"+archive+".txtar")
		for id, open := range cgroupSources() {
			s := open(target, procstats.Select(idsOf(id)...))
			var sample procstats.Sample
			s.Collect(&sample)
			allocs := testing.AllocsPerRun(20, func() {
				sample.Reset()
				s.Collect(&sample)
			})
			if allocs != 0 {
				t.Errorf("%s: %v allocates %v times in a collection, want 0", archive, id, allocs)
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	}
}
