// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// deadline is how long anything may take that is expected to happen at all.
const deadline = 15 * time.Second

// needShell skips where the system under test has none; guests are that small.
func needShell(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skipf("this system has no shell: %v", err)
	}
}

// spot is a place for tacho run, with the flags that say where its task goes, and the cgroup around the task; nil for
// none. At the end of the test it is as if nothing had been there.
type spot struct {
	*rig.Place

	mode   rig.Mode
	flags  []string
	parent *rig.Parent
}

// newPlace makes a place of a user; the task goes where it goes by default.
func newPlace(t *testing.T, user rig.User) *spot {
	t.Helper()
	rig.Require(t)
	place := &spot{Place: rig.NewPlace(t, user)}
	t.Cleanup(func() { nothingLeft(t, place) })
	return place
}

// placeFor makes a place for a user and a placement.
func placeFor(t *testing.T, mode rig.Mode) *spot {
	t.Helper()
	rig.Require(t)
	flags, parent := mode.Place(t)
	place := newPlace(t, mode.User)
	place.mode, place.flags, place.parent = mode, flags, parent
	return place
}

// Run returns a command of tacho run in the place.
func (s *spot) Run(ctx context.Context, args ...string) *exec.Cmd {
	return s.Place.Run(ctx, slices.Concat(s.flags, args)...)
}

// shell returns tacho run with a script.
func shell(t *testing.T, place *spot, script string, flags ...string) *exec.Cmd {
	t.Helper()
	needShell(t)
	return place.Run(t.Context(), append(flags, "--", "/bin/sh", "-c", script)...)
}

// eachMode runs a test in a place of its own for each user and placement.
func eachMode(t *testing.T, test func(t *testing.T, place *spot)) {
	for _, mode := range rig.Modes() {
		t.Run(mode.String(), func(t *testing.T) { test(t, placeFor(t, mode)) })
	}
}

// session is a command that was started, with its output to be read while it runs.
type session struct {
	cmd    *exec.Cmd
	lines  chan string
	stderr bytes.Buffer
	// ended is closed once the process is reaped; stderr is not to be read before.
	ended chan struct{}
}

func start(t *testing.T, cmd *exec.Cmd) *session {
	t.Helper()
	s := &session{cmd: cmd, lines: make(chan string, 64), ended: make(chan struct{})}
	reader, writer, err := os.Pipe()
	testkit.Must(t, err)
	cmd.Stdout, cmd.Stderr = writer, &s.stderr
	// Whoever is left behind with our pipes must not hold up the test.
	cmd.WaitDelay = 2 * time.Second
	err = cmd.Start()
	writer.Close()
	if err != nil {
		reader.Close()
		t.Fatal(err)
	}
	go s.follow(reader)
	go func() {
		defer close(s.ended)
		// How it ended is in cmd.ProcessState.
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		// It has ended by itself where the test went well.
		_ = cmd.Process.Kill()
		<-s.ended
	})
	return s
}

// follow passes lines on, as long as somebody takes them.
func (s *session) follow(out io.ReadCloser) {
	defer out.Close()
	defer close(s.lines)
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		select {
		case s.lines <- scanner.Text():
		case <-s.ended:
			return
		}
	}
}

// expect waits for a line of the command's output.
func (s *session) expect(t *testing.T, want string) {
	t.Helper()
	late := time.After(deadline)
	for {
		select {
		case line, open := <-s.lines:
			if line == want {
				return
			}
			if !open {
				t.Fatalf("the output ended without %q", want)
			}
		case <-late:
			t.Fatalf("no line %q on stdout", want)
		}
	}
}

// wait waits for the end and returns the exit code, and everything on stderr.
func (s *session) wait(t *testing.T, within time.Duration) (code int, stderr string) {
	t.Helper()
	late := time.After(within)
	for lines := s.lines; ; {
		select {
		case _, open := <-lines:
			if !open {
				lines = nil
			}
		case <-s.ended:
			return rig.Code(s.cmd.ProcessState), s.stderr.String()
		case <-late:
			t.Fatalf("%s: still running after %s", s.cmd, within)
		}
	}
}

// exits waits for the end, and holds the exit code.
func (s *session) exits(t *testing.T, want int) {
	t.Helper()
	if code, stderr := s.wait(t, deadline); code != want {
		t.Errorf("exit code %d, want %d: %s", code, want, stderr)
	}
}

// nothingLeft holds a place, and the cgroup around its task, to be as if nothing had been there.
func nothingLeft(t *testing.T, place *spot) {
	t.Helper()
	for _, left := range place.Leftovers() {
		t.Errorf("left behind: %s", left)
	}
	for _, run := range place.Runs(t) {
		// Root's executors are to be found here, those of others below the place's own temporary folder.
		for _, folder := range append(folders(run.Record), filepath.Join("/run/tacho", run.Record.ID)) {
			if _, err := os.Stat(folder); err == nil {
				t.Errorf("left behind: %s", folder)
			}
		}
	}
	if place.parent == nil {
		return
	}
	for _, folder := range place.parent.Below() {
		t.Errorf("left behind: %s", folder)
	}
}

// folders are the cgroups that were made for a task; those that others live in too stay.
func folders(r *record.Record) []string {
	if r.Cgroup == nil || r.Cgroup.Placement == "none" {
		return nil
	}
	var all []string
	for _, folder := range r.Cgroup.V1 {
		all = append(all, folder)
	}
	if r.Cgroup.V2 != "" {
		all = append(all, r.Cgroup.V2)
	}
	return all
}

// oneLine reports what is wrong with a text that should be one clear line with a word in it.
func oneLine(text, word string) string {
	trimmed := strings.TrimSuffix(text, "\n")
	switch {
	case trimmed == "":
		return "nothing was said"
	case strings.Contains(trimmed, "\n"):
		return "more than one line"
	case !strings.Contains(trimmed, word):
		return "the line does not mention " + word
	}
	return ""
}
