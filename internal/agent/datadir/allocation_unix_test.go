// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package datadir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func made(t *testing.T) Allocation {
	t.Helper()
	a := In(t.TempDir(), "id")
	testkit.Must(t, errors.Join(a.MakeShared(nil), a.Make("t", nil)))
	return a
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestMakeSetsModesWhateverTheUmask(t *testing.T) {
	a := made(t)
	for path, want := range map[string]fs.FileMode{
		string(a): 0o711, a.Shared(): 0o711, filepath.Join(a.Shared(), "data"): 0o777, a.Logs(): 0o700,
		filepath.Join(a.Task("t"), "secrets"): 0o700,
	} {
		info := testkit.Value(os.Stat(path))(t)
		testkit.Equal(t, info.Mode().Perm(), want, "%s has mode", path)
	}
	if err := a.Make("t", nil); err != nil {
		t.Error("again:", err)
	}
}

// TestLogsAreForTheTasks holds who can read logs, by the groups of an allocation's tasks.
func TestLogsAreForTheTasks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes directories for others")
	}
	for name, test := range map[string]struct {
		groups []int // -1 for a task of the agent's user
		mode   fs.FileMode
		group  int
	}{
		"the agent's user": {[]int{-1, -1}, 0o700, 0},
		"another user":     {[]int{1234}, 0o750, 1234},
		"both":             {[]int{-1, 1234, -1}, 0o750, 1234},
		"one group":        {[]int{1234, 1234}, 0o750, 1234},
		"two groups":       {[]int{1234, 2345, 1234}, 0o755, 1234},
	} {
		t.Run(name, func(t *testing.T) {
			a := In(t.TempDir(), "id")
			owners := make([]*Owner, len(test.groups))
			for i, group := range test.groups {
				if group >= 0 {
					owners[i] = &Owner{UID: group, GID: group}
				}
			}
			for range 2 {
				testkit.Must(t, a.MakeShared(owners))
			}
			info := testkit.Value(os.Stat(a.Logs()))(t)
			stat, ok := info.Sys().(*syscall.Stat_t)
			if got := info.Mode().Perm(); !ok || got != test.mode || int(stat.Gid) != test.group {
				t.Errorf("mode %o, group %d; want %o, %d", got, stat.Gid, test.mode, test.group)
			}
		})
	}
}

// TestWriteFileStaysInside is about a task that plants symbolic links for its agent.
func TestWriteFileStaysInside(t *testing.T) {
	a := made(t)
	outside := t.TempDir()
	testkit.Must(t, os.Symlink(outside, filepath.Join(a.Task("t"), "local", "out")))
	target := filepath.Join(outside, "file")
	write(t, target, "precious")
	testkit.Must(t, os.Symlink(target, filepath.Join(a.Task("t"), "local", "link")))
	if err := WriteFile(a.Task("t"), "local/out/file", []byte("x"), 0o644, nil); err == nil {
		t.Error("written through a linked directory")
	}
	if err := WriteFile(a.Task("t"), "../../x", []byte("x"), 0o644, nil); err == nil {
		t.Error("written outside")
	}
	testkit.NoError(t, WriteFile(a.Task("t"), "local/link", []byte("x"), 0o604, nil))
	testkit.NoError(t, WriteFile(a.Task("t"), "local/new/file", []byte("y"), 0o644, nil))
	if text, err := os.ReadFile(target); string(text) != "precious" || err != nil {
		t.Errorf("outside there is %q, %v", text, err)
	}
	if info, err := os.Lstat(filepath.Join(a.Task("t"), "local", "link")); err != nil || info.Mode() != 0o604 {
		t.Errorf("file %v, %v", info, err)
	}
}

func TestLogIsReadAsOne(t *testing.T) {
	a := made(t)
	if _, err := a.OpenLog("t", "stdout", WholeLog); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	for name, text := range map[string]string{
		"t.stdout.9": "nine ", "t.stdout.10": "ten ", "t.stdout.11": "", "t.stderr.0": "other", "t.stdout.x": "no", "tt.stdout.1": "no",
	} {
		write(t, filepath.Join(a.Logs(), name), text)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "secret")
	testkit.Must(t, os.Symlink(secret, filepath.Join(a.Logs(), "t.stdout.12")))
	log := testkit.Value(a.OpenLog("t", "stdout", WholeLog))(t)
	defer func() { testkit.NoError(t, log.Close()) }()
	read := func() string {
		text := testkit.Value(io.ReadAll(log))(t)
		return string(text)
	}
	testkit.Equal(t, read(), "nine ten ", "read")
	write(t, filepath.Join(a.Logs(), "t.stdout.11"), "eleven")
	testkit.Equal(t, read(), "eleven", "then")
	if at, err := log.Seek(-8, io.SeekEnd); at != 7 || err != nil {
		t.Errorf("at %d, %v", at, err)
	}
	testkit.Equal(t, read(), "n eleven", "the end")
	if _, err := log.Seek(-100, io.SeekCurrent); err == nil {
		t.Error("before the beginning")
	}
	other := testkit.Value(a.OpenLog("t", "stderr", WholeLog))(t)
	testkit.Diff(t, "result", []string{filepath.Join(a.Logs(), "t.stderr.0")}, other.paths)
	testkit.NoError(t, other.Close())
}
