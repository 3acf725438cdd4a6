// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package limits

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// has is what a task finds that it has been given, as text to compare.
type has struct {
	CPUs, Later string // at its start, and 100 ms later
	Inherited   map[string]string
	Cgroup      procstats.Cgroup
}

// resources are the limits that a task inherits from the shell that runs tacho.
func resources() map[string]int {
	return map[string]int{
		"memlock": unix.RLIMIT_MEMLOCK, "nproc": unix.RLIMIT_NPROC, "core": unix.RLIMIT_CORE, "stack": unix.RLIMIT_STACK,
		"nice": unix.RLIMIT_NICE, "fsize": unix.RLIMIT_FSIZE,
	}
}

// inherited is what a process hands on to those that it starts.
func inherited() (map[string]string, error) {
	all := make(map[string]string)
	for name, resource := range resources() {
		var limit unix.Rlimit
		if err := unix.Getrlimit(resource, &limit); err != nil {
			return nil, err
		}
		all["rlimit "+name] = fmt.Sprint(limit)
	}
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return nil, err
	}
	all["priority"] = fmt.Sprint(priority)
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	all["oom_score_adj"] = string(score)
	return all, err
}

func cpusOf() (string, error) {
	var set unix.CPUSet
	err := unix.SchedGetaffinity(0, &set)
	var list []string
	for cpu := range runtime.NumCPU() + 64 {
		if set.IsSet(cpu) {
			list = append(list, fmt.Sprint(cpu))
		}
	}
	return strings.Join(list, ","), err
}

// look returns what this process has.
func look() (t told, err error) {
	h := &has{}
	if h.CPUs, err = cpusOf(); err != nil {
		return t, err
	}
	if h.Inherited, err = inherited(); err != nil {
		return t, err
	}
	if h.Cgroup, err = kernel.FindCgroup(kernel.HostFS(), os.Getpid()); err != nil {
		return t, err
	}
	<-time.After(100 * time.Millisecond)
	h.Later, err = cpusOf()
	return told{Has: h}, err
}

// runBound runs a task for a caller that is bound to a CPU, and has a small limit of locked memory.
func runBound(t *testing.T, cpu int, flags ...string) (*record.Record, *has, map[string]string) {
	t.Helper()
	p := rig.NewPlace(t, rig.Self())
	cmd := p.Run(t.Context(), append(flags, "--", self(t))...)
	cmd.Env = append(cmd.Env, taskVariable+"=look")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, bound unix.CPUSet
	testkit.Must(t, unix.SchedGetaffinity(0, &before))
	if bound = before; cpu >= 0 {
		bound.Zero()
		bound.Set(cpu)
	}
	testkit.Must(t, unix.SchedSetaffinity(0, &bound))
	defer func() { testkit.NoError(t, unix.SchedSetaffinity(0, &before)) }()
	want := testkit.Value(inherited())(t)
	out := rig.Capture(t, cmd)
	told := decode(t, out)
	return p.TheRun(t).Record, told.Has, want
}

// TestTaskHasItsCPUs holds the CPUs of a task, and not the file that they were written into, against what was asked for:
// before Linux 6.4 a process that is cloned into a group keeps those of its parent, and one whose caller is bound
// to a CPU does on any.
func TestTaskHasItsCPUs(t *testing.T) {
	needControllers(t, "cpuset")
	if runtime.NumCPU() < 2 {
		t.Skip("there is one CPU")
	}
	if v, _ := version(t, "cpuset"); v == 2 {
		enableInRoot(t, "cpuset")
	}
	for _, test := range []struct {
		bound       int
		cpuset, has string
	}{{-1, "0", "0"}, {-1, "1", "1"}, {-1, "0-1", "0,1"}, {1, "0", "0"}, {1, "0-1", "0,1"}, {0, "0", "0"}} {
		r, has, _ := runBound(t, test.bound, "--cpuset", test.cpuset)
		if has.CPUs != test.has || has.Later != test.has {
			t.Errorf("caller on %d, --cpuset %s: the task has %s, and later %s; limits %+v", test.bound, test.cpuset, has.CPUs, has.Later, r.Limits)
		}
		if i := limitNamed(r, "cpuset.cpus"); i == nil || i.EffectiveText != test.cpuset {
			t.Errorf("--cpuset %s: the record says %+v", test.cpuset, i)
		}
	}
	r, has, _ := runBound(t, 1)
	if has.CPUs != "1" || limitNamed(r, "cpuset.cpus") != nil {
		t.Errorf("caller on 1, no cpuset: the task has %s; limits %+v", has.CPUs, r.Limits)
	}
}

// TestTaskHasItsLimits holds that a task is in the groups that its limits are set in, and has everything else from
// its caller, whatever the executor changes for itself: locked memory, priority, what the OOM killer takes.
func TestTaskHasItsLimits(t *testing.T) {
	needControllers(t, "memory", "pids")
	var own unix.Rlimit
	testkit.Must(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &own))
	testkit.Must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 48 << 10, Max: own.Max}))
	defer func() { testkit.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &own)) }()
	for name, flags := range map[string][]string{
		"limits":    {"--memory", "256M", "--pids", "100"},
		"none":      nil,
		"no cgroup": {"--cgroup", "none"},
	} {
		r, has, want := runBound(t, -1, flags...)
		testkit.Diff(t, name, want, has.Inherited)
		for _, l := range r.Limits {
			if l.Requested == nil || l.Where == "" {
				continue
			}
			found := l.Where == has.Cgroup.V2
			for _, dir := range has.Cgroup.V1 {
				found = found || l.Where == dir
			}
			if !found || filepath.Base(l.Where) == "/" {
				t.Errorf("%s: %s is set in %s, the task is in %+v", name, l.Name, l.Where, has.Cgroup)
			}
		}
		if name == "limits" && (limitNamed(r, "cgroup_memory_max_bytes") == nil || limitNamed(r, "cgroup_pids_max") == nil) {
			t.Errorf("limits %+v", r.Limits)
		}
	}
}

func limitNamed(r *record.Record, name string) *record.Limit {
	for i := range r.Limits {
		if r.Limits[i].Name == name {
			return &r.Limits[i]
		}
	}
	return nil
}
