// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// workloadVariable makes a copy of the test binary a workload.
const workloadVariable = "TACHO_PROCSTATS_WORKLOAD"

// TestCgroupWorkload is no test: a copy of the test binary runs it in a cgroup. It prints the CPU time that it has
// used so far, waits for a line on stdin, burns some and holds memory, says so and waits for the end of stdin.
func TestCgroupWorkload(t *testing.T) {
	if os.Getenv(workloadVariable) == "" {
		t.Skip("it is the workload of other tests")
	}
	var usage unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	fmt.Fprintln(os.Stdout, "start", usage.Utime.Nano()+usage.Stime.Nano())
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, workloadMemory)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	sum := 0.0
	for start := time.Now(); time.Since(start) < workloadBusy; {
		sum += math.Sqrt(float64(len(memory)))
	}
	fmt.Fprintln(os.Stdout, "done", sum > 0, memory[0])
	_, _ = io.Copy(io.Discard, in)
}

const (
	workloadMemory = 32 << 20
	workloadBusy   = 300 * time.Millisecond
)

// hostCgroup makes a cgroup on every writable hierarchy of the running system, on v2 with its controllers.
func hostCgroup(t testing.TB) procstats.Cgroup {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	mounts, err := kernel.CgroupMounts(kernel.HostFS())
	must(t, err)
	var c procstats.Cgroup
	for _, mount := range mounts {
		wanted := mount.Version == 2 || slices.ContainsFunc(mount.Controllers, func(name string) bool {
			return slices.Contains([]string{"memory", "cpu", "cpuacct", "pids", "blkio"}, name)
		})
		if mount.ReadOnly || !wanted {
			continue
		}
		dir, err := os.MkdirTemp(mount.Point, "tacho-test-")
		if errors.Is(err, fs.ErrPermission) {
			continue
		}
		must(t, err)
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("remove cgroup: %v", err)
			}
		})
		if mount.Version == 2 {
			c.V2 = dir
			continue
		}
		for _, controller := range mount.Controllers {
			if c.V1 == nil {
				c.V1 = map[string]string{}
			}
			c.V1[controller] = dir
		}
	}
	if !c.Exists() {
		t.Skip("no cgroup hierarchy here can be written to")
	}
	return c
}

// cgroupDirs lists the folders of a cgroup, each once.
func cgroupDirs(c procstats.Cgroup) []string {
	var dirs []string
	for _, dir := range c.V1 {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if c.V2 != "" {
		dirs = append(dirs, c.V2)
	}
	return dirs
}

// runWorkload runs the workload in the cgroup, calls busy when it has done its work and lives, and returns the CPU time
// that it used in the cgroup, by its own account.
func runWorkload(t *testing.T, c procstats.Cgroup, busy func(pid int)) time.Duration {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCgroupWorkload$", "-test.v")
	cmd.Env = append(os.Environ(), workloadVariable+"=1")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	outside, err := time.ParseDuration(awaitLine(t, lines, "start ") + "ns")
	if err != nil {
		t.Error(err)
	}
	for _, dir := range cgroupDirs(c) {
		noError(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0))
	}
	if _, err := io.WriteString(stdin, "go\n"); err != nil {
		t.Error(err)
	}
	awaitLine(t, lines, "done ")
	busy(cmd.Process.Pid)
	_ = stdin.Close()
	_, _ = io.Copy(io.Discard, stdout)
	if err := cmd.Wait(); err != nil {
		t.Errorf("workload: %v", err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() - outside
}

// awaitLine reads up to the line with a prefix and returns what follows it.
func awaitLine(t *testing.T, lines *bufio.Scanner, prefix string) string {
	t.Helper()
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			return rest
		}
	}
	t.Errorf("the workload ended before it said %q", prefix)
	return ""
}

// TestHostCgroup compares the kernel's accounting of a cgroup with its accounting of the one process in it.
func TestHostCgroup(t *testing.T) {
	c := hostCgroup(t)
	target := Target{FS: kernel.HostFS(), Cgroup: c}
	s := openCgroup(target, procstats.Select(idsOf(procstats.SourceCgroup)...))
	t.Cleanup(func() { _ = s.Close() })
	var before, during, after procstats.Sample
	s.Collect(&before)
	used := runWorkload(t, c, func(pid int) {
		s.Collect(&during)
		found, err := kernel.FindCgroup(target.FS, pid)
		if err != nil {
			t.Error(err)
		}
		for controller, dir := range c.V1 {
			if found.V1[controller] != dir {
				t.Errorf("found %s at %q, want %q", controller, found.V1[controller], dir)
			}
		}
		if found.V2 != c.V2 {
			t.Errorf("found v2 at %q, want %q", found.V2, c.V2)
		}
	})
	s.Collect(&after)

	truth := used.Seconds()
	cpu, ok := after.Task.Number(procstats.CgroupCPUUsage)
	if tolerance := 0.02 + 0.01*truth; !ok || math.Abs(cpu-truth) > tolerance {
		t.Errorf("cgroup CPU %v (%v), rusage %v, want within %v", cpu, ok, truth, tolerance)
	}
	t.Logf("%s: CPU %.6f s, rusage %.6f s", c.Layout(), cpu, truth)
	checkHostMemory(t, during, after)
	for _, sample := range []procstats.Sample{before, during, after} {
		if sample.Sources.At(procstats.SourceCgroup).Zero() || len(sample.Task) != len(idsOf(procstats.SourceCgroup)) {
			t.Errorf("%d readings, stamp %v", len(sample.Task), sample.Sources.At(procstats.SourceCgroup))
		}
	}
}

func checkHostMemory(t *testing.T, during, after procstats.Sample) {
	t.Helper()
	current, ok := during.Task.Number(procstats.CgroupMemoryCurrent)
	if !ok {
		r, _ := during.Task.Get(procstats.CgroupMemoryCurrent)
		t.Logf("no memory accounting: %s", r.Reason())
		return
	}
	if anon, ok := during.Task.Number(procstats.CgroupMemoryAnon); !ok || anon < workloadMemory {
		t.Errorf("anonymous memory %v (%v), want at least %d", anon, ok, workloadMemory)
	}
	if peak, ok := after.Task.Number(procstats.CgroupMemoryPeak); ok && peak < current {
		t.Errorf("peak %v is below what was in use, %v", peak, current)
	}
	if left, ok := after.Task.Number(procstats.CgroupMemoryAnon); !ok || left >= workloadMemory {
		t.Errorf("anonymous memory after the end %v (%v), want it given back", left, ok)
	}
}

// TestHostCgroupRemoved removes the cgroup from under kept-open files.
func TestHostCgroupRemoved(t *testing.T) {
	t.Run("read each time", func(t *testing.T) { testHostCgroupRemoved(t, nil) })
	t.Run("settings watched", func(t *testing.T) { testHostCgroupRemoved(t, &Shared{Watches: true}) })
}

func testHostCgroupRemoved(t *testing.T, shared *Shared) {
	t.Helper()
	c := hostCgroup(t)
	target := Target{FS: kernel.HostFS(), Cgroup: c, Shared: shared}
	sources := map[procstats.SourceID]Source{}
	var before procstats.Sample
	for id, open := range cgroupSources() {
		sources[id] = open(target, procstats.Select(idsOf(id)...))
		t.Cleanup(func() { _ = sources[id].Close() })
		sources[id].Collect(&before)
	}
	for _, dir := range cgroupDirs(c) {
		must(t, os.Remove(dir))
	}
	var after, again procstats.Sample
	for _, s := range sources {
		s.Collect(&after)
		s.Collect(&again)
	}
	for _, r := range before.Task {
		got, _ := after.Task.Get(r.ID())
		if row, _ := procstats.Lookup(r.ID()); got.Present() || r.Present() && !strings.HasPrefix(got.Reason(), "cgroup was removed, noticed at ") {
			t.Errorf("%s: %v %q, want it absent because the cgroup was removed, and when", row.Name, got.Present(), got.Reason())
		}
	}
	for range again.Sources.All() {
		t.Errorf("stamped %v although nothing was left to read", again.Sources)
	}
}

// TestHostPressureSwitchedOff covers cgroup.pressure, which is there since Linux 6.1.
func TestHostPressureSwitchedOff(t *testing.T) {
	c := hostCgroup(t)
	target := Target{FS: kernel.HostFS(), Cgroup: c}
	if c.V2 == "" {
		t.Skip("there is no cgroup v2 here")
	}
	s := openPSI(target, procstats.Select(idsOf(procstats.SourcePSI)...))
	t.Cleanup(func() { _ = s.Close() })
	if !s.Describe().Available {
		t.Skip("no pressure files here: " + s.Describe().Reason)
	}
	if err := os.WriteFile(filepath.Join(c.V2, "cgroup.pressure"), []byte("0"), 0); err != nil {
		t.Skipf("it cannot be switched off here: %v", err)
	}
	const want = "pressure accounting is switched off for this cgroup: cgroup.pressure is 0"
	var kept procstats.Sample
	s.Collect(&kept)
	d, opened := collectAll(t, procstats.SourcePSI, target)
	for name, sample := range map[string]procstats.Sample{"kept open": kept, "opened": opened} {
		for _, id := range idsOf(procstats.SourcePSI) {
			if r, _ := sample.Task.Get(id); r.Present() || !strings.HasPrefix(r.Reason(), want) {
				t.Errorf("%s: %v %q, want absent: %s", name, r.Present(), r.Reason(), want)
			}
		}
	}
	if d.Available || d.Reason != want {
		t.Errorf("described as %+v", d)
	}
}
