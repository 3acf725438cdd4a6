// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"cmp"
	"math"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/e2e/truth"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

var must = testkit.Must

// subject is a workload under measurement, and what is held against it.
type subject struct {
	name string
	// workload is the name of the workload, where it is not the subject's own.
	workload string
	// flags are those of tacho run besides those of the mode.
	flags []string
	// launcher is put in front of tacho.
	launcher []string
	// loses says what is lost without a cgroup, for a reason that tacho cannot mend.
	loses bool
	// disk says that others must have nothing left to write. The kernel charges the metadata that sync(2) writes to its
	// caller, also for what others have changed: so the workload does not call it.
	disk  bool
	check func(*testing.T, run)
}

// run is a measured workload.
type run struct {
	mode    rig.Mode
	subject subject
	place   *rig.Place
	// meter is the cgroup that counts beside us; nil where there can be none.
	meter   *rig.Parent
	truth   truth.Truth
	record  *record.Record
	reports []*record.Usage
}

func subjects() []subject {
	fast := []string{"--interval", "200ms", "--report-interval", "1s", "--sampling-budget", "100"}
	second := []string{"--interval", "1s", "--report-interval", "60s"}
	all := append(slices.Clip(fast), "--measurements", "all")
	return []subject{
		{name: "churn", flags: fast, check: unattributed},
		{name: "threads", flags: fast},
		{name: "hundred", flags: fast, check: hundredRows},
		{name: "abandon", flags: fast},
		{name: "ignore", flags: fast, loses: true},
		{
			name: "churn, SIGCHLD ignored before", workload: "churn", flags: fast,
			launcher: []string{rig.Workload(), "launch", "-ignore-sigchld", "--"},
		},
		{name: "daemons", flags: fast},
		{name: "reap-io", flags: all, check: reapedIO},
		{name: "shared", flags: all, check: sharedOnce},
		{name: "cache", flags: all, disk: true, check: cacheApart},
		{name: "spike", flags: second, check: spikePeak},
		{name: "io-direct", flags: all, disk: true, check: storageIO},
		{name: "io-buffered", flags: all, disk: true, check: storageIO},
		{name: "sleep", flags: fast},
		{name: "short", flags: second, check: oneReport},
	}
}

// TestTruth measures workloads that know what they use, and logs reported beside true.
func TestTruth(t *testing.T) {
	rig.Require(t)
	for _, m := range rig.Modes() {
		t.Run(m.String(), func(t *testing.T) {
			for _, s := range subjects() {
				t.Run(s.name, func(t *testing.T) { measure(t, m, s) })
			}
			t.Run("launcher", func(t *testing.T) { measureLauncher(t, m) })
		})
	}
}

// measure runs one workload under tacho and holds the record against the truth.
func measure(t *testing.T, m rig.Mode, s subject) {
	r := run{mode: m, subject: s, place: rig.NewPlace(t, m.User)}
	flags, meter := m.Place(t)
	r.meter = meter
	if s.disk {
		unix.Sync()
	}
	command := []string{rig.Workload(), "-truth", r.place.Path("truth"), "-dir", r.place.Dir}
	if os.Getenv("TACHO_GUEST") != "" {
		command = append(command, "-shells", "10") // a process takes ten times as long where the processor is emulated
	}
	if meter != nil && m.Placement == rig.None {
		command = append(command, "-meter", meter.CPUFolder())
	}
	r.finish(t, slices.Concat(flags, s.flags, []string{"--"}, command, []string{cmp.Or(s.workload, s.name)}))
	r.truth = testkit.Value(truth.Read(r.place.Path("truth")))(t)
	r.checkCPU(t)
	r.checkRows(t)
	if s.check != nil {
		s.check(t, r)
	}
}

// finish runs tacho to its end and reads what it and the workload have written.
func (r *run) finish(t *testing.T, args []string) {
	t.Helper()
	cmd := r.place.Run(t.Context(), args...)
	if len(r.subject.launcher) > 0 {
		cmd = r.place.Command(t.Context(), r.subject.launcher[0], append(r.subject.launcher[1:], cmd.Args...)...)
	}
	out := rig.Capture(t, cmd)
	if out.Code == exitUnsupported {
		t.Skip(out.Stderr)
	}
	if out.Code != 0 {
		t.Fatalf("exit code %d\nstdout: %s\nstderr: %s", out.Code, out.Stdout, out.Stderr)
	}
	if out.Stdout != "" {
		t.Errorf("stdout has %q of tacho's own", out.Stdout)
	}
	entry := r.place.TheRun(t)
	r.record, r.reports = entry.Record, rig.Reports(t, entry)
	if r.record.State != record.Exited || r.record.Diagnosis.Verdict != record.Completed {
		t.Errorf("state %q, verdict %q: %s", r.record.State, r.record.Diagnosis.Verdict, r.record.Diagnosis.Summary)
	}
	for _, left := range r.place.Leftovers() {
		t.Errorf("left behind: %s", left)
	}
}

// exitUnsupported is how a workload says that this host cannot carry it out.
const exitUnsupported = 77

// TestWorkload compares what the workloads say of themselves with the meters that a test can set up without
// tacho: wait4(2) for the CPU time of all that is waited for, a cgroup for all there is.
func TestWorkload(t *testing.T) {
	rig.Require(t)
	for _, s := range subjects() {
		if s.workload != "" {
			continue // another subject has it
		}
		t.Run(s.name, func(t *testing.T) {
			place := rig.NewPlace(t, rig.Self())
			meter, err := rig.NewParent(t, rig.Self())
			args := []string{"-truth", place.Path("truth"), "-dir", place.Dir}
			if err != nil {
				t.Logf("no cgroup as a meter: %v", err)
			} else {
				args = append(args, "-meter", meter.CPUFolder())
			}
			cmd := place.Command(t.Context(), rig.Workload(), append(args, s.name)...)
			out := rig.Capture(t, cmd)
			if out.Code == exitUnsupported {
				t.Skip(out.Stderr)
			}
			if out.Code != 0 {
				t.Fatalf("exit code %d: %s", out.Code, out.Stderr)
			}
			known := testkit.Value(truth.Read(place.Path("truth")))(t)
			waited := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
			within(t, "wait4", waited, known.CPU.Own+known.CPU.Waited)
			if meter == nil {
				return
			}
			used := testkit.Value(meter.CPU())(t)
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
