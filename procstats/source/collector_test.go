// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// fakeSource is a Source without a kernel.
type fakeSource struct {
	description procstats.SourceDescription
	collect     func(*procstats.Sample)
	closed      error
}

func (s fakeSource) Describe() procstats.SourceDescription { return s.description }
func (s fakeSource) Collect(sample *procstats.Sample)      { s.collect(sample) }
func (s fakeSource) Close() error                          { return s.closed }

func works(id procstats.SourceID, collect func(*procstats.Sample)) fakeSource {
	return fakeSource{description: procstats.SourceDescription{ID: id, Available: true}, collect: collect}
}

func broken(id procstats.SourceID, reason string) fakeSource {
	return fakeSource{
		description: procstats.SourceDescription{ID: id, Reason: reason},
		collect:     func(*procstats.Sample) {},
	}
}

func selection(t *testing.T, expr string) procstats.Selection {
	t.Helper()
	s := testkit.Value(procstats.ParseSelection(expr))(t)
	return s
}

func TestCollectorReadsInOrderAndLeavesNoGap(t *testing.T) {
	var order []string
	reads := func(id procstats.SourceID, reading procstats.ID) fakeSource {
		return works(id, func(s *procstats.Sample) {
			order = append(order, id.String())
			s.SetNumber(reading, 1)
		})
	}
	c := NewCollector(
		selection(t, "psi_cpu_some_seconds_total,tree_cpu_seconds_total,executor_collections_total,process_cpu_seconds_total"),
		reads(procstats.SourcePSI, procstats.PSICPUSome), reads(procstats.SourceTree, procstats.TreeCPU),
	)
	var s procstats.Sample
	s.SetNumber(procstats.DiskFiles, 7) // of an earlier use
	c.Collect(&s)
	testkit.Diff(t, "order of sources", []string{"psi", "tree"}, order)
	if s.Zero() {
		t.Error("the sample has no stamp")
	}
	var got []string
	for _, r := range s.Task {
		m, _ := procstats.Lookup(r.ID())
		got = append(got, strings.TrimSpace(m.Name+" "+r.Reason()))
	}
	want := []string{"psi_cpu_some_seconds_total", "tree_cpu_seconds_total", "executor_collections_total nothing reads it here"}
	testkit.Diff(t, "readings", want, got)
}

func TestCollectorIntoAReusedSampleAllocatesNothing(t *testing.T) {
	c := NewCollector(procstats.DefaultSelection(), works(procstats.SourceTree, func(s *procstats.Sample) {
		s.SetNumber(procstats.TreeCPU, 1)
		for pid := range 100 {
			row := s.AddProcess(procstats.ProcessID{PID: pid, Start: 1})
			row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, 1))
			row.Readings.Put(procstats.TextReading(procstats.ProcessState, "S"))
		}
	}))
	var s procstats.Sample
	c.Collect(&s)
	if n := testing.AllocsPerRun(100, func() { c.Collect(&s) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestUnavailable(t *testing.T) {
	sel := selection(t, "cgroup,psi_cpu_some_seconds_total,process_rss_bytes,process_shared_bytes,process_io_rchar_bytes_total,"+
		"smaps_pss_bytes,rusage_maxrss_bytes,disk,executor_collections_total")
	c := NewCollector(sel,
		works(procstats.SourceCgroup, func(s *procstats.Sample) {
			for _, id := range sel.IDs() {
				if m, _ := procstats.Lookup(id); m.Source == procstats.SourceCgroup {
					s.SetNumber(id, 1)
				}
			}
			s.SetAbsent(procstats.CgroupMemoryMax, procstats.ReasonNoLimit)
			s.SetAbsent(procstats.CgroupMemoryPeak, "no memory.peak before Linux 5.19")
		}),
		fakeSource{
			description: procstats.SourceDescription{ID: procstats.SourcePSI, Reason: "no pressure"},
			collect:     func(s *procstats.Sample) { s.SetAbsent(procstats.PSICPUSome, "no pressure") },
		},
		works(procstats.SourceTree, func(s *procstats.Sample) {
			for _, first := range []bool{true, false} {
				row := s.AddProcess(procstats.ProcessID{PID: 1})
				row.Readings.Put(procstats.AbsentReading(procstats.ProcessShared, "gone"))
				row.Readings.Put(procstats.NumberReading(procstats.ProcessRSS, 1))
				if first {
					row.Readings.Put(procstats.AbsentReading(procstats.ProcessRSS, "gone"))
				}
			}
		}),
		works(procstats.SourceSmaps, func(s *procstats.Sample) { s.SetAbsent(procstats.SmapsPSS, "not read yet") }),
		broken(procstats.SourceRusage, "no reaper"),
		broken(procstats.SourceIO, "not permitted"),
		works(procstats.SourceDisk, func(*procstats.Sample) {}),
	)
	got := map[string]string{}
	for _, r := range c.Unavailable(sel.Union(procstats.Select(procstats.TreeRSS))) {
		m, _ := procstats.Lookup(r.ID())
		got[m.Name] = r.Reason()
	}
	want := map[string]string{
		"cgroup_memory_peak_bytes":     "no memory.peak before Linux 5.19",
		"psi_cpu_some_seconds_total":   "no pressure",
		"tree_rss_bytes":               "not selected",
		"process_shared_bytes":         "gone",
		"rusage_maxrss_bytes":          "no reaper",
		"process_io_rchar_bytes_total": "not permitted",
		"executor_collections_total":   "nothing reads it here",
	}
	testkit.Diff(t, "unavailable", want, got)
	if d := c.Describe(); len(d) != 7 || d[1].Reason != "no pressure" {
		t.Errorf("descriptions %v", d)
	}
}

func TestCollectorCloseTellsEveryError(t *testing.T) {
	first, second := errors.New("close a"), errors.New("close b")
	c := NewCollector(procstats.Selection{}, fakeSource{closed: first}, fakeSource{}, fakeSource{closed: second})
	if err := c.Close(); !errors.Is(err, first) || !errors.Is(err, second) {
		t.Errorf("Close: %v, want both errors", err)
	}
}

// TestOpen reads this very process: every selected measurement of the task has a value or a reason.
func TestOpen(t *testing.T) {
	target := Target{FS: kernel.HostFS(), Roots: func() []int { return []int{os.Getpid()} }, Dir: t.TempDir()}
	sel := procstats.AllSelection()
	c := Open(target, sel, works(procstats.SourceExecutor, func(s *procstats.Sample) {
		s.SetNumber(procstats.ExecutorCollections, 1)
	}))
	closing(t, c)
	if c.Selection() != sel || c.LostChildren() {
		t.Error("another selection, or children lost before any were")
	}
	var s procstats.Sample
	c.Collect(&s)
	for _, id := range sel.IDs() {
		m, _ := procstats.Lookup(id)
		if m.Scope != procstats.TaskScope {
			continue
		}
		r, found := s.Task.Get(id)
		if !found || (!r.Present() && r.Reason() == "") {
			t.Errorf("%s has neither a value nor a reason", m.Name)
		}
	}
	if v, ok := s.Task.Number(procstats.ExecutorCollections); !ok || v != 1 {
		t.Errorf("the added source was not read: %v, %v", v, ok)
	}
}
