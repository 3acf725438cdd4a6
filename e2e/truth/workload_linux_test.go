// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"math"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/e2e/truth"
)

// exitUnsupported is how a workload says that this host cannot carry it out.
const exitUnsupported = 77

// workloads lists all of them, and what they say of themselves.
func workloads() []string {
	return []string{
		"churn", "threads", "hundred", "abandon", "ignore", "daemons", "reap-io", "shared", "cache", "spike",
		"io-direct", "io-buffered", "sleep", "short",
	}
}

// TestWorkload compares what the workloads say of themselves with the meters that a test can set up without
// tacho: wait4(2) for the CPU time of all that is waited for, a cgroup for all there is.
func TestWorkload(t *testing.T) {
	rig.Require(t)
	for _, name := range workloads() {
		t.Run(name, func(t *testing.T) {
			place := rig.NewPlace(t, rig.Self())
			meter, err := rig.NewParent(t, rig.Self())
			args := []string{"-truth", place.Path("truth"), "-dir", place.Dir}
			if err != nil {
				t.Logf("no cgroup as a meter: %v", err)
			} else {
				args = append(args, "-meter", meter.CPUFolder())
			}
			cmd := place.Command(t.Context(), rig.Workload(), append(args, name)...)
			out := rig.Capture(t, cmd)
			if out.Code == exitUnsupported {
				t.Skip(out.Stderr)
			}
			if out.Code != 0 {
				t.Fatalf("exit code %d: %s", out.Code, out.Stderr)
			}
			known, err := truth.Read(place.Path("truth"))
			if err != nil {
				t.Fatal(err)
			}
			waited := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
			within(t, "wait4", waited, known.CPU.Own+known.CPU.Waited)
			if meter == nil {
				return
			}
			used, err := meter.CPU()
			if err != nil {
				t.Fatal(err)
			}
			within(t, "cgroup", used.Seconds(), known.CPU.Total-*known.CPU.BeforeMeter)
		})
	}
}

func within(t *testing.T, meter string, metered, told float64) {
	t.Helper()
	off := metered - told
	t.Logf("%s: %.4f s, the workload says %.4f s: %+.1f ms", meter, metered, told, 1000*off)
	if math.Abs(off) > max(cpuSlack, cgroupShare*metered) {
		t.Errorf("%s: %.4f s, the workload says %.4f s", meter, metered, told)
	}
}
