// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// Failpoint is a step of our processes, see package failpoint, and what happens at it.
type Failpoint struct{ Name, Action string }

func (f Failpoint) String() string { return f.Name + "/" + f.Action }

// Exhaustive reports whether tests with failpoints try them all, which takes minutes: TACHO_CHAOS=all.
func Exhaustive() bool { return os.Getenv("TACHO_CHAOS") == "all" }

// errnos are the errors that a step can fail with.
var errnos = []string{"ENOSPC", "EMFILE", "ENOMEM", "EIO"}

// Failpoints finds the steps in the source, those whose names are wanted, with all that can happen at them.
func Failpoints(t testing.TB, wanted func(name string) bool) (all []Failpoint) {
	t.Helper()
	call := regexp.MustCompile(`failpoint\.(At|Err)\("([^"]+)"\)`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range call.FindAllStringSubmatch(string(text), -1) {
			if !wanted(match[2]) {
				continue
			}
			all = append(all, Failpoint{match[2], "kill"}, Failpoint{match[2], "stop"})
			if match[1] == "Err" {
				for _, errno := range errnos {
					all = append(all, Failpoint{match[2], errno})
				}
			}
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d failpoints, %v", len(all), err)
	}
	return all
}

// TryEach tries all failpoints, or n of them by chance if they are not to be tried exhaustively, each in a test of its own, and
// prints how they went as a table.
func TryEach(t *testing.T, all []Failpoint, n int, try func(t *testing.T, f Failpoint)) {
	t.Helper()
	selected := slices.Clone(all)
	if !Exhaustive() {
		Random(t).Shuffle(len(selected), func(i, j int) { selected[i], selected[j] = selected[j], selected[i] })
		selected = selected[:min(len(all), n)]
	}
	results := make(map[Failpoint]string)
	for _, f := range selected {
		began := time.Now()
		t.Run(f.String(), func(t *testing.T) {
			results[f] = "not run"
			t.Cleanup(func() { results[f] = fmt.Sprintf("%s %.1fs", outcome(t), time.Since(began).Seconds()) })
			try(t, f)
		})
	}
	if len(results) > 0 {
		t.Logf("seconds that each try took\n%s", table(results))
	}
}

func outcome(t *testing.T) string {
	switch {
	case t.Failed():
		return "FAIL"
	case t.Skipped():
		return "skip"
	}
	return "ok"
}

// table has a row for each step and a column for all that can happen at it.
func table(results map[Failpoint]string) string {
	actions := append([]string{"kill", "stop"}, errnos...)
	var names []string
	for f := range results {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "step\t"+strings.Join(actions, "\t"))
	for _, name := range slices.Compact(names) {
		cells := []string{name}
		for _, action := range actions {
			cells = append(cells, results[Failpoint{name, action}])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // a strings.Builder never fails
	return text.String()
}

// Chaotic is a binary with failpoints.
type Chaotic struct{ Binary string }

// BuildWithFailpoints builds the binary in a directory that every user can reach.
func BuildWithFailpoints(t testing.TB) Chaotic {
	t.Helper()
	dir := testkit.Value(os.MkdirTemp("/tmp", "chaos"))(t)
	t.Cleanup(func() { testkit.NoError(t, os.RemoveAll(dir)) })
	c := Chaotic{filepath.Join(dir, "tacho")}
	build := exec.Command("go", "build", "-tags", "failpoint", "-o", c.Binary, "github.com/tachograph/tacho")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testkit.Must(t, errors.Join(os.Chmod(dir, 0o755), c.Disarm()))
	return c
}

// CopyTo copies the binary, so that its failpoints are armed for one test alone.
func (c Chaotic) CopyTo(t testing.TB, path string) Chaotic {
	t.Helper()
	copied := Chaotic{path}
	testkit.Must(t, errors.Join(copyFile(c.Binary, path), copied.Disarm()))
	return copied
}

func (c Chaotic) dir() string { return c.Binary + ".failpoints" }

// Arm lets a step fail once.
func (c Chaotic) Arm(f Failpoint) error {
	file := filepath.Join(c.dir(), f.Name)
	unnamed := file + ".unnamed" // a process may get to the step at any time
	if err := errors.Join(os.WriteFile(unnamed, []byte(f.Action), 0o666), os.Chmod(unnamed, 0o666)); err != nil {
		return err
	}
	return os.Rename(unnamed, file)
}

// Disarm removes what was armed and not reached.
func (c Chaotic) Disarm() error {
	old := fmt.Sprintf("%s.%d", c.dir(), time.Now().UnixNano()) // at once: processes may be at a step
	if err := os.Rename(c.dir(), old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Of all users: whoever gets to a step renames its file.
	return errors.Join(os.Mkdir(c.dir(), 0o777), os.Chmod(c.dir(), 0o777))
}

// Reached returns how often the step was reached since Disarm.
func (c Chaotic) Reached(f Failpoint) int {
	hit, _ := filepath.Glob(filepath.Join(c.dir(), f.Name+".[0-9]*")) // the pattern is valid
	return len(hit)
}

// Stop stops a process, and waits until each of its threads is: one that runs on may still answer.
func Stop(t testing.TB, pid int) {
	t.Helper()
	testkit.Must(t, syscall.Kill(pid, syscall.SIGSTOP))
	Eventually(t, 10*time.Second, fmt.Sprintf("process %d is stopped", pid), func() bool { return Stopped(pid) })
}

// Stopped reports whether a process is stopped, with all its threads.
func Stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is valid
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) // none of a thread that is gone, which none of a stopped process is
		_, state, found := strings.Cut(string(text[min(len(text), max(0, strings.LastIndexByte(string(text), ')'))):]), ") ")
		if !found || state[0] != 'T' {
			return false
		}
	}
	return len(threads) > 0
}
