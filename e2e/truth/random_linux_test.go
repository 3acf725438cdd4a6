// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/e2e/truth/shape"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// seedsVariable says which seeds to try: numbers and ranges, such as 7,100-200.
const seedsVariable = "TACHO_SEEDS"

// guestVariable says which guest this is, as kernel and cgroup layout.
const guestVariable = "TACHO_GUEST"

// coverage is how much of a task is in a cgroup of tacho's.
type coverage string

const (
	with    coverage = "with"
	half    coverage = "half"
	without coverage = "without"
)

// randomMode is who runs a random task, and how much of it is in a cgroup.
type randomMode struct {
	user     rig.User
	coverage coverage
}

func (m randomMode) String() string { return m.user.Name + "/" + string(m.coverage) }

func randomModes() []randomMode {
	modes := []randomMode{{rig.Self(), with}, {rig.Self(), half}, {rig.Self(), without}}
	if rig.Unprivileged() != rig.Self() {
		modes = append(modes, randomMode{rig.Unprivileged(), without})
	}
	return modes
}

// trial is a seed in a mode.
type trial struct {
	seed uint64
	mode string
}

// trials returns what is asked for in each mode, else the first few seeds and every trial that ever failed here. An
// emulator takes its time, so there each seed is tried in one mode.
func trials(t *testing.T) []trial {
	t.Helper()
	asked, modes := os.Getenv(seedsVariable), randomModes()
	if asked == "" && os.Getenv(guestVariable) != "" {
		var all []trial
		for seed := range uint64(6) {
			all = append(all, trial{seed, modes[seed%uint64(len(modes))].String()})
		}
		return append(all, regressions()...)
	}
	var all []trial
	for part := range strings.SplitSeq(cmp.Or(asked, "1-15"), ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, errFrom := strconv.ParseUint(first, 10, 64)
		to, errTo := strconv.ParseUint(last, 10, 64)
		if errFrom != nil || errTo != nil {
			t.Fatalf("%s=%s: want numbers and ranges, such as 7,100-200", seedsVariable, asked)
		}
		for seed := from; seed <= to; seed++ {
			for _, m := range modes {
				all = append(all, trial{seed, m.String()})
			}
		}
	}
	if asked == "" {
		all = append(all, regressions()...)
	}
	return all
}

// shrink is what sizes are divided by: an emulator takes its time for each page.
func shrink() int64 {
	if os.Getenv(guestVariable) != "" {
		return 8
	}
	return 1
}

// TestRandom measures random tasks and holds every label of their records against what is true. It prints how many
// labels were false, by kind.
func TestRandom(t *testing.T) {
	rig.Require(t)
	all := trials(t)
	var tab falsehoods
	for _, m := range randomModes() {
		t.Run(m.String(), func(t *testing.T) {
			for _, try := range all {
				if try.mode != m.String() {
					continue
				}
				t.Run(strconv.FormatUint(try.seed, 10), func(t *testing.T) {
					t.Parallel()
					measureRandom(t, m, try.seed, &tab)
				})
			}
		})
	}
	t.Logf("\n%s", tab.String())
}

// measureRandom runs the task of a seed and compares its record with the truth.
func measureRandom(t *testing.T, m randomMode, seed uint64, tab *falsehoods) {
	r := randomRun{mode: m, shape: shape.New(seed, shrink()), place: rig.NewPlace(t, m.user)}
	r.place.Parallel = true
	flags := r.ground(t)
	if here() != host { // where a sample takes so much that there would be hardly any
		flags = append(flags, "--sampling-budget", "100")
	}
	r.prepareFiles(t)
	command := append([]string{rig.Workload()}, r.arguments()...)
	began := time.Now()
	cmd := r.place.Run(t.Context(), slices.Concat(flags, r.shape.Flags(), []string{"--"}, command)...)
	if folders := r.stand.Folders(""); len(folders) > 0 {
		folder := testkit.Value(os.Open(folders[0]))(t)
		defer folder.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(folder.Fd())
	}
	out := rig.Capture(t, cmd)
	r.facts.outer = time.Since(began).Seconds()
	found := r.compare(t, out)
	tab.add(m, found)
	for _, wrong := range found {
		t.Errorf("%s: %s: %s", wrong.kind, wrong.what, wrong.text)
	}
	if t.Failed() {
		t.Logf("again: %s=%d TACHO_E2E=1 go test ./e2e/truth -run 'TestRandom/%s$'\n%s", seedsVariable, seed, m, r.shape)
	}
}

// randomRun is one random task under measurement.
type randomRun struct {
	mode  randomMode
	shape shape.Shape
	place *rig.Place
	facts facts
	// meter is the cgroup that the task cannot leave. The task escapes to outs, and moves to
	// joins first: the hierarchies in which tacho makes no group for it.
	meter       *rig.Parent
	outs, joins []string
	// stand is where tacho itself runs: a user without privileges can move processes within a part of a v2 hierarchy that is
	// their own, and not into it.
	stand *rig.Parent
}

// lacks lists the hierarchies that tacho is given no group in, as v1 controllers, "" for v2, and the names of v2
// controllers.
func (r *randomRun) lacks() []string {
	if r.mode.coverage != half {
		return nil
	}
	everything := []string{"memory", "cpu", "cpuacct", "pids", "blkio", "io", "freezer"}
	if !slices.Contains(r.meter.Hierarchies(), "") { // one hierarchy has to be left to it
		everything = everything[:len(everything)-1]
	}
	choices := [][]string{{"memory"}, {"cpu", "cpuacct"}, everything, {"pids", "freezer", "blkio", "io"}}
	return choices[r.shape.Seed%uint64(len(choices))]
}

// ground makes the cgroups of a run and returns the flags of tacho that say where the task goes.
func (r *randomRun) ground(t *testing.T) []string {
	t.Helper()
	top, err := rig.NewParent(t, r.mode.user)
	if err != nil {
		t.Skipf("this user can be given no cgroup here: %v", err)
	}
	must(t, top.Delegate())
	r.stand, err = top.Sub(t, "tacho", r.mode.user)
	must(t, err)
	meter := testkit.Value(top.Sub(t, "meter", r.mode.user))(t)
	r.meter = meter
	if r.shape.Quota > 0 {
		must(t, meter.LimitCPU(r.shape.Quota))
	}
	lacks := r.lacks()
	must(t, meter.Delegate(lacks...))
	base := testkit.Value(meter.Sub(t, "base", r.mode.user))(t)
	out := testkit.Value(meter.Sub(t, "out", r.mode.user))(t)
	r.outs = out.Folders(r.escapes()...)
	flags := []string{"--cgroup", "none"}
	r.joins = base.Folders(base.Hierarchies()...)
	if r.mode.coverage != without {
		in := testkit.Value(meter.Sub(t, "in", r.mode.user, lacks...))(t)
		flags = []string{"--cgroup", "auto", "--cgroup-parent", in.Path}
		missing := slices.DeleteFunc(base.Hierarchies(), func(h string) bool { return len(in.Folders(h)) > 0 })
		r.joins = base.Folders(missing...)
	}
	now, err := meter.MemoryNow()
	if err == nil {
		r.facts.overhead = float64(now)
	}
	return flags
}

// escapes lists the hierarchies in which the task moves: all, or some only, as cgexec does.
func (r *randomRun) escapes() []string {
	switch r.shape.Seed % 5 {
	case 0:
		if len(r.meter.Folders("memory")) > 0 {
			return []string{"memory"}
		}
	case 1:
		if len(r.meter.Folders("cpuacct")) > 0 {
			return []string{"cpu", "cpuacct"}
		}
	}
	return r.meter.Hierarchies()
}

func (r *randomRun) arguments() []string {
	return []string{
		"shape", "-seed", strconv.FormatUint(r.shape.Seed, 10), "-shrink", strconv.FormatInt(r.shape.Shrink, 10), "-dir", r.place.Dir,
		"-join", strings.Join(r.joins, ","), "-out", strings.Join(r.outs, ","),
	}
}

// prepareFiles writes the files that are there before the task, and sees that they are on the disk.
func (r *randomRun) prepareFiles(t *testing.T) {
	t.Helper()
	for name, size := range r.shape.Files() {
		file, err := os.Create(r.place.Path(name))
		must(t, err)
		_, err = file.Write(make([]byte, size))
		must(t, errors.Join(err, file.Sync(), file.Chown(r.mode.user.UID, -1), file.Close()))
	}
}

// compare gathers what is true and returns what tacho says falsely.
func (r *randomRun) compare(t *testing.T, out rig.Output) []falsehood {
	t.Helper()
	var found []falsehood
	fail := func(format string, args ...any) {
		found = append(found, falsehood{failed, "tacho run", fmt.Sprintf(format, args...)})
	}
	if out.Code != 0 {
		fail("exit code %d: %s", out.Code, out.Stderr)
		return found
	}
	for _, left := range r.place.Leftovers() {
		fail("left behind: %s", left)
	}
	entry := r.place.TheRun(t)
	if entry.Record.State != record.Exited || entry.Record.Diagnosis.Verdict != record.Completed {
		fail("state %q, verdict %q", entry.Record.State, entry.Record.Diagnosis.Verdict)
	}
	r.gather(t, out.Stdout)
	found = append(found, r.facts.checkRecord(entry.Record)...)
	for _, report := range rig.Reports(t, entry) {
		found = append(found, r.facts.checkReport(report)...)
	}
	return found
}

// gather completes the facts.
func (r *randomRun) gather(t *testing.T, stdout string) {
	t.Helper()
	reports := testkit.Value(shape.Parse(stdout))(t)
	f := &r.facts
	f.cpus = float64(runtime.NumCPU())
	f.addReports(r.shape, reports)
	used := testkit.Value(r.meter.CPU())(t)
	f.cpu = used.Seconds()
	var moving float64
	for _, report := range reports {
		if r.joinedBelow(r.meter.CPUFolder()) {
			f.cpu += report.Before.Seconds()
			moving += report.Moving.Seconds()
		}
		if r.joinedBelow(r.meter.MemoryFolder()) {
			f.brought += float64(report.Brought)
		}
	}
	f.slack = around(f.cpu, cpuSlack) + moving
	if r.shape.Quota > 0 {
		throttled := testkit.Value(r.meter.Throttled())(t)
		f.throttled = throttled.Seconds()
	}
	if peak, err := r.meter.MemoryPeak(); err == nil {
		f.peak = float64(peak)
	}
	if f.sworn > f.cpu+f.slack || f.peak > 0 && f.most > f.peak+mib {
		t.Errorf("the truth contradicts itself: the processes say %.4f s, %s; their cgroup %.4f s, %s",
			f.sworn, quantity(f.most, procstats.Bytes), f.cpu, quantity(f.peak, procstats.Bytes))
	}
}

// joinedBelow reports whether what the task used at its start was not counted by a folder of the meter.
func (r *randomRun) joinedBelow(folder string) bool {
	return slices.ContainsFunc(r.joins, func(join string) bool { return strings.HasPrefix(join, folder+"/") })
}
