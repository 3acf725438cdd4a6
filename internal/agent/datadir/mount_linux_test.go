// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package datadir

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestOtherMounts holds that what a task has mounted is told apart from what is its own: where it is mounted, below
// that, and for files as for directories, also of the same file system.
func TestOtherMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting takes root")
	}
	a, outside := made(t), t.TempDir()
	write(t, filepath.Join(outside, "file"), "the host's")
	local := filepath.Join(a.Task("t"), "local")
	testkit.Must(t, os.Mkdir(filepath.Join(local, "own"), 0o755))
	for _, name := range []string{"bound", "tmpfs", "self"} {
		testkit.Must(t, os.Mkdir(filepath.Join(local, name), 0o755))
	}
	write(t, filepath.Join(local, "file"), "the task's")
	write(t, filepath.Join(local, "ownfile"), "the task's")
	testkit.Must(t, os.Symlink("bound", filepath.Join(local, "link")))
	done := make(chan struct{})
	go func() { // in a mount namespace of its own, which ends with the thread
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		bind := func(from, to string) {
			testkit.NoError(t, unix.Mount(from, filepath.Join(local, to), "", unix.MS_BIND, ""))
		}
		testkit.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		bind(outside, "bound")
		bind(filepath.Join(outside, "file"), "file")
		bind(local, "self")
		testkit.NoError(t, unix.Mount("tmpfs", filepath.Join(local, "tmpfs"), "tmpfs", 0, ""))
		want := map[string]bool{
			"own": false, "ownfile": false, "link": false, "bound": true, "file": true, "self": true, "tmpfs": true,
		}
		infos, err := a.List("t/local")
		testkit.NoError(t, err)
		testkit.Equal(t, len(infos), len(want), "entries")
		for _, info := range infos {
			testkit.Equal(t, info.OtherMount, want[info.Name()], "%s listed as on another mount", info.Name())
		}
		for path, other := range map[string]bool{
			"/": false, "t/local": false, "t/local/own": false, "t/local/bound": true, "t/local/bound/file": true,
			"t/local/file": true, "t/local/self/ownfile": true, "t/local/link/file": true,
		} {
			info, err := a.Stat(path)
			testkit.NoError(t, err)
			testkit.Equal(t, info.OtherMount, other, "%s is on another mount", path)
		}
		below, err := a.List("t/local/bound")
		testkit.NoError(t, err)
		if len(below) != 1 || !below[0].OtherMount {
			t.Errorf("below what is mounted: %+v", below)
		}
	}()
	<-done
}
