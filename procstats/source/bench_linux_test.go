// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	gopsutil "github.com/shirou/gopsutil/v4/process"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// sampler takes samples in a benchmark under a name.
type sampler struct {
	name   string
	sample func()
}

// takeTurns lets samplers take a few samples each in turn, and reports the median of each and how many times as long as
// the first the others take: on a machine that others use too, only figures of one moment can be compared. Each pays
// for its own garbage only.
func takeTurns(b *testing.B, samplers ...sampler) {
	b.Helper()
	took := make([][]time.Duration, len(samplers))
	for b.Loop() {
		for i, s := range samplers {
			runtime.GC()
			for range 10 {
				began := time.Now()
				s.sample()
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	for i, s := range samplers {
		slices.Sort(took[i])
		median := func(i int) float64 { return float64(took[i][len(took[i])/2]) }
		b.ReportMetric(median(i), s.name+"-ns")
		if i > 0 {
			b.ReportMetric(median(i)/median(0), s.name+"/"+samplers[0].name)
		}
	}
}

const benchProcesses = 100

// BenchmarkSample100 reads CPU time and resident memory of each of 100 processes, through this package and as monitors
// do it with the two libraries that most of them use.
func BenchmarkSample100(b *testing.B) {
	pids := sleepers(b, benchProcesses)
	cgroup := makeCgroup(b, true)
	enter(b, cgroup.Procs(), pids...)
	inCgroup, children := Target{FS: kernel.HostFS(), Cgroup: cgroup, Parent: os.Getpid()}, rootsOf(pids...)
	takeTurns(b,
		sampler{"tacho", treeSampler(b, inCgroup, procstats.ProcessCPU, procstats.ProcessRSS)},
		sampler{"procfs", procfsSampler(b, pids)},
		sampler{"gopsutil", gopsutilSampler(b, pids)},
		sampler{"children", treeSampler(b, children, procstats.ProcessCPU, procstats.ProcessRSS)},
		sampler{"default", treeSampler(b, children, procstats.DefaultSelection().IDs()...)},
	)
}

// treeSampler finds the processes itself; the libraries are given their PIDs.
func treeSampler(b *testing.B, t Target, ids ...procstats.ID) func() {
	b.Helper()
	tree := openTree(t, procstats.Select(ids...), nil)
	closing(b, tree)
	var s procstats.Sample
	if collect(&s, tree); len(s.Processes) != benchProcesses {
		b.Errorf("%d rows, want %d", len(s.Processes), benchProcesses)
	}
	return func() { collect(&s, tree) }
}

func procfsSampler(b *testing.B, pids []int) func() {
	b.Helper()
	fs := testkit.Value(procfs.NewDefaultFS())(b)
	return func() {
		for _, pid := range pids {
			p := testkit.Value(fs.Proc(pid))(b)
			stat := testkit.Value(p.Stat())(b)
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
			_, err = p.MemoryInfo()
			must(b, err)
			_, err = p.Times()
			must(b, err)
		}
	}
}

// BenchmarkTotals reads the totals of a task from its cgroup, with few processes in it and with many: the cost is the
// same, because no process is looked at. With rows it would not be.
func BenchmarkTotals(b *testing.B) {
	rows := procstats.Select(procstats.CgroupCPUUsage, procstats.ProcessCPU, procstats.ProcessRSS)
	small, large := crowd(b, 10), crowd(b, 5000)
	takeTurns(b, totalsSampler(b, "10", small, totals()), totalsSampler(b, "5000", large, totals()),
		totalsSampler(b, "10-with-rows", small, rows), totalsSampler(b, "5000-with-rows", large, rows))
}

func totals() procstats.Selection {
	return procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == procstats.SourceCgroup || m.Source == procstats.SourcePSI
	})
}

func totalsSampler(b *testing.B, name string, cgroup procstats.Cgroup, sel procstats.Selection) sampler {
	b.Helper()
	c := Open(Target{FS: kernel.HostFS(), Cgroup: cgroup}, sel)
	closing(b, c)
	s := new(procstats.Sample)
	c.Collect(s)
	mustNumber(b, s, procstats.CgroupCPUUsage)
	return sampler{name, func() { c.Collect(s) }}
}

// crowd makes a task of n processes in cgroups of its own: a shell and its subshells, which cost next to nothing,
// wait for a pipe and end with it.
func crowd(b *testing.B, n int) procstats.Cgroup {
	b.Helper()
	cgroup := makeCgroups(b)
	held, hold, err := os.Pipe()
	must(b, err)
	cmd := exec.Command("sh", "-c", fmt.Sprintf(
		"read go <&3; i=1; while [ $i -lt %d ]; do { read x <&3; } & i=$((i+1)); done; echo ready; wait", n))
	cmd.ExtraFiles = []*os.File{held}
	output := testkit.Value(cmd.StdoutPipe())(b)
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = hold.Close()
		noError(b, cmd.Wait())
	})
	for _, dir := range cgroupDirs(cgroup) {
		enter(b, dir, cmd.Process.Pid)
	}
	if _, err := fmt.Fprintln(hold, "go"); err != nil {
		b.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		b.Fatal(line, err)
	}
	must(b, held.Close())
	return cgroup
}

// BenchmarkProcesses reads the default selection of sleeping tasks of different sizes. A process costs the same in all.
func BenchmarkProcesses(b *testing.B) {
	var samplers []sampler
	for _, n := range []int{100, 1000, 5000} {
		t := Target{FS: kernel.HostFS(), Cgroup: crowd(b, n), Parent: os.Getpid(), MaxRows: 5000}
		sel := procstats.DefaultSelection()
		m := newMembership(t)
		tree, io := openTree(t, sel, m), openIO(t, sel, m)
		closing(b, tree)
		closing(b, io)
		s := new(procstats.Sample)
		if collect(s, tree, io); len(s.Processes) != n {
			b.Errorf("%d rows, want %d", len(s.Processes), n)
		}
		samplers = append(samplers, sampler{strconv.Itoa(n), func() { collect(s, tree, io) }})
	}
	takeTurns(b, samplers...)
}

// BenchmarkThreads reads the default selection of one process with 2,000 threads that sleep.
func BenchmarkThreads(b *testing.B) {
	const script = `import sys, threading
threading.stack_size(65536)
ended = threading.Event()
for i in range(1999): threading.Thread(target=ended.wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()`
	python, err := exec.LookPath("python3")
	if err != nil {
		b.Skip("there is no python3 to make threads with")
	}
	cmd := exec.Command(python, "-S", "-c", script)
	input, output := testkit.Value(cmd.StdinPipe())(b), testkit.Value(cmd.StdoutPipe())(b)
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = input.Close()
		noError(b, cmd.Wait())
	})
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		b.Fatal(line, err)
	}
	cgroup := makeCgroups(b)
	for _, dir := range cgroupDirs(cgroup) {
		enter(b, dir, cmd.Process.Pid)
	}
	takeTurns(b, totalsSampler(b, "2000", cgroup, procstats.DefaultSelection()))
}
