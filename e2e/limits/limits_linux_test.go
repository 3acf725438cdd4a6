// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package limits

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// inGuest reports whether the machine is emulated: its clocks are right and its times mean little.
func inGuest() bool { return os.Getenv("TACHO_GUEST") != "" }

// TestQuota holds one busy thread to half a core.
func TestQuota(t *testing.T) {
	needControllers(t, "cpu", "cpuset")
	// Before all others, so that nothing but its quota keeps it from running; and on one CPU, because the kernel counts
	// for each that has something to run.
	r, told := run(t, "burn 4s", "--cpu", "0.5", "--cpu-weight", "10000", "--cpuset", "0")
	holds(t, r, "cgroup_cpu_quota_cores", 0.5, 0.5)
	throttled := number(t, r, "cgroup_cpu_throttled_seconds_total")
	periods, all := number(t, r, "cgroup_cpu_throttled_periods_total"), number(t, r, "cgroup_cpu_periods_total")
	kept := (told.Wall - told.CPU).Seconds()
	t.Logf("wall %s, cpu %s: kept from running %.3f s, others ran %s; throttled %.3f s (%+.1f %%), %v of %v periods; %s",
		told.Wall, told.CPU, kept, told.Others, throttled, 100*(throttled/kept-1), periods, all, r.Diagnosis.Stall)
	// A period more or less, and what the kernel lets a CPU take at once (sched_cfs_bandwidth_slice_us).
	if got, most := told.CPU.Seconds(), 0.5*told.Wall.Seconds()+0.1; got > most {
		t.Errorf("it used %.3f s, and may use %.3f s", got, most)
	}
	if periods < 20 || periods > all {
		t.Errorf("%v of %v periods were throttled in 4 s", periods, all)
	}
	low, high := 0.97*kept, 1.03*kept
	switch {
	case inGuest():
		// There starting takes its time too, and is throttled.
		low, high = 0.6*kept, 1.05*(*r.WallSeconds-number(t, r, "cgroup_cpu_usage_seconds_total"))
	case told.Others.Seconds() > 0.03*kept:
		// Who is let run again waits for those who run meanwhile, up to a tick, and that is not the quota's doing.
		low -= 0.01 * all
	}
	if throttled < low || throttled > high {
		t.Errorf("throttled for %.3f s, and kept from running for %.3f s: want %.3f to %.3f s", throttled, kept, low, high)
	}
	testkit.Equal(t, r.Diagnosis.Stall, record.CPUThrottled, "it waited for")
}

func TestMemory(t *testing.T) {
	needControllers(t, "memory")
	r, _ := run(t, "touch 20971520", "--memory", "64M")
	holds(t, r, "cgroup_memory_max_bytes", 64<<20, 64<<20)
	peak := peakOf(t, r, rig.NeedMemory(t).HasPeak())
	if peak < 20<<20 || peak > 64<<20 {
		t.Errorf("peak %v", peak)
	}
	testkit.Equal(t, number(t, r, "cgroup_memory_max_bytes"), 64<<20, "the row says")
}

// TestPids lets forks fail, and counts them.
func TestPids(t *testing.T) {
	needControllers(t, "pids")
	r, told := run(t, "start 200", "--pids", "40")
	holds(t, r, "cgroup_pids_max", 40, 40)
	failed := number(t, r, "cgroup_pids_events_max_total")
	t.Logf("%d children, then %s; %v forks failed by pids.events", told.Started, told.Error, failed)
	if told.Started < 2 || told.Started >= 40 || !strings.Contains(told.Error, unix.EAGAIN.Error()) || failed < 1 {
		t.Errorf("%d children, then %q; %v forks failed", told.Started, told.Error, failed)
	}
}

// TestWeight lets two tasks compete for one CPU.
func TestWeight(t *testing.T) {
	needControllers(t, "cpu", "cpuset")
	light, heavy := compete(t)
	// While the machine itself stood still, whoever had the CPU is held to have used it.
	for tries := 1; max(light.Gap, heavy.Gap) > 250*time.Millisecond && tries < 4; tries++ {
		t.Logf("disturbed: neither ran for up to %s; retry", max(light.Gap, heavy.Gap))
		light, heavy = compete(t)
	}
	ratio := heavy.CPU.Seconds() / light.CPU.Seconds()
	t.Logf("%s at 300, %s at 100: ratio %.2f", heavy.CPU, light.CPU, ratio)
	// Others may take their part of the CPU.
	if ratio < 2.3 || ratio > 4 {
		t.Errorf("ratio %.2f, want about 3", ratio)
	}
}

// compete has tasks of weight 100 and 300 use one CPU at the same time.
func compete(t *testing.T) (light, heavy told) {
	t.Helper()
	p := rig.NewPlace(t, rig.Self())
	outs := map[string]func() told{}
	weights := []string{"100", "300"}
	for _, weight := range weights {
		outs[weight] = start(t, p, "burn 4s "+weight, "--cpu-weight", weight, "--cpuset", "0")
	}
	rig.Eventually(t, 30*time.Second, "both are ready", func() bool {
		return !slices.ContainsFunc(weights, func(weight string) bool {
			_, err := os.Stat(p.Path(weight))
			return err != nil
		})
	})
	testkit.Must(t, os.WriteFile(p.Path(goFile), nil, 0o600))
	return outs["100"](), outs["300"]()
}

// TestIO writes to a disk of the guest's.
func TestIO(t *testing.T) {
	needLimits(t)
	const disk = "/dev/vda"
	if _, err := os.Stat(disk); err != nil || !inGuest() {
		t.Skip("it writes over a disk: guests have one to spare (-disk 64)")
	}
	r, told := run(t, "write "+disk+" 8388608", "--io-max", disk+":wbps=4M")
	rate := float64(told.Bytes) / told.Wall.Seconds()
	t.Logf("%.2f MiB/s of 4 MiB/s; limits %+v", rate/(1<<20), r.Limits)
	if len(r.Limits) == 0 || *r.Limits[0].Effective != 4<<20 || rate > 1.3*(4<<20) {
		t.Errorf("%.0f bytes a second", rate)
	}
	checkDevices(t, r, filepath.Base(disk), told.Bytes)
}

// checkDevices holds what a record says of a disk against what was written to it, and the sum over devices against
// the total.
func checkDevices(t *testing.T, r *record.Record, name string, written int64) {
	t.Helper()
	total, counted := r.Measurements["cgroup_io_write_bytes_total"].(float64)
	var sum, disk int64
	for _, d := range r.Devices {
		if !d.Layer {
			sum += d.WrittenBytes
		}
		if d.Name == name {
			disk += d.WrittenBytes
		}
	}
	switch {
	case !counted && len(r.Devices) > 0, counted && sum != int64(total):
		t.Errorf("total %v, devices %+v", r.Measurements["cgroup_io_write_bytes_total"], r.Devices)
	case counted && (disk < written || disk > written+written/100):
		t.Errorf("%d bytes were written to %s: %+v", written, name, r.Devices)
	}
}
