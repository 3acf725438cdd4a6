// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// shortDir makes a directory whose path leaves room for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := testkit.Value(os.MkdirTemp("/tmp", "t"))(t)
	t.Cleanup(func() { testkit.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// mounted makes a directory with a file system of its own.
func mounted(t *testing.T, flags uintptr, options string) string {
	t.Helper()
	dir := shortDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { testkit.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// TestRuntimeDirFaults makes each directory that the environment names useless in each way: the error names it with the
// reason, and another one is taken.
func TestRuntimeDirFaults(t *testing.T) {
	const id = 20
	root := os.Geteuid() == 0
	// Each makes base, where the runtime directory would be name, useless.
	faults := map[string]struct {
		base func(t *testing.T, name string) string
		want string
	}{
		"missing":  {func(t *testing.T, _ string) string { return filepath.Join(shortDir(t), "x") }, "no such file"},
		"relative": {func(*testing.T, string) string { return "run" }, `is not an absolute path`},
		"too long": {func(t *testing.T, _ string) string {
			dir := filepath.Join(shortDir(t), strings.Repeat("x", LongestRuntimeDir(id)))
			testkit.Must(t, os.Mkdir(dir, 0o700))
			return dir
		}, "bytes; at most 69"},
		"a file":   {func(*testing.T, string) string { return "/etc/passwd" }, "not a directory"},
		"procfs":   {func(*testing.T, string) string { return "/proc/self" }, "no such file"},
		"full":     {func(t *testing.T, _ string) string { return mounted(t, 0, "mode=700,size=8k") }, "no space left"},
		"no inode": {func(t *testing.T, _ string) string { return mounted(t, 0, "mode=700,nr_inodes=2") }, "no space left"},
		"read-only": {func(t *testing.T, _ string) string {
			return mounted(t, unix.MS_RDONLY, "mode=700")
		}, "read-only file system"},
		"another user's": {func(t *testing.T, _ string) string {
			if !root {
				return "/root"
			}
			dir := shortDir(t)
			testkit.Must(t, os.Chown(dir, 65534, -1))
			return dir
		}, map[bool]string{true: "owned by user 65534", false: "permission denied"}[root]},
		"taken by a link": {func(t *testing.T, name string) string {
			dir := shortDir(t)
			testkit.Must(t, os.Symlink("/", filepath.Join(dir, name)))
			return dir
		}, "not a directory; remove it"},
		"open to others": {func(t *testing.T, name string) string {
			dir := shortDir(t)
			testkit.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			testkit.Must(t, os.Chmod(filepath.Join(dir, name), 0o777))
			return dir
		}, "others can write to it (mode 0777)"},
	}
	for what, fault := range faults {
		t.Run(what, func(t *testing.T) {
			for variable, name := range map[string]string{
				"XDG_RUNTIME_DIR": "tacho", "TMPDIR": "tacho-" + strconv.Itoa(os.Geteuid()),
			} {
				t.Setenv("XDG_RUNTIME_DIR", "")
				bad := fault.base(t, name)
				t.Setenv(variable, bad)
				all := candidates()
				i := slices.Index(all, candidate{filepath.Join(bad, name), bad})
				if i < 0 {
					t.Fatalf("%s: %q lacks %s", variable, all, bad)
				}
				checks := []func(string) error{CheckRoom}
				if got, err := findUsable(all[i:i+1], id, checks); err == nil || !strings.Contains(err.Error(), fault.want) {
					t.Errorf("%s: found %q, %v; want %q", variable, got, err, fault.want)
				}
				good := candidate{filepath.Join(shortDir(t), "tacho"), ""}
				if got, err := findUsable([]candidate{all[i], good}, id, checks); got != good.dir || err != nil {
					t.Errorf("%s: found %q, %v; want %s", variable, got, err, good.dir)
				}
				if got, err := FindRuntimeDir("", id, CheckRoom); err != nil || got == all[i].dir {
					t.Errorf("%s: found %q, %v", variable, got, err)
				}
				if dirs := ExistingRuntimeDirs(); slices.Contains(dirs, all[i].dir) && checkOwn(all[i].dir) != nil {
					t.Errorf("%s: listed %q", variable, dirs)
				}
			}
		})
	}
}

// TestRuntimeDirOrder holds that what the environment says comes first, except for what only login sessions have, and
// that an error has each directory.
func TestRuntimeDirOrder(t *testing.T) {
	root := os.Geteuid() == 0
	own := "/tacho-" + strconv.Itoa(os.Geteuid())
	t.Setenv("HOME", "/nowhere")
	t.Setenv("XDG_CACHE_HOME", "")
	for _, test := range []struct{ chosen, temporary, want string }{
		{"/a", "/b", "/a/tacho /run/tacho /b/tacho /tmp/tacho /var/tmp/tacho /nowhere/.cache/tacho/run"},
		{"", "", "/run/tacho /tmp/tacho /var/tmp/tacho /nowhere/.cache/tacho/run"},
		{"/run/user/0", "/var/tmp", "/run/tacho /run/user/0/tacho /var/tmp/tacho /tmp/tacho /nowhere/.cache/tacho/run"},
	} {
		t.Setenv("XDG_RUNTIME_DIR", test.chosen)
		t.Setenv("TMPDIR", test.temporary)
		want := strings.NewReplacer("/b/tacho", "/b"+own, "tmp/tacho", "tmp"+own).Replace(test.want)
		if !root {
			want = strings.ReplaceAll(" "+want, " /run/tacho", "")[1:]
		}
		var got []string
		for _, c := range candidates() {
			got = append(got, c.dir)
		}
		testkit.Equal(t, strings.Join(got, " "), want, "%+v", test)
	}
	_, err := findUsable([]candidate{{"a/tacho", "a"}, {"/nowhere/tacho", "/nowhere"}}, 1, nil)
	const want = `no directory for the sockets of executors: "a/tacho" is not an absolute path; ` +
		"stat /nowhere: no such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
