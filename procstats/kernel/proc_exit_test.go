// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/procstats"
)

// In the format of proc_pid_stat(5): a process that waits, one that a signal ends, a zombie that a SIGKILL has ended, and one whose
// first thread has ended.
const (
	waitingStat  = "7 (a) b) S 1 7 7 0 -1 4194560 92 0 0 0 0 0 0 0 20 0 1 0 5152 3100672 231 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	signaledStat = "7 (a) b) R 1 7 7 0 -1 4195588 92 0 0 0 0 0 0 0 20 0 1 0 5152 3100672 231 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	zombieStat   = "7 (a) b) Z 1 7 7 0 -1 4228356 92 0 0 0 0 0 0 0 20 0 1 0 5152 0 0 18446744073709551615 0 0 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 9\n"
	leaderStat   = "7 (a) b) Z 1 7 7 0 -1 4227084 92 0 0 0 0 0 0 0 20 0 4 0 5152 0 0 18446744073709551615 0 0 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)

func TestReadExit(t *testing.T) {
	id := procstats.ProcessID{PID: 7, Start: 5152}
	tests := []struct {
		name, stat, status string
		want               Exit
	}{
		{"waits", waitingStat, "Name:\ta\n", Exit{ProcessID: id}},
		{"ends because of a signal", signaledStat, "", Exit{ProcessID: id, Signaled: true}},
		{"zombie", zombieStat, "ShdPnd:\t0000000000000100\n", Exit{ProcessID: id, Zombie: true, Signaled: true, Status: 9}},
		{"the first of several threads has ended", leaderStat, "", Exit{ProcessID: id}},
		{"a signal for the process", waitingStat, "Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n", Exit{ProcessID: id, Pending: 0x100}},
		{"signals for both", waitingStat, "SigPnd:\t0000000000000100\nShdPnd:\t0000000000004000\n", Exit{ProcessID: id, Pending: 0x4100}},
		{"blocked and caught signals", waitingStat, "SigBlk:\t0000000000000100\nSigCgt:\t0000000000000100\n", Exit{ProcessID: id}},
		{"not a mask", waitingStat, "SigPnd:\tx\n", Exit{ProcessID: id}},
	}
	for _, test := range tests {
		fs := writeTree(t, map[string]string{"7/stat": test.stat, "7/status": test.status})
		got, err := ReadExit(fs, 7)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	if _, err := ReadExit(writeTree(t, map[string]string{"7/stat": waitingStat[:80]}), 7); !errors.Is(err, ErrFormat) {
		t.Errorf("cut short: %v", err)
	}
	for _, files := range []map[string]string{{}, {"7/stat": waitingStat}} {
		if _, err := ReadExit(writeTree(t, files), 7); !Gone(err) {
			t.Errorf("gone: %v", err)
		}
	}
}

func TestProcesses(t *testing.T) {
	fs := writeTree(t, map[string]string{"1/comm": "init\n", "22/comm": "a b\n\n", "self/comm": "x", "uptime": "1", "-3/x": "", "0/x": ""})
	pids, err := Processes(fs)
	if diff := cmp.Diff([]int{1, 22}, pids); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if comm, err := Comm(fs, 22); comm != "a b\n" || err != nil {
		t.Errorf("comm %q, %v", comm, err)
	}
	if _, err := Comm(fs, 3); !Gone(err) {
		t.Errorf("comm of no process: %v", err)
	}
	if _, err := Processes(FS{Proc: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a proc: %v", err)
	}
}

func TestInInitialPIDNamespace(t *testing.T) {
	fs := FS{Proc: t.TempDir()}
	if InInitialPIDNamespace(fs) {
		t.Error("unknown is taken for the first namespace")
	}
	link := filepath.Join(fs.Proc, "self", "ns", "pid")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]bool{"pid:[4026531836]": true, "pid:[4026532000]": false} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if got := InInitialPIDNamespace(fs); got != want {
			t.Errorf("%s: %v, want %v", target, got, want)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}
