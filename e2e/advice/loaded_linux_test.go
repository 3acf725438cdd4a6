// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package advice

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestLoadedByOthers holds that nothing is called the need of a program without what others had loaded for it, and that
// the advice has it.
func TestLoadedByOthers(t *testing.T) {
	rig.NeedMemory(t)
	for _, p := range []program{
		{name: "mapped file", steps: "map:@0:2 sleep:600", files: []int{60}},
		{name: "mapped files of two processes", steps: "each:2 map:@#:2 sleep:900", files: []int{40, 40}},
		{name: "one mapped file of two processes", steps: "each:2 map:@0:2 sleep:900", files: []int{60}},
		{name: "shared memory", steps: "shm:~0:60 sleep:600", shm: map[string]int{"~0": 60}},
	} {
		t.Run(p.name, func(t *testing.T) {
			size := int64(0)
			for _, mib := range p.files {
				size += int64(mib)
			}
			for _, mib := range p.shm {
				size += int64(mib)
			}
			b := newBench(t, p)
			b.load(t)
			r := b.run(t, "out")
			for _, id := range []procstats.ID{procstats.HeadlineMemory, procstats.HeadlineMemoryPeak} {
				h := r.Headline[id.String()]
				i := slices.IndexFunc(h.Notes, func(n procstats.Note) bool { return n.Rule == procstats.MemoryUnchargedRule })
				if h.Guarantee != procstats.LowerBound || i < 0 {
					t.Fatalf("%s: %+v", id, h)
				}
				if n := h.Notes[i]; n.OtherValue < 0.9*float64(size*mebibyte) || n.OtherValue > float64((size+20)*mebibyte) {
					t.Errorf("%s: others had loaded %d MiB, but: %s", id, size, n.Text)
				}
			}
			a := b.advise(t)
			if a.MemoryMiB == nil || *a.MemoryMiB < size || !strings.Contains(a.Why[0], "more that others had loaded") {
				t.Fatalf("advised %+v", a)
			}
			if fault := b.within(t, 3, "--memory", fmt.Sprintf("%dM", *a.MemoryMiB)); fault != "" {
				t.Errorf("with %d MiB: %s", *a.MemoryMiB, fault)
			}
			testkit.Equal(t, r.Diagnosis.OOM.Kills != nil && *r.Diagnosis.OOM.Kills == 0, true, "no OOM kill is known")
		})
	}
}
