// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build portable

package source

import (
	"math"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestPortableAgreesWithTree reads the same processes by gopsutil and by our own readers.
func TestPortableAgreesWithTree(t *testing.T) {
	parent, busy := play(t, "parent"), play(t, "busy")
	target := rootsOf(parent.Process.Pid, busy.Process.Pid)
	portable := openPortable(target, procstats.SourceSelection(procstats.SourcePortable))
	if d := portable.Describe(); !d.Available {
		t.Fatalf("%+v", d)
	}
	tree := treeOf(t, target)
	var ours, theirs procstats.Sample
	collect(&ours, tree)
	for range 2 {
		collect(&theirs, portable)
	}
	if len(theirs.Processes) != 3 || len(ours.Processes) != 3 {
		t.Fatalf("PIDs %v and %v", pidsOf(&ours), pidsOf(&theirs))
	}
	const tick = 0.01
	for i, row := range ours.Processes {
		other := theirs.Processes[i]
		if row.PID != other.PID || row.PPID != other.PPID || row.Command != other.Command {
			t.Errorf("%+v, by gopsutil %+v", row, other)
		}
		cpu, _ := row.Readings.Number(procstats.ProcessCPU)
		otherCPU, ok := other.Readings.Number(procstats.PortableProcessCPU)
		if !ok || math.Abs(cpu-otherCPU) > 3*tick {
			t.Errorf("%s: %v s, by gopsutil %v (%v)", row.Command, cpu, otherCPU, ok)
		}
	}
	if cpu := mustNumber(t, &theirs, procstats.PortableCPU); math.Abs(cpu-mustNumber(t, &ours, procstats.TreeCPULive)) > 9*tick {
		t.Errorf("%v s, by gopsutil %v", mustNumber(t, &ours, procstats.TreeCPULive), cpu)
	}
	endOf(t, busy.Cmd)
	collect(&theirs, portable)
	testkit.Equal(t, mustNumber(t, &theirs, procstats.PortableProcesses), 2, "processes after the end of one")
}
