// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	gopsutil "github.com/shirou/gopsutil/v4/process"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// The benchmarks of one sample: CPU time and resident memory of each of 100 processes, through this package and as
// monitors do it with the two libraries that most of them use.
const benchProcesses = 100

func BenchmarkSample100(b *testing.B) {
	b.Run("tacho_cgroup_v2", func(b *testing.B) {
		run(b, treeSampler(b, cgroupOf(b, true), procstats.ProcessCPU, procstats.ProcessRSS))
	})
	b.Run("tacho_cgroup_v1", func(b *testing.B) {
		run(b, treeSampler(b, cgroupOf(b, false), procstats.ProcessCPU, procstats.ProcessRSS))
	})
	b.Run("tacho_children", func(b *testing.B) {
		run(b, treeSampler(b, rootsOf(sleepers(b, benchProcesses)...), procstats.ProcessCPU, procstats.ProcessRSS))
	})
	b.Run("tacho_default", func(b *testing.B) {
		run(b, treeSampler(b, rootsOf(sleepers(b, benchProcesses)...), procstats.DefaultSelection().IDs()...))
	})
	b.Run("procfs", func(b *testing.B) { run(b, procfsSampler(b, sleepers(b, benchProcesses))) })
	b.Run("gopsutil", func(b *testing.B) { run(b, gopsutilSampler(b, sleepers(b, benchProcesses))) })
}

// BenchmarkBesideLibraries takes turns of a few samples with each of the three, on the same processes, and reports
// the median of each and how many times as long the others take: on a machine that others use too, only figures of
// one moment can be compared. Each pays for its own garbage only.
func BenchmarkBesideLibraries(b *testing.B) {
	target := cgroupOf(b, true)
	pids := readPIDs(b, target.Cgroup.V2)
	samplers := []func(){
		treeSampler(b, target, procstats.ProcessCPU, procstats.ProcessRSS), procfsSampler(b, pids), gopsutilSampler(b, pids),
	}
	took := make([][]time.Duration, len(samplers))
	for b.Loop() {
		for i, sample := range samplers {
			runtime.GC()
			for range 10 {
				began := time.Now()
				sample()
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	medians := make([]float64, len(samplers))
	for i := range took {
		slices.Sort(took[i])
		medians[i] = float64(took[i][len(took[i])/2])
	}
	b.ReportMetric(medians[0], "tacho-ns")
	b.ReportMetric(medians[1], "procfs-ns")
	b.ReportMetric(medians[2], "gopsutil-ns")
	b.ReportMetric(medians[1]/medians[0], "procfs/tacho")
	b.ReportMetric(medians[2]/medians[0], "gopsutil/tacho")
}

func run(b *testing.B, sample func()) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		sample()
	}
}

// cgroupOf is a task of sleeping processes in a cgroup.
func cgroupOf(b *testing.B, v2 bool) Target {
	b.Helper()
	cgroup := makeCgroup(b, v2)
	enter(b, cgroup.Procs(), sleepers(b, benchProcesses)...)
	return Target{FS: kernel.HostFS(), Cgroup: cgroup, Parent: os.Getpid()}
}

func readPIDs(b *testing.B, dir string) []int {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	must(b, err)
	pids, _, err := kernel.AppendPIDs(nil, data)
	must(b, err)
	return pids
}

// treeSampler finds the processes itself; the libraries are given their PIDs.
func treeSampler(b *testing.B, t Target, ids ...procstats.ID) func() {
	b.Helper()
	tree := openTree(t, procstats.Select(ids...), nil)
	s := new(procstats.Sample)
	collect(s, tree)
	b.Cleanup(func() {
		if len(s.Processes) != benchProcesses {
			b.Errorf("%d rows, want %d", len(s.Processes), benchProcesses)
		}
		for _, row := range s.Processes {
			for _, r := range row.Readings {
				if !r.Present() {
					b.Errorf("process %d: %v", row.PID, r)
				}
			}
		}
		noError(b, tree.Close())
	})
	return func() { collect(s, tree) }
}

func procfsSampler(b *testing.B, pids []int) func() {
	b.Helper()
	fs, err := procfs.NewDefaultFS()
	must(b, err)
	return func() {
		for _, pid := range pids {
			p, err := fs.Proc(pid)
			must(b, err)
			stat, err := p.Stat()
			must(b, err)
			_, _ = stat.CPUTime(), stat.ResidentMemory()
		}
	}
}

// gopsutilSampler asks as Nomad's executor does, for each process of each sample.
func gopsutilSampler(b *testing.B, pids []int) func() {
	b.Helper()
	return func() {
		for _, pid := range pids {
			p, err := gopsutil.NewProcess(int32(pid))
			must(b, err)
			if _, err := p.MemoryInfo(); err != nil {
				b.Fatal(err)
			}
			if _, err := p.Times(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
