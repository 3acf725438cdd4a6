// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package limits

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// givenGroup makes a group in every hierarchy, as an orchestrator does for several tasks one after the other.
func givenGroup(t *testing.T) *proto.CgroupPlacement {
	t.Helper()
	parent := rig.NeedParent(t)
	if v, _ := version(t, "memory"); v == 2 {
		enableInRoot(t, "memory")
	}
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	given := &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_GIVEN, V1: map[string]string{}}
	for _, mount := range mounts {
		dir := filepath.Join(mount.Point, parent.Path)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if mount.Version == 2 {
			given.V2 = dir
		}
		for _, controller := range mount.Controllers {
			if mount.Version == 1 {
				given.V1[controller] = dir
			}
		}
	}
	return given
}

// touchIn runs a task that touches memory in a given group and returns its record.
func touchIn(t *testing.T, given *proto.CgroupPlacement, number, bytes int) *record.Record {
	t.Helper()
	dir, err := os.MkdirTemp("", "peak")
	testkit.Must(t, err)
	defer os.RemoveAll(dir)
	c, err := client.Start(t.Context(), client.Options{Binary: rig.Tacho(), RuntimeDir: dir, ID: fmt.Sprint(number)})
	testkit.Must(t, err)
	defer c.Close()
	_, err = c.Launch(t.Context(), &proto.LaunchRequest{
		Id: fmt.Sprintf("peak-%d-%d", os.Getpid(), number), Command: self(t), Cgroup: given,
		Env: []string{fmt.Sprintf("%s=touch %d", taskVariable, bytes)}, Stdio: &proto.Stdio{Mode: proto.Stdio_MODE_NULL},
	})
	testkit.Must(t, err)
	exit, r, err := c.Wait(t.Context())
	if err != nil || exit.GetCode() != 0 {
		t.Fatalf("%v, %v", exit, err)
	}
	testkit.NoError(t, c.Shutdown(t.Context()))
	peak := r.Headline["memory_peak_bytes"]
	t.Logf("touched %d MiB: peak %.1f MiB, %s %s", bytes>>20, valueOf(peak)/(1<<20), peak.Guarantee, peak.Reason)
	return r
}

// peakOf returns the peak of a record: exact if the kernel has that of the group, else what the kernel has of the largest
// process.
func peakOf(t *testing.T, r *record.Record, hasPeak bool) float64 {
	t.Helper()
	peak, want := r.Headline["memory_peak_bytes"], procstats.LowerBound
	if hasPeak {
		want = procstats.Exact
	}
	if peak.Value == nil || peak.Guarantee != want {
		t.Fatalf("peak %+v, want %s", peak, want)
	}
	return *peak.Value
}

// TestPeakOfSpike has a task use much memory for a tenth of the interval, and holds its peak against what the kernel
// told the task itself.
func TestPeakOfSpike(t *testing.T) {
	needControllers(t, "memory")
	const spike = 150 << 20
	r, told := run(t, fmt.Sprint("spike ", spike), "--interval", "1s")
	peak := peakOf(t, r, rig.NeedMemory(t).HasPeak())
	off := peak - float64(told.Peak)
	t.Logf("touched %d bytes: peak %.0f, the kernel's own %d: %+.0f bytes", told.Bytes, peak, told.Peak, off)
	if math.Abs(off) > float64(os.Getpagesize()) || told.Peak < spike {
		t.Errorf("peak %.0f, the kernel's own %d", peak, told.Peak)
	}
}

// TestPeakOfGivenGroup runs a small task where a large one was before.
func TestPeakOfGivenGroup(t *testing.T) {
	needControllers(t, "memory")
	given, hasPeak := givenGroup(t), rig.NeedMemory(t).HasPeak()
	if first := peakOf(t, touchIn(t, given, 1, 60<<20), hasPeak); first < 60<<20 {
		t.Errorf("the first task: %v", first)
	}
	r := touchIn(t, given, 2, 1<<20)
	small := r.Headline["memory_peak_bytes"]
	switch {
	case !hasPeak: // that of its largest process, if it is not that of the executor, which forked it
		if small.Value != nil && (small.Guarantee != procstats.LowerBound || *small.Value > 40<<20) || small.Value == nil && small.Reason == "" {
			t.Errorf("a small one after it, without peaks of groups: %+v", small)
		}
	case canReset(given):
		if small.Guarantee != procstats.Exact || *small.Value > 40<<20 {
			t.Errorf("a small one after it, with a peak of its own: %+v", small)
		}
	case small.Guarantee != procstats.UpperBound || *small.Value < 60<<20 || small.Reason == "" || len(r.Notes) == 0:
		t.Errorf("a small one after it: %+v, notes %q", small, r.Notes)
	}
	if large := peakOf(t, touchIn(t, given, 3, 100<<20), hasPeak); large < 100<<20 {
		t.Errorf("a larger one after it: %v", large)
	}
}

// canReset reports whether each open memory.peak counts for itself, since Linux 6.12.
func canReset(given *proto.CgroupPlacement) bool {
	if given.GetV1()["memory"] != "" {
		return false
	}
	file, err := os.OpenFile(filepath.Join(given.GetV2(), "memory.peak"), unix.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	_, err = file.WriteString("reset")
	return err == nil
}
