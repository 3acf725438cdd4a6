// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) {
	if code, ok := play(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(rig.Main(m))
}

const (
	mib = 1 << 20
	// deadline is how long anything may take that is expected to happen at all.
	deadline = 30 * time.Second
)

func self(t *testing.T) string {
	t.Helper()
	path := testkit.Value(os.Executable())(t)
	return path
}

// versionTwo reports whether memory is limited by version 2.
func versionTwo() bool {
	_, err := os.Stat("/sys/fs/cgroup/memory.stat")
	if err == nil {
		return true
	}
	_, err = os.Stat("/sys/fs/cgroup/memory")
	return err != nil
}

// end is what a record says of an OOM kill.
type end struct {
	Code      int
	Verdict   record.Verdict
	Kills     int64
	Group     bool
	Scope     record.Scope
	OOMKilled bool
	Retryable bool
	// MainVictim reports that the victim is the main process.
	MainVictim bool
}

// endOf reads it, and holds what every such record has to have.
func endOf(t *testing.T, r *record.Record) end {
	t.Helper()
	d := r.Diagnosis
	e := end{Verdict: d.Verdict, Group: d.OOM.Group, Scope: d.OOM.Scope, OOMKilled: d.OOMKilled, Retryable: d.Retryable, Kills: -1}
	if r.ExitCode != nil {
		e.Code = *r.ExitCode
	}
	if d.OOM.Kills != nil {
		e.Kills = *d.OOM.Kills
	}
	if v := d.OOM.Victim; v != nil {
		e.MainVictim = v.PID == r.PID
	}
	t.Logf("%s: %s", d.Verdict, d.Summary)
	return e
}

// hold compares the end with what it should be. A kill has to come with its victim and with the evidence.
func hold(t *testing.T, r *record.Record, want end) {
	t.Helper()
	testkit.Diff(t, "end", want, endOf(t, r))
	d := r.Diagnosis
	if d.Summary == "" {
		t.Error("no sentence for the user")
	}
	if want.Scope == "" {
		return
	}
	if d.Operator == "" || len(d.Evidence) == 0 || len(d.OOM.Notices) == 0 {
		t.Errorf("operator %q, evidence %v, notices %v: want all of them", d.Operator, d.Evidence, d.OOM.Notices)
	}
	v := d.OOM.Victim
	if v == nil {
		t.Errorf("no victim: %s", d.OOM.Reason)
		return
	}
	// A child has the name under which it was started.
	if main := filepath.Base(self(t)); v.Command != main && v.Command != "exe" {
		t.Errorf("victim %q, want %q or exe", v.Command, main)
	}
	least := int64(1)
	if v.Source == record.FromKmsg && !want.Group { // of a group the main process is named, which ate nothing
		least = 16 * mib
	}
	switch {
	case v.RSSBytes == nil:
		t.Error("the victim's memory is not known")
	case *v.RSSBytes < least:
		t.Errorf("the victim had %d bytes, want at least %d", *v.RSSBytes, least)
	}
}

// run has tacho run a role to its end.
func run(t *testing.T, parent *rig.Parent, flags []string, role ...string) *record.Record {
	t.Helper()
	place := rig.NewPlace(t, rig.Self())
	args := append([]string{"--cgroup-parent", parent.Path, "--interval", "100ms", "--live", "never"}, flags...)
	args = append(append(args, "--", self(t)), role...)
	out := rig.Capture(t, place.Run(t.Context(), args...))
	r := place.TheRun(t).Record
	const exitTimedOut = 124
	timedOut := r.Diagnosis.Verdict == record.TimedOut && out.Code == exitTimedOut
	if r.State != record.Exited || r.ExitCode == nil || out.Code != *r.ExitCode && !timedOut {
		t.Errorf("exit code %d, state %s\nstdout: %s\nstderr: %s", out.Code, r.State, out.Stdout, out.Stderr)
	}
	if out.Code == roleFailed {
		t.Errorf("the role failed: %s", out.Stderr)
	}
	for _, left := range place.Leftovers() {
		t.Errorf("left behind: %s", left)
	}
	return r
}
