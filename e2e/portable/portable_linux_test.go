// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build portable

package portable

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// system is one that tacho is tested on.
type system struct {
	windows      bool
	tacho, child string
	launch       []string // what runs a program of it
	env          []string
}

func (s *system) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command(s.launch[0], slices.Concat(s.launch[1:], []string{s.tacho}, args)...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), s.env...)
	return cmd
}

// tacho runs tacho to its end, in a directory.
func (s *system) run(t *testing.T, dir string, args ...string) (out string, code int) {
	t.Helper()
	cmd := s.command(t, args...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// last returns the record of the newest run of a directory.
func (s *system) last(t *testing.T, dir string) *record.Record {
	t.Helper()
	out, code := s.run(t, dir, "show", "last", "--format", "json")
	r := &record.Record{}
	if err := json.Unmarshal([]byte(out), r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	return r
}

func build(t *testing.T, goos, dir, pkg string, flags ...string) string {
	binary := filepath.Join(dir, filepath.Base(pkg)+".exe")
	cmd := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-o", binary, pkg})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return binary
}

const module = "github.com/tachograph/tacho"

func otherUnix(t *testing.T) *system {
	dir := t.TempDir()
	return &system{
		tacho: build(t, "linux", dir, module, "-tags", "portable"), child: build(t, "linux", dir, "./testdata/child"), launch: []string{"env"},
	}
}

// wine returns a Windows of its own.
func wine(t *testing.T) *system {
	path, err := exec.LookPath("wine")
	if err != nil {
		t.Skip("Windows is tested under Wine: apt-get install wine wine64")
	}
	dir := t.TempDir()
	s := &system{
		windows: true, launch: []string{path},
		env: []string{"WINEPREFIX=" + filepath.Join(dir, "prefix"), "WINEDEBUG=-all", "DISPLAY=", "WINEDLLOVERRIDES=mscoree=;mshtml=;winemenubuilder.exe="},
	}
	boot := exec.Command("wineboot", "--init")
	boot.Env = append(os.Environ(), s.env...)
	if out, err := boot.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", boot, err, out)
	}
	t.Cleanup(func() {
		cmd := exec.Command("wineserver", "--kill", "--wait")
		cmd.Env = append(os.Environ(), s.env...)
		_ = cmd.Run() // fails if it has ended with the last process
	})
	library := filepath.Join(dir, "prefix/drive_c/windows/system32/bcryptprimitives.dll")
	if _, err := os.Stat(library); err != nil { // Wine 8 has none, and Go needs its one function
		testkit.Must(t, os.WriteFile(library, forwarder("bcryptprimitives.dll", "ProcessPrng", "advapi32.SystemFunction036"), 0o600))
	}
	s.tacho, s.child = build(t, "windows", dir, module), build(t, "windows", dir, "./testdata/child")
	return s
}

// forwarder returns a library of Windows without code: its one function is one of another library.
func forwarder(library, function, target string) []byte {
	const section, file, table = 0x1000, 0x200, 40 + 4 + 4 + 2 // alignments; IMAGE_EXPORT_DIRECTORY and its three arrays
	names := library + "\x00" + function + "\x00" + target + "\x00"
	at := func(name string) uint32 { return section + table + uint32(strings.Index(names, name+"\x00")) }
	size := uint32(table + len(names))
	head := pe.OptionalHeader64{
		Magic: 0x20b, ImageBase: 0x180000000, SectionAlignment: section, FileAlignment: file, MajorOperatingSystemVersion: 6,
		MajorSubsystemVersion: 6, SizeOfImage: 2 * section, SizeOfHeaders: file, Subsystem: pe.IMAGE_SUBSYSTEM_WINDOWS_CUI,
		DllCharacteristics: pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT, NumberOfRvaAndSizes: 16,
	}
	head.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT] = pe.DataDirectory{VirtualAddress: section, Size: size}
	dos := [64]byte{0: 'M', 1: 'Z', 0x3c: 64}
	var all []byte
	for _, parts := range [][]any{{
		dos, []byte("PE\x00\x00"), pe.FileHeader{
			Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: 1, SizeOfOptionalHeader: uint16(binary.Size(head)),
			Characteristics: pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_DLL | pe.IMAGE_FILE_LARGE_ADDRESS_AWARE,
		}, head, pe.SectionHeader32{
			Name: [8]uint8{'.', 'e', 'd', 'a', 't', 'a'}, VirtualSize: size, VirtualAddress: section, SizeOfRawData: file,
			PointerToRawData: file, Characteristics: pe.IMAGE_SCN_CNT_INITIALIZED_DATA | pe.IMAGE_SCN_MEM_READ,
		},
	}, {
		[3]uint32{}, [7]uint32{at(library), 1, 1, 1, section + 40, section + 44, section + 48}, at(target), at(function), uint16(0), []byte(names),
	}} {
		for _, part := range parts {
			all, _ = binary.Append(all, binary.LittleEndian, part)
		}
		all = append(all, make([]byte, -len(all)&(file-1))...)
	}
	return all
}

func TestPortable(t *testing.T) {
	for name, provide := range map[string]func(*testing.T) *system{"another Unix": otherUnix, "Windows": wine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := provide(t)
			t.Run("commands", s.testCommands)
			t.Run("refused", s.testRefused)
			t.Run("record", s.testRecord)
			t.Run("ends", s.testEnds)
			t.Run("killed", s.testKilled)
			if !s.windows {
				t.Run("signals", s.testSignals)
				t.Run("terminal", s.testTerminal)
			}
		})
	}
}

func (s *system) testCommands(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"version", "tacho "}, {"doctor", "measurements are available"}, {"explain portable_rss_bytes", "Resident memory"}, {"run --help", "--timeout"},
	} {
		if out, code := s.run(t, t.TempDir(), strings.Fields(test.args)...); code != 0 || !strings.Contains(out, test.want) {
			t.Errorf("%s: exit code %d\n%s", test.args, code, out)
		}
	}
	if out, _ := s.run(t, t.TempDir(), "doctor"); s.windows && strings.Contains(out, "rusage") {
		t.Errorf("doctor promises the usage of reaped children:\n%s", out)
	}
}

// testRefused holds that what has no effect is refused by its name, and that nothing is started or left.
func (s *system) testRefused(t *testing.T) {
	flags := [][]string{
		{"--memory", "1G"},
		{"--detach"},
		{"--user", "root"},
		{"--sampling-budget", "3"},
		{"--capture", "stdout"},
		{"--measurements", "cgroup_cpu"},
	}
	if s.windows {
		flags = append(flags, []string{"--kill-grace", "1s"}, []string{"--kill-signal", "INT"}, []string{"--disk", "."}, []string{"--measurements", "rusage"})
	}
	for _, flag := range flags {
		dir := t.TempDir()
		out, code := s.run(t, dir, append(append([]string{"run"}, flag...), "--", s.child, "exit", "0")...)
		if name := flag[len(flag)-1]; code < 1 || !strings.Contains(out, flag[0]) && !strings.Contains(out, name) {
			t.Errorf("%s: exit code %d: %s", flag, code, out)
		}
		if runs, _ := filepath.Glob(filepath.Join(dir, ".tacho/runs/*")); len(runs) > 0 {
			t.Errorf("%s: left %s", flag, runs)
		}
	}
}

func (s *system) testRecord(t *testing.T) {
	dir := t.TempDir()
	measure := "default"
	if !s.windows {
		measure = "portable,rusage"
	}
	if out, code := s.run(t, dir, "run", "--measurements", measure, "--", s.child, "burn", "2", "64"); code != 0 || !strings.Contains(out, "Completed") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	r := s.last(t, dir)
	cpu, memory := r.Headline["cpu_seconds_total"].Value, r.Headline["memory_peak_bytes"].Value
	least := 0.1 // on a machine that has much else to do
	if s.windows {
		least = 0.001 // Wine 8 gives the times of the process that asks
	}
	if cpu == nil || *cpu < least || *cpu > 4 || memory == nil || *memory < 64<<20 || *memory > 1<<30 {
		t.Errorf("CPU %v, memory %v", r.Headline["cpu_seconds_total"], r.Headline["memory_peak_bytes"])
	}
	if r.State != record.Exited || r.ExitCode == nil || *r.ExitCode != 0 || r.Signal != nil || r.WallSeconds == nil || *r.WallSeconds < 2 ||
		r.SpanSeconds == nil || r.EndedAt.IsZero() || r.Diagnosis.Verdict != record.Completed || r.Samples < 4 || r.LargestGap <= 0 ||
		r.Peak == nil || len(r.Sources) == 0 || r.Processes == nil || len(r.Processes.Rows) != 1 || r.Incomplete != "" {
		t.Errorf("incomplete: %+v", r)
	}
	for _, args := range [][]string{{"ls"}, {"show", "last"}, {"export", "last"}} {
		if out, code := s.run(t, dir, args...); code != 0 || len(out) < 80 {
			t.Errorf("%s: exit code %d: %s", args, code, out)
		}
	}
}

// testEnds holds that a run has the exit code that a shell gives, and that nothing it started outlives it.
func (s *system) testEnds(t *testing.T) {
	beats := filepath.Join(t.TempDir(), "beats")
	for _, test := range []struct {
		name    string
		args    []string
		code    int
		verdict record.Verdict
	}{
		{"failed", []string{"--", s.child, "exit", "3"}, 3, record.Failed},
		{"not found", []string{"--", "no-such-command"}, 127, record.StartFailed},
		{"timed out", []string{"--timeout", "1s", "--", s.child, "tree", beats}, 124, record.TimedOut},
		{"left a process", []string{"--", s.child, "orphan", beats}, 0, record.Completed},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{"run"}
			if !s.windows && test.verdict != record.StartFailed {
				args = append(args, "--kill-grace", "200ms")
			}
			if out, code := s.run(t, dir, append(args, test.args...)...); code != test.code {
				t.Errorf("exit code %d, want %d: %s", code, test.code, out)
			}
			s.holdsStill(t, beats)
			r := s.last(t, dir)
			if r.State != record.Exited || r.Diagnosis.Verdict != test.verdict || r.Incomplete != "" {
				t.Errorf("%s, %s: %s", r.State, r.Diagnosis.Verdict, r.Diagnosis.Summary)
			}
			if test.name == "left a process" && len(r.Diagnosis.Leftovers) != 1 {
				t.Errorf("leftovers %v", r.Diagnosis.Leftovers)
			}
		})
	}
}

// holdsStill fails if a file grows: what writes it lives. It removes the file, which need not exist.
func (s *system) holdsStill(t *testing.T, file string) {
	t.Helper()
	before, _ := os.ReadFile(file)
	<-time.After(200 * time.Millisecond)
	if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
		t.Errorf("a process of the run is alive")
	}
	_ = os.Remove(file)
}

// start starts a run that has a grandchild, and returns it when that runs.
func (s *system) start(t *testing.T, beats string, flags ...string) (cmd *exec.Cmd) {
	t.Helper()
	cmd = s.command(t, slices.Concat([]string{"run"}, flags, []string{"--", s.child, "tree", beats})...)
	testkit.Must(t, cmd.Start())
	for end := time.Now().Add(20 * time.Second); ; <-time.After(20 * time.Millisecond) {
		if _, err := os.Stat(beats); err == nil {
			return cmd
		}
		if time.Now().After(end) {
			t.Fatal("the command did not start")
		}
	}
}

// testKilled holds that the command does not outlive tacho, whatever ends it, and that the record says so.
func (s *system) testKilled(t *testing.T) {
	beats := filepath.Join(t.TempDir(), "beats")
	var flags []string
	if !s.windows {
		flags = []string{"--kill-grace", "100ms"}
	}
	cmd := s.start(t, beats, flags...)
	if r := s.last(t, cmd.Dir); r.State != record.Running {
		t.Errorf("%s while it runs", r.State)
	}
	testkit.Must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	<-time.After(time.Second)
	s.holdsStill(t, beats)
	if r := s.last(t, cmd.Dir); r.State != record.Lost {
		t.Errorf("%s after the end of tacho", r.State)
	}
}

// testSignals holds that signals to tacho reach the command and all that it started.
func (s *system) testSignals(t *testing.T) {
	for _, test := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGHUP, 129}, {syscall.SIGTERM, 137}} {
		t.Run(test.signal.String(), func(t *testing.T) {
			beats := filepath.Join(t.TempDir(), "beats")
			cmd := s.start(t, beats, "--timeout", "3s", "--kill-grace", "100ms")
			testkit.Must(t, cmd.Process.Signal(test.signal))
			_ = cmd.Wait()
			s.holdsStill(t, beats)
			r := s.last(t, cmd.Dir)
			if test.signal == syscall.SIGTERM { // which the child ignores
				if test.code = 124; r.Diagnosis.Verdict != record.TimedOut || *r.Signal != 9 {
					t.Errorf("%+v", r.Diagnosis)
				}
			} else if r.Diagnosis.Verdict != record.Signaled || *r.Signal != int(test.signal) || r.Diagnosis.ForwardedSignal != *r.Signal || *r.ExitCode != test.code {
				t.Errorf("%s, signal %v, exit code %v", r.Diagnosis.Summary, *r.Signal, *r.ExitCode)
			}
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}

// testTerminal holds that a shell's job control works: keys of the terminal reach the command, and only it reads there.
func (s *system) testTerminal(t *testing.T) {
	shell := exec.Command("bash", "--norc", "-i")
	shell.Dir, shell.Env = t.TempDir(), append(os.Environ(), "PS1=$ ")
	console := rig.OpenConsole(t, shell)
	run := s.tacho + " run -q --no-files -- "
	console.Enter(t, run+"sh -c 'echo rea''dy; exec cat'\n")
	console.Expect(t, "ready\r\n")
	reads := func(text string) {
		t.Helper()
		console.Enter(t, text+"\n")
		console.Expect(t, text+"\r\n", text+"\r\n") // the echo of the terminal, and cat
	}
	reads("first")
	fg := func() { // the shell takes what is typed ahead
		console.Enter(t, "fg\n")
		console.Expect(t, "exec cat'\r\n")
	}
	console.Enter(t, "\x1a")
	console.Expect(t, "Stopped", "exec cat'\r\n")
	fg()
	reads("second")
	console.Enter(t, "\x1a")
	console.Expect(t, "Stopped", "exec cat'\r\n")
	// In the background it asks for the terminal, and is stopped.
	console.Enter(t, "bg; until jobs | grep -q Stopped; do sleep 0.1; done; echo stop''ped again\n")
	console.Expect(t, "stopped again\r\n")
	fg()
	reads("third")
	console.Enter(t, "\x03")
	console.Expect(t, "$ ")
	console.Enter(t, "echo code $?\n")
	console.Expect(t, "code 130\r\n")
	console.Enter(t, run+"sh -c 'echo rea''dy; read x; echo got $x' | cat\n") // a pager would need the terminal until then
	console.Expect(t, "ready\r\n")
	console.Enter(t, "fourth\n")
	console.Expect(t, "got fourth\r\n")
	console.Enter(t, "exit\n")
	console.Exits(t, 0)
}
