// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestProcessesAtRest reads whole only those processes that have run since, and what it carries of the others is what
// a new reader finds.
func TestProcessesAtRest(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while read line; do x=$x$line$line; echo ok; done")
	input, output := testkit.Value(cmd.StdinPipe())(t), testkit.Value(cmd.StdoutPipe())(t)
	must(t, cmd.Start())
	t.Cleanup(func() { endOf(t, cmd) })
	pids := append(sleepers(t, 3), cmd.Process.Pid)
	target := rootsOf(pids...)
	sel := procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == procstats.SourceTree && m.ID != procstats.ProcessElapsed || m.Source == procstats.SourceIO
	})
	readers := func() (*membership, func() *procstats.Sample) {
		m := newMembership(target)
		tree, io := openTree(target, sel, m), openIO(target, sel, m)
		closing(t, tree)
		closing(t, io)
		return m, func() *procstats.Sample {
			s := &procstats.Sample{}
			collect(s, tree, io)
			return s
		}
	}
	m, sample := readers()
	rested := func() (still int) {
		for _, p := range m.procs {
			if p.still {
				still++
			}
		}
		return still
	}
	asleep := func(pid int) { // it waits for input
		for stat := ""; !strings.Contains(stat, ") S "); {
			stat = string(testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t))
		}
	}
	for _, pid := range pids {
		asleep(pid)
	}
	sample()
	for _, want := range []int{3, 4} {
		if want == 3 {
			testkit.Value(input.Write([]byte("line\n")))(t)
			testkit.Value(output.Read(make([]byte, 8)))(t)
			asleep(cmd.Process.Pid)
		}
		got := sample()
		testkit.Equal(t, rested(), want, "processes at rest")
		_, fresh := readers()
		testkit.Equal(t, fmt.Sprint(got.Processes), fmt.Sprint(fresh().Processes), "rows, against those of a new reader")
	}
	for _, p := range m.procs {
		p.wholeUntil = 0
	}
	sample()
	testkit.Equal(t, rested(), 0, "processes at rest that are not read again in time")
}
