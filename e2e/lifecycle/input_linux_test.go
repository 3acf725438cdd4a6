// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestRunRefuses checks wrong input: one line, the right code, nothing started, nothing left behind.
func TestRunRefuses(t *testing.T) {
	// The command that must not be started leaves a file where it was.
	touch := []string{"--", "/usr/bin/touch", "started"}
	tests := []struct {
		name string
		args []string
		code int
		// mentions is what the line must have in it.
		mentions string
	}{
		{"no command", nil, 125, "command"},
		{"no command after the dashes", []string{"--"}, 125, "command"},
		{"unknown flag", slices.Concat([]string{"--no-such-flag"}, touch), 125, "no-such-flag"},
		{"interval that is none", slices.Concat([]string{"--interval", "banana"}, touch), 125, "banana"},
		{"interval below zero", slices.Concat([]string{"--interval", "-1s"}, touch), 125, "interval"},
		{"report interval that is none", slices.Concat([]string{"--report-interval", "banana"}, touch), 125, "banana"},
		{"report interval below zero", slices.Concat([]string{"--report-interval", "-1s"}, touch), 125, "report-interval"},
		{"timeout below zero", slices.Concat([]string{"--timeout", "-5s"}, touch), 125, "timeout"},
		{"label without a value", slices.Concat([]string{"--label", "justakey"}, touch), 125, "justakey"},
		{"unknown format", slices.Concat([]string{"--format", "xml"}, touch), 125, "xml"},
		{"unknown placement", slices.Concat([]string{"--cgroup", "v3"}, touch), 125, "v3"},
		{"cgroup that is not there", slices.Concat([]string{"--cgroup-parent", "/no/such/group"}, touch), 125, "/no/such/group"},
		{"capture of something else", slices.Concat([]string{"--capture", "stdin"}, touch), 125, "stdin"},
		{"record to a closed descriptor", slices.Concat([]string{"--format", "json", "--record-fd", "97"}, touch), 125, "97"},
		{"record to a file in no folder", slices.Concat([]string{"--format", "json", "--record-file", "no/such/folder/r"}, touch), 125, "no/such/folder"},
		{"folder that cannot be", slices.Concat([]string{"--output-dir", "/proc/none"}, touch), 125, "/proc/none"},
		{"folder below a file", slices.Concat([]string{"--output-dir", "/etc/passwd/runs"}, touch), 125, "/etc/passwd"},
		{"unknown measurement", slices.Concat([]string{"--measurements", "cgroup_memory_peek_bytes"}, touch), 125, "cgroup_memory_peak_bytes"},
		{"no such command", []string{"--", "no-such-command-anywhere"}, 127, "no-such-command-anywhere"},
		{"no such file", []string{"--", "./no-such-file"}, 127, "no-such-file"},
		{"file that is not executable", []string{"--", "./plain"}, 126, "plain"},
		{"file that is no program", []string{"--", "./garbage"}, 126, "garbage"},
		{"folder as a command", []string{"--", "./folder"}, 126, "folder is a directory"},
		{"script without its interpreter", []string{"--", "./script"}, 126, "script: its interpreter /no/such/interpreter does not exist"},
		{"file in a folder that is a file", []string{"--", "./plain/x"}, 127, "plain is not a directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			place := newPlace(t, rig.Self())
			give(t, place)
			out := rig.Capture(t, place.Run(t.Context(), test.args...))
			testkit.Equal(t, out.Code, test.code, "exit code")
			if fault := oneLine(out.Stderr, test.mentions); fault != "" {
				t.Errorf("%s: stderr %q", fault, out.Stderr)
			}
			if out.Stdout != "" {
				t.Errorf("stdout %q, want nothing", out.Stdout)
			}
			if _, err := os.Stat(place.Path("started")); err == nil {
				t.Error("the command was started")
			}
			nothingRecorded(t, place, test.code)
		})
	}
}

// TestRunRefusesAFolderOfOthers is the unwritable folder of a user whom permissions bind.
func TestRunRefusesAFolderOfOthers(t *testing.T) {
	place := newPlace(t, rig.Unprivileged())
	testkit.Must(t, os.Mkdir(place.Out, 0o500))
	out := rig.Capture(t, place.Run(t.Context(), "--", "/usr/bin/touch", "started"))
	testkit.Equal(t, out.Code, 125, "exit code")
	if fault := oneLine(out.Stderr, place.Out); fault != "" {
		t.Errorf("%s: stderr %q", fault, out.Stderr)
	}
	if _, err := os.Stat(place.Path("started")); err == nil {
		t.Error("the command was started")
	}
}

// give puts files into a place that look like commands and are none.
func give(t *testing.T, place *spot) {
	t.Helper()
	testkit.Must(t, os.WriteFile(place.Path("plain"), []byte("#!/bin/true\n"), 0o644))
	testkit.Must(t, os.WriteFile(place.Path("garbage"), []byte{0x7f, 'E', 'L', 'F', 0, 0, 0, 0}, 0o755))
	testkit.Must(t, os.WriteFile(place.Path("script"), []byte("#!/no/such/interpreter -x\n"), 0o755))
	testkit.Must(t, os.Mkdir(place.Path("folder"), 0o755))
}

// nothingRecorded checks that there is no record of a run that was refused. One of a command that could not be
// started says so.
func nothingRecorded(t *testing.T, place *spot, code int) {
	t.Helper()
	recorded := false
	for _, run := range place.Runs(t) {
		r := run.Record
		recorded = true
		if code == 125 || r.State != record.Exited || r.Diagnosis.Verdict != record.StartFailed {
			t.Errorf("left behind: a record with state %q and verdict %q", r.State, r.Diagnosis.Verdict)
		}
		if r.Diagnosis.Reason == "" || !strings.Contains(r.End().Summary, r.Diagnosis.Reason) {
			t.Errorf("summary %q, want it to have the reason %q", r.End().Summary, r.Diagnosis.Reason)
		}
	}
	if !recorded && (code == 126 || code == 127) {
		t.Error("no record of a command that could not be started")
	}
}
