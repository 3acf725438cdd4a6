// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// BenchmarkTotals reads the totals of a task from its cgroup, with few processes in it and with many: the cost is
// the same, because no process is looked at. BenchmarkTotalsWithRows shows what it would be.
func BenchmarkTotals(b *testing.B) {
	for _, n := range []int{10, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchCrowd(b, n, totals()) })
	}
}

func BenchmarkTotalsWithRows(b *testing.B) {
	for _, n := range []int{10, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			benchCrowd(b, n, procstats.Select(procstats.CgroupCPUUsage, procstats.ProcessCPU, procstats.ProcessRSS))
		})
	}
}

// BenchmarkTotalsBeside takes turns with a small and a large task and reports the medians and their ratio.
func BenchmarkTotalsBeside(b *testing.B) {
	var few, many []time.Duration
	small, large := collectorOf(b, 10, totals()), collectorOf(b, 5000, totals())
	var s procstats.Sample
	for b.Loop() {
		for range 10 {
			began := time.Now()
			small.Collect(&s)
			middle := time.Now()
			large.Collect(&s)
			few, many = append(few, middle.Sub(began)), append(many, time.Since(middle))
		}
	}
	slices.Sort(few)
	slices.Sort(many)
	few, many = few[len(few)/2:], many[len(many)/2:]
	b.ReportMetric(float64(few[0]), "ns-10")
	b.ReportMetric(float64(many[0]), "ns-5000")
	b.ReportMetric(float64(many[0])/float64(few[0]), "5000/10")
}

func totals() procstats.Selection {
	return procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == procstats.SourceCgroup || m.Source == procstats.SourcePSI
	})
}

func collectorOf(b *testing.B, n int, sel procstats.Selection) *Collector {
	b.Helper()
	c := Open(Target{FS: kernel.HostFS(), Cgroup: crowd(b, n)}, sel)
	closing(b, c)
	return c
}

func benchCrowd(b *testing.B, n int, sel procstats.Selection) {
	b.Helper()
	c := collectorOf(b, n, sel)
	var s procstats.Sample
	c.Collect(&s)
	b.ReportAllocs()
	for b.Loop() {
		c.Collect(&s)
	}
	if _, ok := s.Task.Number(procstats.CgroupCPUUsage); !ok {
		b.Error("the cgroup has no CPU time")
	}
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
	output, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = hold.Close()
		noError(b, cmd.Wait())
	})
	for _, dir := range cgroup.V1 {
		enter(b, dir, cmd.Process.Pid)
	}
	if cgroup.V2 != "" {
		enter(b, cgroup.V2, cmd.Process.Pid)
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
