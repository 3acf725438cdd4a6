// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// statLine is a stat of Linux 6.18 with another comm in it.
func statLine(comm string) string {
	return "4242 (" + comm + ") S 4200 4242 4200 34816 4242 4194304 1510 20300 3 40 7 9 152 48 20 0 5 0 360012 8253440 921 " +
		"18446744073709551615 94005103759360 94005104484313 140723388066208 0 0 0 65536 65542 65538 1 0 0 17 0 0 0 0 0 0 " +
		"94005104717488 94005104764932 94005115625472 140723388074406 140723388074419 140723388074419 140723388076009 0\n"
}

func parsedStat(comm string) ProcStat {
	return ProcStat{
		PID: 4242, PPID: 4200, Session: 4200, Comm: []byte(comm), State: 'S', flags: 4194304, Minflt: 1510, Majflt: 3,
		Cminflt: 20300, cmajflt: 40, utime: 7, stime: 9, cutime: 152, cstime: 48, Threads: 5, Start: 360012, Sigignore: 65542,
	}
}

// hostileComms are names that processes can give themselves.
var hostileComms = []string{
	"sleep", "", " ", ")", "(", ") (", "a) R 1 1 1 (b", "tmux: server", "\n", "x\ny) Z", "\xff\xfe\x01", "((sd-pam))",
	"kworker/0:1H-events_highpri", "15 bytes of it!",
}

func TestParseProcStat(t *testing.T) {
	for _, comm := range hostileComms {
		got, err := ParseProcStat([]byte(statLine(comm)))
		if err != nil {
			t.Errorf("comm %q: %v", comm, err)
		}
		if diff := cmp.Diff(parsedStat(comm), got, cmp.AllowUnexported(ProcStat{}), cmp.Transformer("string", func(b []byte) string { return string(b) })); diff != "" {
			t.Errorf("comm %q: (-want +got)\n%s", comm, diff)
		}
	}
}

func TestParseProcStatOddities(t *testing.T) {
	tests := []struct {
		name     string
		from, to string
		want     func(*ProcStat)
	}{
		{"children's time below 0 on old kernels", " 152 48 ", " -152 -1 ", func(s *ProcStat) { s.cutime, s.cstime = 0, 0 }},
		{"a kernel thread without a parent", "S 4200 4242 4200", "I 0 0 0", func(s *ProcStat) { s.State, s.PPID, s.Session = 'I', 0, 0 }},
		{"no terminal", " 34816 4242 ", " 0 -1 ", func(*ProcStat) {}},
		{"kernels of 2.6 end behind exit_signal", " 0 0 0 0 0 0 94005104717488 94005104764932 94005115625472 140723388074406 140723388074419 140723388074419 140723388076009 0", "", func(*ProcStat) {}},
	}
	for _, test := range tests {
		line := strings.Replace(statLine("sh"), test.from, test.to, 1)
		if line == statLine("sh") {
			t.Fatalf("%s: nothing to replace", test.name)
		}
		want := parsedStat("sh")
		test.want(&want)
		got, err := ParseProcStat([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		testkit.Diff(t, test.name, want, got, cmp.AllowUnexported(ProcStat{}))
	}
}

func TestParseProcStatRefuses(t *testing.T) {
	whole := statLine("sh")
	tests := map[string]string{
		"nothing":                "",
		"no comm":                "4242 sh S 1",
		"no PID":                 "(sh) S 4200",
		"brackets turned round":  "4242 )sh( S 4200",
		"a PID that is none":     strings.Replace(whole, "4242", "x", 1),
		"a state of two letters": strings.Replace(whole, "S", "SS", 1),
		"a parent below 0":       strings.Replace(whole, "4200", "-1", 1),
		"a time that ran over":   strings.Replace(whole, " 7 9 ", " 18446744073709551615 9 ", 1),
		"cut before starttime":   whole[:strings.Index(whole, " 360012")],
		"only a comm":            "4242 (sh)",
		"a blank too few":        strings.Replace(whole, ") S", ")S", 1),
	}
	for name, line := range tests {
		if got, err := ParseProcStat([]byte(line)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got %+v, error %v, want errFormat", name, got, err)
		}
	}
}

func FuzzParseProcStat(f *testing.F) {
	for _, comm := range hostileComms {
		f.Add([]byte(statLine(comm)))
	}
	f.Add([]byte("1 (sh) S 0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseProcStat(data)
		if err != nil {
			return
		}
		if s.Own() < 0 || s.Children() < 0 || s.Own()+s.Children() < 0 || s.PID < 0 || s.PPID < 0 {
			t.Errorf("below 0: %+v", s)
		}
		if !strings.Contains(string(data), "("+string(s.Comm)+")") {
			t.Errorf("comm %q is not in %q", s.Comm, data)
		}
	})
}

// In the format of proc_pid_stat(5): a process that waits, one that a signal ends, a zombie that a SIGKILL has ended,
// and one whose first thread has ended.
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
		fs := procTree(t, map[string]string{"7/stat": test.stat, "7/status": test.status})
		got, err := ReadExit(fs, 7)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		testkit.Diff(t, test.name, test.want, got)
	}
	if _, err := ReadExit(procTree(t, map[string]string{"7/stat": waitingStat[:80]}), 7); !errors.Is(err, ErrFormat) {
		t.Errorf("cut short: %v", err)
	}
	for _, files := range []map[string]string{{}, {"7/stat": waitingStat}} {
		if _, err := ReadExit(procTree(t, files), 7); !Gone(err) {
			t.Errorf("gone: %v", err)
		}
	}
}

func TestProcesses(t *testing.T) {
	fs := procTree(t, map[string]string{"1/comm": "init\n", "22/comm": "a b\n\n", "self/comm": "x", "uptime": "1", "-3/x": "", "0/x": ""})
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
	must(t, os.MkdirAll(filepath.Dir(link), 0o755))
	for target, want := range map[string]bool{"pid:[4026531836]": true, "pid:[4026532000]": false} {
		must(t, os.Symlink(target, link))
		testkit.Equal(t, InInitialPIDNamespace(fs), want, "%s", target)
		must(t, os.Remove(link))
	}
}

// A kernel without time namespaces has the clocks of the machine.
func TestInInitialTimeNamespace(t *testing.T) {
	for target, want := range map[string]bool{"": true, "time:[4026531834]": true, "time:[4026532000]": false} {
		fs := FS{Proc: t.TempDir()}
		must(t, os.MkdirAll(filepath.Join(fs.Proc, "self", "ns"), 0o755))
		if target != "" {
			must(t, os.Symlink(target, filepath.Join(fs.Proc, "self", "ns", "time")))
		}
		testkit.Equal(t, InInitialTimeNamespace(fs), want, "%q", target)
	}
}

func TestOwnOOMScoreAdj(t *testing.T) {
	if _, err := OwnOOMScoreAdj(FS{Proc: t.TempDir()}); !Gone(err) {
		t.Errorf("without a file: %v", err)
	}
	for text, want := range map[string]int{"0\n": 0, "-1000\n": -1000, "1000\n": 1000, "": -1, "1001\n": -1, "max\n": -1} {
		got, err := OwnOOMScoreAdj(procTree(t, map[string]string{"self/oom_score_adj": text}))
		if invalid := want == -1; (err != nil) != invalid || !invalid && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
