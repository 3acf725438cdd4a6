// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// busyScript has a shell use 0.2 s and write 4 MB, and say so.
const busyScript = "n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done; head -c 4000000 /dev/zero >/dev/null; echo; "

// worked starts a shell with a script and returns it once it has said something; it waits for what is written to hold.
func worked(t *testing.T, script string) (pid int, hold *os.File, lines *bufio.Scanner) {
	t.Helper()
	held, hold, err := os.Pipe()
	must(t, err)
	cmd := exec.Command("sh", "-c", script)
	cmd.ExtraFiles = []*os.File{held}
	lines = bufio.NewScanner(testkit.Value(cmd.StdoutPipe())(t))
	must(t, cmd.Start())
	t.Cleanup(func() {
		_, _ = held.Close(), hold.Close()
		endOf(t, cmd)
	})
	lines.Scan()
	return cmd.Process.Pid, hold, lines
}

// TestUsedBefore has processes that had used something before they were read first, and are then reaped by others: the
// counters of those have it, and the totals do not.
func TestUsedBefore(t *testing.T) {
	for name, script := range map[string]string{
		"a child":                  "( " + busyScript + "read x <&3 ); ",
		"one that waits":           "( " + busyScript + ") & read x <&3; wait; ",
		"with its parent":          "( ( " + busyScript + "read x <&3 ); : ); ",
		"its parent later":         "( ( " + busyScript + "read x <&3 ); echo; read x <&3 ); ",
		"several without children": "for i in 1 2 3 4 5; do ( read x <&3; " + busyScript + ") & done; " + busyScript + "wait; ",
		"one that others follow":   "( " + busyScript + "read x <&3; " + busyScript + "); ( " + busyScript + "); ",
	} {
		t.Run(name, func(t *testing.T) {
			sh, hold, lines := worked(t, script+"echo end; read x <&3; read x <&3")
			all := rootsOf(sh) // also what was used before
			since := all
			since.Running = true
			var first, last, of procstats.Sample
			allCPU, allIO := treeOf(t, all), ioOf(t, all, nil)
			collect(&first, allCPU, allIO)
			cpu, io := treeOf(t, since), ioOf(t, since, nil)
			for text := ""; text != "end"; text = lines.Text() {
				collect(&of, cpu, io)
				testkit.Value(fmt.Fprintln(hold))(t)
				if !lines.Scan() {
					t.Fatal(lines.Err())
				}
			}
			collect(&of, cpu, io)
			collect(&last, allCPU, allIO)
			for id, exactTo := range map[procstats.ID]float64{procstats.TreeCPU: 0.05, procstats.TreeIOWchar: 1000} {
				before, used := mustNumber(t, &first, id), mustNumber(t, &of, id)
				want := mustNumber(t, &last, id) - before
				if before < 2*exactTo || used < want-exactTo || used > want+exactTo {
					t.Errorf("%s: %v, and %v were used since there were %v", id.String(), used, want, before)
				}
			}
		})
	}
}

// TestUsedBeforeJoining has a process that another program puts into the cgroup: what it had used before is not the
// task's, whether that was started here or is only watched.
func TestUsedBeforeJoining(t *testing.T) {
	for name, change := range map[string]func(*Target){
		"started": func(target *Target) { target.Parent = 1 << 30 }, // no PID
		"watched": func(target *Target) { target.Parent, target.Running = 0, true },
	} {
		t.Run(name, func(t *testing.T) {
			target := enclosed(t, sleepers(t, 1)...)
			change(&target)
			tree, io := treeOf(t, target), ioOf(t, target, nil)
			var s procstats.Sample
			collect(&s, tree, io)
			sh, _, _ := worked(t, busyScript+"read x <&3")
			enter(t, target.Cgroup.Procs(), sh)
			collect(&s, tree, io)
			checkNumber(t, &s, procstats.TreeProcesses, 2)
			for id, most := range map[procstats.ID]float64{procstats.TreeCPU: 0.05, procstats.TreeCPULive: 0.05} {
				if used := mustNumber(t, &s, id); used > most {
					t.Errorf("%s: %v, and it has slept since it joined", id.String(), used)
				}
			}
			row := s.Processes[slices.IndexFunc(s.Processes, func(p procstats.ProcessRow) bool { return p.PID == sh })]
			for id, most := range map[procstats.ID]float64{
				procstats.ProcessIOWchar: 1000, procstats.ProcessRunDelay: 0.001, procstats.ProcessVoluntarySwitches: 1,
				procstats.ProcessInvoluntarySwitches: 1, procstats.ProcessMinflt: 1,
			} {
				if used, ok := row.Readings.Number(id); !ok || used > most {
					t.Errorf("%s: %v (%v), and it has slept since it joined", id.String(), used, ok)
				}
			}
		})
	}
}

// TestReapedElsewhere has a process in a watched cgroup that reaps a child which ran in another: what the child used is
// not the cgroup's, nor is what one uses that has left it.
func TestReapedElsewhere(t *testing.T) {
	for name, inside := range map[string]bool{"never inside": false, "left": true} {
		t.Run(name, func(t *testing.T) {
			sh, hold, lines := worked(t, "( echo; read x <&3; "+busyScript+"read x <&3 ); echo end; read x <&3")
			target := enclosed(t, sh)
			target.Parent, target.Running = 0, true
			child := testkit.Value(kernel.Children(kernel.HostFS(), sh))(t)[0]
			if inside {
				enter(t, target.Cgroup.Procs(), child)
			}
			tree, io := treeOf(t, target), ioOf(t, target, nil)
			var s procstats.Sample
			collect(&s, tree, io)
			enter(t, filepath.Dir(target.Cgroup.Procs()), child)
			for range 2 {
				testkit.Value(fmt.Fprintln(hold))(t)
				lines.Scan()
				collect(&s, tree, io)
			}
			testkit.Equal(t, lines.Text(), "end", "the last line")
			checkNumber(t, &s, procstats.TreeProcesses, 1)
			for id, most := range map[procstats.ID]float64{
				procstats.TreeCPU: 0.05, procstats.TreeCPUExited: 0.05, procstats.TreeIOWchar: 1000,
			} {
				if used, _ := s.Task.Number(id); used > most {
					t.Errorf("%s: %v, which was used in another cgroup", id.String(), used)
				}
			}
		})
	}
}
