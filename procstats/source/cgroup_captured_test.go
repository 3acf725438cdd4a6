// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// capturedPID is the process whose /proc/PID/cgroup is in every captured tree.
const capturedPID = 4242

// unpackTree writes a captured tree below a folder of its own, to which its mount points are moved.
func unpackTree(t testing.TB, archive string) (root string) {
	t.Helper()
	parsed := testkit.Value(txtar.ParseFile(archive))(t)
	root = t.TempDir()
	for _, f := range parsed.Files {
		if f.Name == "proc/self/mountinfo" {
			f.Data = bytes.ReplaceAll(f.Data, []byte(" /sys/fs/cgroup"), []byte(" "+root+"/sys/fs/cgroup"))
		}
		writeFiles(t, root, map[string]string{f.Name: string(f.Data)})
	}
	return root
}

// capturedTarget returns the task of a captured tree, found as on a running system.
func capturedTarget(t testing.TB, archive string) Target {
	t.Helper()
	fs := kernel.FS{Proc: filepath.Join(unpackTree(t, archive), "proc")}
	c := testkit.Value(kernel.FindCgroup(fs, capturedPID))(t)
	return Target{FS: fs, Cgroup: c}
}

// cgroupSources are the two sources of this file, under their names.
func cgroupSources() map[procstats.SourceID]func(Target, procstats.Selection) *cgroupReader {
	return map[procstats.SourceID]func(Target, procstats.Selection) *cgroupReader{
		procstats.SourceCgroup: openCgroup,
		procstats.SourcePSI:    openPSI,
	}
}

// idsOf lists the measurements of a source.
func idsOf(source procstats.SourceID) (ids []procstats.ID) {
	for _, row := range procstats.Table() {
		if row.Source == source {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// collectAll opens a source with everything selected, collects once and closes it.
func collectAll(t testing.TB, source procstats.SourceID, target Target) (procstats.SourceDescription, procstats.Sample) {
	t.Helper()
	s := cgroupSources()[source](target, procstats.Select(idsOf(source)...))
	var sample procstats.Sample
	s.Collect(&sample)
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return s.Describe(), sample
}

func TestCapturedCgroups(t *testing.T) {
	archives, err := filepath.Glob("testdata/cgroup/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no captured trees: %v", err)
	}
	for _, archive := range archives {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			target := capturedTarget(t, archive)
			var out bytes.Buffer
			for _, source := range []procstats.SourceID{procstats.SourceCgroup, procstats.SourcePSI} {
				d, sample := collectAll(t, source, target)
				fmt.Fprintf(&out, "source %v %s: available %v %s\n", d.ID, d.Version, d.Available, d.Reason)
				for _, r := range sample.Task {
					row, _ := procstats.Lookup(r.ID())
					if n, ok := r.Number(); ok {
						fmt.Fprintf(&out, "%s %.12g\n", row.Name, n)
						continue
					}
					fmt.Fprintf(&out, "%s absent: %s\n", row.Name, r.Reason())
				}
			}
			golden(t, strings.TrimSuffix(archive, ".txtar")+".golden", out.Bytes())
		})
	}
}

// TestCgroupRowsAreAllAnswered holds both sources to one reading for each selected row, on every layout and on none.
func TestCgroupRowsAreAllAnswered(t *testing.T) {
	hybrid := capturedTarget(t, "testdata/cgroup/hybrid-6.18.txtar")
	shared := hybrid
	shared.Cgroup.Shared = true
	empty := t.TempDir()
	targets := map[string]Target{
		"none":         {},
		"shared":       shared,
		"hybrid":       hybrid,
		"hybrid core":  {FS: hybrid.FS, Cgroup: procstats.Cgroup{V2: hybrid.Cgroup.V2}},
		"v1 memory":    {FS: hybrid.FS, Cgroup: procstats.Cgroup{V1: map[string]string{"memory": hybrid.Cgroup.V1["memory"]}}},
		"v2":           capturedTarget(t, "testdata/cgroup/v2-6.12.txtar"),
		"v1":           capturedTarget(t, "testdata/cgroup/v1-6.1.txtar"),
		"empty folder": {FS: kernel.FS{Proc: empty}, Cgroup: procstats.Cgroup{V2: empty, V1: map[string]string{"memory": empty}}},
		"no folder":    {FS: kernel.FS{Proc: empty}, Cgroup: procstats.Cgroup{V2: empty + "/gone", V1: map[string]string{"cpuacct": empty + "/gone"}}},
	}
	available := map[string]bool{"hybrid": true, "hybrid core": true, "v1 memory": true, "v2": true, "v1": true}
	for name, target := range targets {
		for source := range cgroupSources() {
			t.Run(fmt.Sprintf("%s/%v", name, source), func(t *testing.T) {
				d, sample := collectAll(t, source, target)
				present := 0
				for _, id := range idsOf(source) {
					r, ok := sample.Task.Get(id)
					row, _ := procstats.Lookup(id)
					switch n, isPresent := r.Number(); {
					case !ok:
						t.Errorf("%s was forgotten", row.Name)
					case isPresent && n < 0:
						t.Errorf("%s is %v", row.Name, n)
					case isPresent:
						present++
					case r.Reason() == "":
						t.Errorf("%s is absent without a reason", row.Name)
					}
				}
				if len(sample.Task) != len(idsOf(source)) {
					t.Errorf("%d readings, want %d", len(sample.Task), len(idsOf(source)))
				}
				want := available[name] && (source == procstats.SourceCgroup || target.Cgroup.V2 != "")
				if d.ID != source || d.Available != want || d.Available == (d.Reason != "") {
					t.Errorf("described as %+v, want available %v", d, want)
				}
				// Of a group that others share only what throttles it is read.
				if read := want || name == "shared" && source == procstats.SourceCgroup; (present > 0) != read || sample.Sources.At(source).Zero() == read {
					t.Errorf("%d present, stamp %v, want read %v", present, sample.Sources.At(source), read)
				}
			})
		}
	}
}

func TestCgroupReadsOnlyWhatIsSelected(t *testing.T) {
	target := capturedTarget(t, "testdata/cgroup/hybrid-6.18.txtar")
	s := openCgroup(target, procstats.Select(procstats.CgroupPidsPeak, procstats.CgroupCPUUser, procstats.PSICPUSome))
	t.Cleanup(func() { _ = s.Close() })
	var sample procstats.Sample
	s.Collect(&sample)
	if len(sample.Task) != 2 {
		t.Fatalf("got %d readings, want pids.peak and user time", len(sample.Task))
	}
	if n, ok := sample.Task.Number(procstats.CgroupPidsPeak); !ok || n != 21 {
		t.Errorf("pids.peak: %v %v, want 21", n, ok)
	}
	if n, ok := sample.Task.Number(procstats.CgroupCPUUser); !ok || n <= 0 {
		t.Errorf("user time: %v %v, want some", n, ok)
	}
}

// TestCgroupFilesChange covers what a kernel file can turn into while it is kept open.
func TestCgroupFilesChange(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"memory.current": "1\n", "memory.stat": "anon 1\n", "memory.max": "max\n"})
	s := openCgroup(Target{Cgroup: procstats.Cgroup{V2: dir}}, procstats.Select(
		procstats.CgroupMemoryCurrent, procstats.CgroupMemoryAnon, procstats.CgroupMemoryKernel,
		procstats.CgroupMemoryMax, procstats.CgroupMemoryPeak, procstats.CgroupIORead))
	t.Cleanup(func() { _ = s.Close() })
	steps := []struct {
		current, stat, max string
		want               map[procstats.ID]string
	}{
		{"4096\n", "anon 8192\nkernel 5\n", "max\n", map[procstats.ID]string{
			procstats.CgroupMemoryCurrent: "4096", procstats.CgroupMemoryAnon: "8192",
			procstats.CgroupMemoryKernel: "5", procstats.CgroupMemoryMax: "no limit is set",
		}},
		{"", "anon 8192\n", "0\n", map[procstats.ID]string{
			procstats.CgroupMemoryCurrent: "memory.current is empty", procstats.CgroupMemoryAnon: "8192",
			procstats.CgroupMemoryKernel: "memory.stat has no kernel: kernels older than 5.18 do not report it",
			procstats.CgroupMemoryMax:    "0",
		}},
		{"-4096\n", "anon -1\nkernel 9223372036854775808\n", "4096", map[procstats.ID]string{
			procstats.CgroupMemoryCurrent: "memory.current: not a number in range",
			procstats.CgroupMemoryAnon:    "memory.stat: anon is not a number in range",
			procstats.CgroupMemoryKernel:  "memory.stat: kernel is not a number in range",
			procstats.CgroupMemoryMax:     "memory.max is empty", // its line is cut short
		}},
		{"7\n", "kernel 2\nanon 1\n", "8192\n", map[procstats.ID]string{
			procstats.CgroupMemoryCurrent: "7", procstats.CgroupMemoryAnon: "1",
			procstats.CgroupMemoryKernel: "2", procstats.CgroupMemoryMax: "8192",
		}},
	}
	for i, step := range steps {
		writeFiles(t, dir, map[string]string{"memory.current": step.current, "memory.stat": step.stat, "memory.max": step.max})
		step.want[procstats.CgroupMemoryPeak] = "memory.peak does not exist: kernels older than 5.19 have no memory.peak"
		step.want[procstats.CgroupIORead] = "io controller not available in this cgroup: io.stat does not exist"
		var sample procstats.Sample
		s.Collect(&sample)
		for id, want := range step.want {
			r, _ := sample.Task.Get(id)
			got := r.Reason()
			if n, ok := r.Number(); ok {
				got = fmt.Sprint(n)
			}
			if row, _ := procstats.Lookup(id); got != want {
				t.Errorf("step %d: %s is %q, want %q", i, row.Name, got, want)
			}
		}
	}
}

// TestCgroupCollectAllocatesNothing covers values, limits that are not set, and files that do not exist.
func TestCgroupCollectAllocatesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files are kept open on Linux only")
	}
	for _, archive := range []string{"hybrid-6.18", "v1-6.1", "v2-6.1", "v2-6.12"} {
		target := capturedTarget(t, "testdata/cgroup/"+archive+".txtar")
		for id, open := range cgroupSources() {
			s := open(target, procstats.Select(idsOf(id)...))
			closing(t, s)
			var sample procstats.Sample
			collect := func() {
				sample.Reset()
				s.Collect(&sample)
			}
			if allocs := testing.AllocsPerRun(20, collect); allocs != 0 {
				t.Errorf("%s: %v allocates %v times in a collection, want 0", archive, id, allocs)
			}
		}
	}
}
