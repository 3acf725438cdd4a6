// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestTreeMemoryCountsOnce holds what two processes with 400 pages of anonymous memory each have at least, of which
// they share half, and shared memory.
func TestTreeMemoryCountsOnce(t *testing.T) {
	page := os.Getpagesize() >> 10 // in KiB
	const statm = "1000 500 100 1 0 1 0\n"
	rollup := fmt.Sprintf("5500-7ffc ---p 0 00:00 0 [rollup]\nPss: %d kB\nPss_Anon: %d kB\nPss_Shmem: %d kB\nSwapPss: 4 kB\n",
		330*page, 300*page, 25*page)
	low := strings.Replace(rollup, "5500", "00400000", 1) // of a program that is not position-independent
	for _, test := range []struct {
		name  string
		files map[string]string // of process 11
		pages float64
	}{
		{"both are read", map[string]string{"statm": statm, "smaps_rollup": rollup}, 2 * (300 + 25)},
		{"one cannot be read", map[string]string{"statm": statm, "smaps_rollup": "no\n"}, 400},
		{"a larger one cannot be read", map[string]string{"statm": "9000 2100 100 1 0 1 0\n", "smaps_rollup": "no\n"}, 2000},
		{"it has ended", map[string]string{"statm": "0 0 0 0 0 0 0\n"}, 400},
		{
			"its main thread has ended", map[string]string{
				"stat":  "11 (sh) Z 10 1 1 0 -1 4194304 72 0 0 0 0 0 0 0 20 0 2 0 101 1 1 1 1 1 1 0 0 0 0 0 0 1\n",
				"statm": "0 0 0 0 0 0 0\n", "task/11/statm": "0 0 0 0 0 0 0\n", "task/12/statm": statm, "task/12/smaps_rollup": low,
			}, 2 * (300 + 25),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := kernel.FS{Proc: t.TempDir()}
			setPair(t, root)
			writeProc(t, root, "10/statm", statm)
			writeProc(t, root, "10/smaps_rollup", rollup)
			for name, content := range test.files {
				writeProc(t, root, "11/"+name, content)
			}
			tree := treeFor(t, Target{FS: root, Roots: func() []int { return []int{10} }}, procstats.Select(procstats.TreeMemory))
			var s procstats.Sample
			collect(&s, tree)
			checkNumber(t, &s, procstats.TreeMemory, test.pages*float64(page<<10))
			// What is given back after the slow clock's reading is not counted until its next.
			writeProc(t, root, "10/statm", "1000 10 10 1 0 1 0\n")
			if writeProc(t, root, "11/statm", "0 0 0 0 0 0 0\n"); test.files["stat"] == "" {
				tree.members.smaps.due = 1 << 62
				collect(&s, tree)
				checkNumber(t, &s, procstats.TreeMemory, 0)
			}
		})
	}
}

// TestTreeMemoryThatMoves has one process free its memory, and another take as much, between their readings: of their
// own, or shared with nobody before and with both after.
func TestTreeMemoryThatMoves(t *testing.T) {
	page := os.Getpagesize() >> 10 // in KiB
	rollup := func(start, anon, shmem int) string {
		return fmt.Sprintf("%d-7ffc ---p 0 00:00 0 [rollup]\nPss: %d kB\nPss_Anon: %d kB\nPss_Shmem: %d kB\nSwapPss: 0 kB\n",
			start, (anon+shmem)*page, anon*page, shmem*page)
	}
	const small = "1000 10 10 1 0 1 0\n"
	for _, test := range []struct {
		name                 string
		statm                string // of the one that has the memory
		alone, before, after string // smaps_rollup of the first, and then of the second
		givesBack            bool
		pages                float64 // at most
	}{
		{"private", "1000 410 10 1 0 1 0\n", rollup(5500, 400, 0), rollup(6600, 0, 0), rollup(6600, 400, 0), true, 400},
		{"shared, passed on", "1000 410 410 1 0 1 0\n", rollup(5500, 0, 400), rollup(6600, 0, 0), rollup(6600, 0, 400), true, 400},
		{"shared by both", "1000 410 410 1 0 1 0\n", rollup(5500, 0, 400), rollup(6600, 0, 0), rollup(6600, 0, 200), false, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := kernel.FS{Proc: t.TempDir()}
			setPair(t, root)
			put := func(pid int, statm, rollup string) {
				writeProc(t, root, fmt.Sprintf("%d/statm", pid), statm)
				writeProc(t, root, fmt.Sprintf("%d/smaps_rollup", pid), rollup)
			}
			put(10, test.statm, test.alone)
			put(11, small, test.before)
			tree := treeFor(t, Target{FS: root, Roots: func() []int { return []int{10} }}, procstats.Select(procstats.TreeMemory))
			looks := 0
			tree.members.smaps.now = func() procstats.Stamp {
				if looks++; looks == 2 { // between the two
					if test.givesBack {
						put(10, small, rollup(5500, 0, 0))
					}
					put(11, test.statm, test.after)
				}
				return kernel.Now()
			}
			var s procstats.Sample
			for range 2 {
				collect(&s, tree)
				if held := mustNumber(t, &s, procstats.TreeMemory); looks < 2 || held > test.pages*float64(page<<10) {
					t.Errorf("%.0f pages, of %.0f", held/float64(page<<10), test.pages)
				}
			}
		})
	}
}

// TestTreeMemoryOfSpawners samples processes that start others all the time, which have its memory as theirs until they
// execute a program (vfork), or pages of it until they end (fork).
func TestTreeMemoryOfSpawners(t *testing.T) {
	for role, most := range map[string]float64{"spawns": 1.8 * spawnerMemory, "forks": 1.8 * spawnerMemory} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			p := play(t, role)
			tree := treeFor(t, rootsOf(p.Process.Pid), procstats.Select(procstats.TreeMemory))
			tree.members.smaps.limits.Every = 1
			var s procstats.Sample
			for range 500 {
				collect(&s, tree)
				if held := mustNumber(t, &s, procstats.TreeMemory); held > most { // with their runtimes and those of the race detector
					t.Fatalf("%s, of which one process holds %s", procstats.Bytes.Text(held), procstats.Bytes.Text(spawnerMemory))
				}
			}
		})
	}
}

// TestMappedInRound holds that what several map counts once, although a round reads one after the other: a part of what is
// mapped and let go meanwhile is larger than at any one moment.
func TestMappedInRound(t *testing.T) {
	const mib, all, forever = 1 << 20, 240, time.Duration(math.MaxInt64)
	page := int64(os.Getpagesize())
	type part struct{ pss, early, shared, now int64 } // MiB; what it mapped when the round began, when it was read, and later
	for _, test := range []struct {
		name  string
		parts []part
		want  int64
	}{
		{"steady", []part{{80, all, all, all}, {80, all, all, all}, {80, all, all, all}}, 240},
		{"others begin", []part{{120, all, all, all}, {80, 0, all, all}, {60, 200, all, all}}, 240},
		{"others end", []part{{80, all, all, 0}, {120, all, all, 0}, {240, all, all, all}}, 240},
		{"all end", []part{{80, all, all, 0}, {120, all, all, 0}, {240, all, all, 100}}, 100},
		{"each lets its own go", []part{{all + 50, all + 100, all + 100, 100}, {all + 50, all + 100, all + 100, 100}}, 100},
	} {
		tree := treeOf(t, Target{FS: kernel.FS{Proc: t.TempDir()}, Cgroup: procstats.Cgroup{V2: t.TempDir()}})
		m := tree.members
		m.smaps.last.total, m.smaps.due, tree.uncharged.looked = len(test.parts), forever, int64(forever)/2
		for _, p := range test.parts {
			read := &process{identified: true, smaps: smapsReading{at: 1, early: p.early * mib / page, shared: p.shared * mib}}
			read.smaps.SmapsRollup = kernel.SmapsRollup{PSS: p.pss*mib + 1, PSSAnon: 1}
			read.tree.mapped = p.now * mib / page
			m.procs = append(m.procs, read)
		}
		if got, _ := tree.mapped(); got != test.want*mib {
			t.Errorf("%s: %d MiB, want %d", test.name, got/mib, test.want)
		}
		m.procs = nil
	}
}

// TestUncharged holds what processes map of files and shared memory against what is charged: the most of all samples,
// what several map once, and without the code of their programs.
func TestUncharged(t *testing.T) {
	const mib = 1 << 20
	pages := func(n int) int { return n * mib / os.Getpagesize() }
	dir := t.TempDir()
	root := kernel.FS{Proc: t.TempDir(), Sys: t.TempDir()}
	for _, pid := range []int{10, 11} {
		setCPU(t, root, pid, 1, 100+pid, 1, 0)
	}
	writeProc(t, kernel.FS{Proc: root.Sys}, "class/bdi/8:0/read_ahead_kb", "8192\n")
	writeProc(t, kernel.FS{Proc: dir}, "cgroup.procs", "10\n11\n")
	writeProc(t, kernel.FS{Proc: dir}, "memory.current", "0\n")
	tree := treeOf(t, Target{FS: root, Cgroup: procstats.Cgroup{V2: dir}})
	tree.members.smaps.limits.Every = time.Nanosecond
	for _, step := range []struct {
		name               string
		shared, text, own  [2]int // MiB; own is the proportional part of shared
		charged, all, data float64
		size               int // of the first one's mapping of a file
		around             float64
		still              int // what the first one still maps when the charge has been read
	}{
		{"all charged", [2]int{20, 20}, [2]int{5, 5}, [2]int{10, 10}, 20, 0, 0, 90, 0, 20},
		{"unmapped before the charge is read", [2]int{60, 20}, [2]int{5, 5}, [2]int{50, 10}, 10, 10, 5, 90, 0, 10},
		{"one maps more", [2]int{60, 20}, [2]int{5, 5}, [2]int{50, 10}, 20, 40, 35, 90, 16, 60},
		{"a little of it later", [2]int{63, 20}, [2]int{5, 5}, [2]int{53, 10}, 20, 43, 38, 90, 13, 63},
		{"both map the same", [2]int{70, 70}, [2]int{5, 5}, [2]int{35, 35}, 20, 50, 45, 74, 4, 70},
		{"each maps its own", [2]int{70, 70}, [2]int{5, 5}, [2]int{70, 60}, 20, 110, 100, 71, 0, 70},
		{"it was more before", [2]int{60, 20}, [2]int{5, 5}, [2]int{50, 10}, 20, 110, 100, 90, 0, 60},
	} {
		writeProc(t, root, "10/maps", fmt.Sprintf("0-%x r--s 0 fe:00 7 /data\n", step.size*mib))
		writeProc(t, root, "10/pagemap", strings.Repeat("\x00\x00\x00\x00\x00\x00\x00\xa0", pages(step.shared[0]))+
			strings.Repeat("\x00", 8*pages(step.size-step.shared[0])))
		statm := func(pid, shared, text int) {
			writeProc(t, root, fmt.Sprintf("%d/statm", pid), fmt.Sprintf("99999 %d %d %d 0 1 0\n", pages(shared+1), pages(shared), pages(text)))
		}
		for i, pid := range []int{10, 11} {
			statm(pid, step.shared[i], step.text[i])
			writeProc(t, root, fmt.Sprintf("%d/smaps_rollup", pid), fmt.Sprintf("%d00000-%d00001 ---p 0 0 0 [rollup]\nPss: %d kB\n"+
				"Pss_Anon: 1024 kB\nPss_Shmem: 0 kB\nSwapPss: 0 kB\n", pid, pid, (step.own[i]+1)<<10))
		}
		var s procstats.Sample
		s.Stamp = kernel.Now()
		tree.Collect(&s)
		s.SetNumber(procstats.CgroupMemoryFileMapped, step.charged*mib)
		statm(10, step.still, step.text[0])
		tree.closeSum(&s)
		for id, want := range map[procstats.ID]float64{
			procstats.TreeUncharged: step.all, procstats.TreeUnchargedData: step.data, procstats.TreeUnchargedAround: step.around,
			procstats.TreeChargedMapped: 20,
		} {
			if got := mustNumber(t, &s, id); got != want*mib {
				t.Errorf("%s: %s is %v MiB, want %v", step.name, id, got/mib, want)
			}
		}
	}
}
