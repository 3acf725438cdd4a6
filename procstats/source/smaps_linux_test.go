// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	stdcmp "cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func smapsOf(tb testing.TB, t Target, m *membership, limits smapsLimits, clock *testClock) *smapsSource {
	tb.Helper()
	q := openSmaps(t, procstats.SourceSelection(procstats.SourceSmaps), m).(*smapsSource)
	defaults := &q.members.smaps.limits
	defaults.Every = limits.Every
	defaults.Budget = stdcmp.Or(limits.Budget, defaults.Budget)
	defaults.MaxRSS = stdcmp.Or(limits.MaxRSS, defaults.MaxRSS)
	if clock != nil {
		q.members.smaps.now = clock.now
	}
	closing(tb, q)
	return q
}

func checkSmaps(tb testing.TB, s *procstats.Sample, pss, skipped string, rows ...string) {
	tb.Helper()
	want := []string{"smaps_pss_bytes " + pss, "smaps_swap_pss_bytes 0", "smaps_skipped_processes " + skipped}
	if strings.HasPrefix(pss, "absent") {
		want[1] = "smaps_swap_pss_bytes " + pss
	}
	testkit.Diff(tb, "result", want, printReadings(s.Task))
	var got []string
	for _, row := range s.Processes {
		for _, line := range printReadings(row.Readings) {
			got = append(got, fmt.Sprint(row.PID, strings.TrimPrefix(line, "process_pss_bytes")))
		}
	}
	testkit.Diff(tb, "rows", rows, got)
}

const capturedPSS = (299 + 221 + 8731 + 210) << 10

func capturedRows() []string {
	return []string{"669 306176", "670 226304", "671 8.940544e+06", "673 215040", "694 0"}
}

func TestSmapsOnItsOwnClock(t *testing.T) {
	root := procTree(t, "linux-6.18-threads-and-zombie.txtar")
	target := Target{FS: root, Roots: func() []int { return []int{669} }}
	clock := &testClock{mono: time.Hour}
	q := smapsOf(t, target, nil, smapsLimits{Every: 10 * time.Second}, clock)
	if d := q.Describe(); !d.Available || d.ID != procstats.SourceSmaps {
		t.Errorf("%+v", d)
	}
	var s procstats.Sample
	collect(&s, q)
	first := clock.mono
	checkSmaps(t, &s, fmt.Sprint(float64(capturedPSS)), "0", capturedRows()...)

	// Until the next reading the last is repeated, and says when it was.
	writeProc(t, root, "670/smaps_rollup", "Pss: 1 kB\nSwapPss: 0 kB\n")
	setCPU(t, root, 700, 669, 400000, 0, 0)
	setChildren(t, root, 669, "670 671 700 ")
	setChildren(t, root, 700, "")
	writeProc(t, root, "700/smaps_rollup", "Pss: 2 kB\nSwapPss: 0 kB\n")
	clock.mono += 9 * time.Second
	collect(&s, q)
	checkSmaps(t, &s, fmt.Sprint(float64(capturedPSS)), "0", append(capturedRows(), "700 absent: "+smapsNewer)...)
	if stamp, _ := s.ReadAt(procstats.SmapsPSS); stamp.Mono != first {
		t.Errorf("stamped %v, read at %v", stamp.Mono, first)
	}

	clock.mono = first + 10*time.Second
	collect(&s, q)
	rows := append(capturedRows(), "700 2048")
	rows[1] = "670 1024"
	checkSmaps(t, &s, fmt.Sprint(float64(capturedPSS-(221-1-2)<<10)), "0", rows...)
	if stamp, _ := s.ReadAt(procstats.SmapsPSS); stamp.Mono != clock.mono {
		t.Errorf("stamped %v, read at %v", stamp.Mono, clock.mono)
	}
}

// TestSmapsBeforeTheStart holds that what was read of no process is not repeated as the task's.
func TestSmapsBeforeTheStart(t *testing.T) {
	var roots []int
	target := Target{FS: procTree(t, "linux-6.18-threads-and-zombie.txtar"), Roots: func() []int { return roots }}
	clock := &testClock{mono: time.Hour}
	q := smapsOf(t, target, nil, smapsLimits{Every: 10 * time.Second}, clock)
	var s procstats.Sample
	collect(&s, q)
	roots = []int{669}
	clock.mono += time.Second
	collect(&s, q)
	checkSmaps(t, &s, fmt.Sprint(float64(capturedPSS)), "0", capturedRows()...)
}

func TestSmapsSkipsLargeProcesses(t *testing.T) {
	root := procTree(t, "linux-6.18-threads-and-zombie.txtar")
	limits := smapsLimits{MaxRSS: int64(1000 * os.Getpagesize())}
	q := smapsOf(t, Target{FS: root, Roots: func() []int { return []int{669} }}, nil, limits, &testClock{mono: 1})
	var s procstats.Sample
	collect(&s, q)
	rows := capturedRows()
	rows[2] = "671 absent: " + smapsLarge
	checkSmaps(t, &s, "absent: processes were skipped: larger than "+procstats.Bytes.Text(float64(limits.MaxRSS))+" (1 of 5)", "1", rows...)
}

func TestSmapsKeepsItsBudget(t *testing.T) {
	root := procTree(t, "linux-6.18-threads-and-zombie.txtar")
	clock := &testClock{mono: time.Hour, step: 10 * time.Millisecond}
	q := smapsOf(t, Target{FS: root, Roots: func() []int { return []int{669} }}, nil,
		smapsLimits{Every: time.Millisecond, Budget: 30 * time.Millisecond}, clock)
	const reason = "absent: processes were skipped: over the time budget of 30ms (2 of 5)"
	var s procstats.Sample
	collect(&s, q)
	rows := capturedRows()
	rows[3], rows[4] = "673 absent: "+smapsLate, "694 absent: "+smapsLate
	checkSmaps(t, &s, reason, "2", rows...)
	// The next reading begins where this one ended.
	collect(&s, q)
	rows = capturedRows()
	rows[1], rows[2] = "670 absent: "+smapsLate, "671 absent: "+smapsLate
	checkSmaps(t, &s, reason, "2", rows...)
}

func TestSmapsThatCannotBeRead(t *testing.T) {
	root := procTree(t, "linux-6.18-threads-and-zombie.txtar")
	writeProc(t, root, "670/smaps_rollup", "Pss: many\n")
	q := smapsOf(t, Target{FS: root, Roots: func() []int { return []int{669} }}, nil, smapsLimits{}, &testClock{mono: 1})
	var s procstats.Sample
	collect(&s, q)
	rows := capturedRows()
	rows[1] = "670 absent: read /proc/670/smaps_rollup: " + kernel.ErrFormat.Error()
	checkSmaps(t, &s, "absent: processes were skipped: not readable (1 of 5)", "1", rows...)
}

// TestSmapsWatchesMembersAlone holds that rows are of living processes also where no other source looks at them.
func TestSmapsWatchesMembersAlone(t *testing.T) {
	first, second := play(t, "idle"), play(t, "idle")
	q := smapsOf(t, rootsOf(first.Process.Pid, second.Process.Pid), nil, smapsLimits{Every: time.Hour}, nil)
	var s procstats.Sample
	collect(&s, q)
	endOf(t, first.Cmd)
	collect(&s, q)
	testkit.Diff(t, "PIDs", []int{second.Process.Pid}, pidsOf(&s))
}
