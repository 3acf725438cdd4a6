// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDiskStaysOnItsFileSystem mounts another file system, the folder itself, and another folder of the same file system
// within the folder.
func TestDiskStaysOnItsFileSystem(t *testing.T) {
	if _, ok := inNamespace(t, ""); !ok {
		return
	}
	dir, outside := t.TempDir(), t.TempDir()
	writeFile(t, dir, "here", 10)
	writeFile(t, outside, "large", 1_000_000)
	for _, name := range []string{"other", "again", "beside"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	checkDisk(t, sampleOf(diskOf(t, dir, DiskLimits{Budget: time.Minute}, nil)), 4, blocksOf(t, dir,
		filepath.Join(dir, "here"), filepath.Join(dir, "other"), filepath.Join(dir, "again"), filepath.Join(dir, "beside")))
	for name, mount := range map[string]func(target string) error{
		"other":  func(target string) error { return unix.Mount("tmpfs", target, "tmpfs", 0, "") },
		"again":  func(target string) error { return unix.Mount(dir, target, "", unix.MS_BIND, "") },
		"beside": func(target string) error { return unix.Mount(outside, target, "", unix.MS_BIND, "") },
	} {
		target := filepath.Join(dir, name)
		must(t, mount(target))
		t.Cleanup(func() { noError(t, unix.Unmount(target, 0)) })
	}
	writeFile(t, dir, "other/large", 1_000_000)
	checkDisk(t, sampleOf(diskOf(t, dir, DiskLimits{Budget: time.Minute}, nil)), 1, blocksOf(t, dir, filepath.Join(dir, "here")))
}
