// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package datadir

import (
	"errors"
	"fmt"
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

// setUmask sets the umask of the process until the test ends: no other one may run beside it.
func setUmask(t *testing.T, umask int) {
	t.Helper()
	before := syscall.Umask(umask)
	t.Cleanup(func() { syscall.Umask(before) })
}

// TestModes holds the modes and owners of all directories, for umasks and the users of an allocation's tasks.
func TestModes(t *testing.T) {
	const agents = 0
	if os.Getuid() != agents {
		t.Skip("only root makes directories for others")
	}
	// Of users, two may have one id; the mode of what is shared follows from these.
	users := map[string]struct {
		ids    []int
		shared fs.FileMode
	}{
		"the agent's": {[]int{agents}, 0o700}, "the agent's twice": {[]int{agents, agents}, 0o700},
		"one": {[]int{1234}, 0o700}, "one twice": {[]int{1234, 1234}, 0o700},
		"two": {[]int{1234, 2345}, fs.ModeSticky | 0o777}, "one and the agent's": {[]int{1234, agents}, fs.ModeSticky | 0o777},
		"the agent's and one": {[]int{agents, 1234}, fs.ModeSticky | 0o777}, "one and none": {[]int{1234, -1}, fs.ModeSticky | 0o777},
	}
	for _, umask := range []int{0, 0o022, 0o027, 0o077, 0o777} {
		for name, test := range users {
			t.Run(fmt.Sprintf("%03o/%s", umask, name), func(t *testing.T) {
				top := t.TempDir()
				setUmask(t, umask)
				dataDir := filepath.Join(top, "missing", "data")
				testkit.Must(t, MakePassing(dataDir))
				a := In(dataDir, "id")
				var owners []*Owner
				for _, id := range test.ids {
					owner := &Owner{UID: id, GID: id}
					if id == agents {
						owner = nil
					}
					owners = append(owners, owner)
				}
				want := map[string]string{} // modes and owners
				expect := func(path string, mode fs.FileMode, uid int) { want[path] = fmt.Sprint(mode|fs.ModeDir, uid) }
				sharer := test.ids[0]
				if test.shared.Perm() == 0o777 {
					sharer = agents
				}
				for _, path := range []string{"missing", "missing/data", "missing/data/id", "missing/data/id/alloc"} {
					expect(path, 0o711, agents)
				}
				expect("missing/data/id/alloc/data", test.shared, sharer)
				expect("missing/data/id/alloc/tmp", test.shared, sharer)
				for range 2 { // again changes nothing
					testkit.Must(t, a.MakeShared(owners))
				}
				for i, owner := range owners {
					task, own := fmt.Sprint("t", i), fs.FileMode(0o700)
					if owner == nil {
						own = 0o755
					}
					if test.ids[i] < 0 {
						continue // no start of it comes so far
					}
					testkit.Must(t, a.Make(task, owner))
					testkit.Must(t, WriteFile(a.Task(task), "local/of/template/file", nil, 0o640, owner))
					path := filepath.Join("missing/data/id", task)
					for name, mode := range map[string]fs.FileMode{
						"": own, "local": own, "secrets": 0o700, "tmp": 0o700, "local/of": 0o755, "local/of/template": 0o755,
					} {
						expect(filepath.Join(path, name), mode, test.ids[i])
					}
				}
				got := map[string]string{}
				testkit.Must(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
					if err != nil || !entry.IsDir() || path == top || path == a.Logs() {
						return err
					}
					info, err := entry.Info()
					got[path[len(top)+1:]] = fmt.Sprint(info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
					return err
				}))
				testkit.Diff(t, "modes and owners", want, got)
				testkit.NoError(t, a.Remove(t.Context()))
			})
		}
	}
}

// TestMakePassing holds what becomes of a directory that is there, as mktemp(1) or an agent with a strict umask made it.
func TestMakePassing(t *testing.T) {
	for mode, want := range map[fs.FileMode]fs.FileMode{0o700: 0o711, 0o750: 0o751, 0o711: 0o711, 0o755: 0o755} {
		dir := t.TempDir()
		if os.Getuid() != 0 { // its tasks have its user
			want = mode
		}
		testkit.Must(t, os.Chmod(dir, mode))
		testkit.NoError(t, MakePassing(dir))
		testkit.Equal(t, testkit.Value(os.Stat(dir))(t).Mode().Perm(), want, "mode of a directory of %o", mode)
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	if err := MakePassing(file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file: %v", err)
	}
	if err := MakePassing(filepath.Join(file, "below")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
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
