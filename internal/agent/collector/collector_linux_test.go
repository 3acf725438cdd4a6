// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package collector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process/processtest"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// muteVariable in its environment makes a collector never say that it reads.
const muteVariable = "TEST_COLLECTOR_MUTE"

// TestMain lets the test binary be the collector's process.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && slices.Equal(os.Args[1:3], Command) {
		for os.Getenv(muteVariable) != "" {
			_ = unix.Pause() // until it is killed
		}
		os.Exit(Main(os.Args[3:]))
	}
	os.Exit(m.Run())
}

func begin(t *testing.T, maxFileBytes int64) Options {
	t.Helper()
	o := Options{Dir: t.TempDir(), Task: "t", MaxFiles: 2, MaxFileBytes: maxFileBytes}
	ensure(t, o)
	t.Cleanup(func() {
		if err := End(t.Context(), o); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return o
}

func ensure(t *testing.T, o Options) {
	t.Helper()
	stdout, stderr, err := Ensure(o)
	if err != nil || stdout != o.stdout() || stderr != o.stderr() {
		t.Fatal(stdout, stderr, err)
	}
	if !o.Serves(stdout) || o.Serves("/dev/null") {
		t.Errorf("it serves %s: %v", stdout, o.Serves(stdout))
	}
}

// say writes as drivers do: they know nothing of a FIFO.
func say(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// files are the log files by name.
func files(t *testing.T, o Options) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(o.Dir, "t.*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = string(text)
	}
	return all
}

func pid(t *testing.T, o Options) procstats.ProcessID {
	t.Helper()
	text, err := os.ReadFile(o.lock())
	if err != nil {
		t.Fatal(err)
	}
	var id procstats.ProcessID
	if _, err := fmt.Sscan(string(text), &id.PID, &id.Start); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestWritersComeAndGo(t *testing.T) {
	o := begin(t, 1<<20)
	say(t, o.stdout(), "one\n")
	say(t, o.stderr(), "bad\n")
	before := pid(t, o)
	ensure(t, o) // as the next agent does
	if now := pid(t, o); now != before {
		t.Errorf("collector %v, was %v", now, before)
	}
	say(t, o.stdout(), "two\n")
	if err := End(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"t.stdout.0": "one\ntwo\n", "t.stderr.0": "bad\n"}
	if diff := cmp.Diff(want, files(t, o)); diff != "" {
		t.Error(diff)
	}
	if now, err := kernel.Identify(kernel.HostFS(), before.PID); err == nil && now.ProcessID == before {
		t.Error("the process is still there")
	}
	if err := End(t.Context(), o); err != nil {
		t.Errorf("end again: %v", err)
	}
	ensure(t, o)
	say(t, o.stdout(), "three\n")
	if err := End(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want["t.stdout.0"] += "three\n"
	if diff := cmp.Diff(want, files(t, o)); diff != "" {
		t.Errorf("after another start: %s", diff)
	}
}

func TestFilesAreBounded(t *testing.T) {
	o := begin(t, 1000)
	line := strings.Repeat("x", 99) + "\n"
	say(t, o.stdout(), strings.Repeat(line, 95))
	if err := End(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	all := files(t, o)
	delete(all, "t.stderr.0")
	want := map[string]string{"t.stdout.8": strings.Repeat(line, 10), "t.stdout.9": strings.Repeat(line, 5)}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}

// TestEndDoesNotWaitForever is about a process of the task that outlived it with the FIFO open.
func TestEndDoesNotWaitForever(t *testing.T) {
	o := begin(t, 1<<20)
	held, err := os.OpenFile(o.stdout(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := held.WriteString("held\n"); err != nil {
		t.Fatal(err)
	}
	if err := End(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := files(t, o)["t.stdout.0"]; got != "held\n" {
		t.Errorf("log %q", got)
	}
	if _, err := held.WriteString("more\n"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("written without a reader: %v", err)
	}
}

func TestKilledCollectorIsReplaced(t *testing.T) {
	o := begin(t, 1<<20)
	before := pid(t, o)
	// A driver that has the FIFO open does not notice, if it writes nothing meanwhile.
	held, err := os.OpenFile(o.stdout(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(before.PID, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	ensure(t, o)
	if _, err := held.WriteString("still\n"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(held.Close(), End(t.Context(), o)); err != nil {
		t.Fatal(err)
	}
	if got := files(t, o)["t.stdout.0"]; got != "still\n" {
		t.Errorf("log %q", got)
	}
}

func TestEnsureSaysWhyNot(t *testing.T) {
	o := Options{Dir: t.TempDir(), Task: "t"}
	if _, _, err := Ensure(o); err == nil || !strings.Contains(err.Error(), "0 files of 0 bytes") {
		t.Errorf("without limits: %v", err)
	}
	noChildren(t)
	if err := End(t.Context(), o); err != nil {
		t.Error(err)
	}
	o.MaxFiles, o.MaxFileBytes = 1, 1
	if err := errors.Join(os.Remove(o.stdout()), os.WriteFile(o.stdout(), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Ensure(o); err == nil || !strings.Contains(err.Error(), "is not a FIFO") {
		t.Errorf("with a file in the way: %v", err)
	}
}

// noChildren holds that no process is left to be waited for.
func noChildren(t *testing.T) {
	t.Helper()
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		t.Errorf("a process is left: %d, %v", pid, err)
	}
}

// TestMuteCollectorIsReplaced is about one that does not come to reading in time: it must not be taken for one that does.
func TestMuteCollectorIsReplaced(t *testing.T) {
	o := Options{Dir: t.TempDir(), Task: "t", MaxFiles: 2, MaxFileBytes: 1 << 20}
	t.Setenv(muteVariable, "yes")
	if _, _, err := Ensure(o); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a mute collector: %v", err)
	}
	noChildren(t)
	t.Setenv(muteVariable, "")
	ensure(t, o)
	say(t, o.stdout(), "heard\n")
	if err := End(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := files(t, o)["t.stdout.0"]; got != "heard\n" {
		t.Errorf("log %q", got)
	}
}

// TestEndWithoutPidfds ends a collector whose number is proven by the lock it holds.
func TestEndWithoutPidfds(t *testing.T) {
	o := begin(t, 1<<20)
	say(t, o.stdout(), "one\n")
	id := pid(t, o)
	processtest.WithoutPidfds(t, func() {
		if err := End(t.Context(), o); err != nil {
			t.Error(err)
		}
	})
	if got := files(t, o)["t.stdout.0"]; got != "one\n" {
		t.Errorf("log %q", got)
	}
	if kernel.Alive(kernel.HostFS(), id) {
		t.Error("it is still there")
	}
}
