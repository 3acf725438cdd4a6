// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package removal_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/removal"
	"github.com/tachograph/tacho/internal/testkit"
)

// trees and entries are how much is removed: the numbers of a release are 500 and 100,000.
var (
	trees   = flag.Int("trees", 60, "remove `N` trees")
	entries = flag.Int("entries", 10_000, "remove a directory of `N` entries")
)

const namespaceEnv = "TACHO_TEST_MOUNTS"

// withMounts runs the rest of a test in a mount namespace of its own, as a process; it reports whether this is that
// process.
func withMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceEnv) != "" {
		testkit.Must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", fmt.Sprint("-trees=", *trees))
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// wood makes trees as hostile tasks do.
type wood struct {
	*testing.T
	*rand.Rand
	victim string
	// stays are the entries of the tree that cannot be removed, free makes them removable.
	stays map[string]bool
	free  []func() error
	root  string
}

func (w *wood) rel(path string) string { return testkit.Value(filepath.Rel(w.root, path))(w.T) }

func (w *wood) keep(path string, undo func() error) {
	w.stays[w.rel(path)] = true
	w.free = append(w.free, undo)
}

func (w *wood) mount(dir, source, kind string, flags uintptr, options string) {
	testkit.Must(w.T, unix.Mount(source, dir, kind, flags, options))
	w.keep(dir, func() error { return unix.Unmount(dir, unix.MNT_DETACH) })
}

// flag sets a flag of chattr(1); where the file system has none, nothing stays.
func (w *wood) flag(path string, flag int) {
	change := func(path string, with func(flags int) int) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		if err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, with(flags))
	}
	if change(path, func(flags int) int { return flags | flag }) != nil {
		return
	}
	w.keep(path, func() error { return change(path, func(flags int) int { return flags &^ flag }) })
}

func (w *wood) dir(parent string) string {
	name := fmt.Sprint("d", w.Uint32())
	if w.IntN(4) == 0 {
		name = (name + strings.Repeat("n\n\x01", 90))[:255]
	}
	path := filepath.Join(parent, name)
	testkit.Must(w.T, os.Mkdir(path, []fs.FileMode{0o755, 0o500, 0}[w.IntN(3)]))
	return path
}

func (w *wood) file(parent string) string {
	path := filepath.Join(parent, fmt.Sprint("f", w.Uint32()))
	testkit.Must(w.T, os.WriteFile(path, []byte("x"), 0o644))
	return path
}

// grow puts one entry into a directory.
func (w *wood) grow(parent string, depth int) {
	const flagImmutable, flagAppend = 0x10, 0x20
	path := filepath.Join(parent, fmt.Sprint("e", w.Uint32()))
	switch w.IntN(15) {
	case 0:
		testkit.Must(w.T, os.Symlink(w.victim, path))
	case 1:
		testkit.Must(w.T, unix.Mkfifo(path, 0o600))
	case 2:
		testkit.Must(w.T, unix.Mknod(path, unix.S_IFSOCK|0o600, 0))
	case 3:
		w.mount(w.dir(parent), w.victim, "", unix.MS_BIND, "")
	case 4:
		w.mount(w.file(parent), filepath.Join(w.victim, "file"), "", unix.MS_BIND, "")
	case 5:
		dir := w.dir(parent)
		w.mount(dir, "tmpfs", "tmpfs", 0, "")
		w.file(dir)
	case 6:
		dir := w.dir(parent)
		w.mount(dir, w.victim, "", unix.MS_BIND, "")
		testkit.Must(w.T, unix.Mount("tmpfs", filepath.Join(dir, "sub"), "tmpfs", 0, "")) // nested
	case 7:
		dir := w.dir(parent)
		w.mount(dir, w.root, "", unix.MS_BIND, "") // of itself
	case 8:
		w.flag(w.file(parent), flagImmutable)
	case 9:
		w.flag(w.file(parent), flagAppend)
	case 10:
		down := parent
		for range w.IntN(120) {
			down = filepath.Join(down, "x")
			if len(down) > 3000 || os.Mkdir(down, 0o755) != nil {
				return
			}
		}
		if down != parent {
			w.file(down)
		}
	case 11:
		testkit.Must(w.T, os.Link(w.file(parent), path))
	case 12: // its layers are in the tree, but for the lowest; what is written to the mount is in the upper one
		upper, work, dir := path+"u", path+"w", w.dir(parent)
		testkit.Must(w.T, errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)))
		w.mount(dir, "overlay", "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", w.victim, upper, work))
		testkit.Must(w.T, errors.Join(os.Remove(filepath.Join(dir, "file")), os.WriteFile(filepath.Join(dir, "sub/new"), nil, 0o600)))
	default:
		w.file(parent)
		if depth < 3 {
			dir := w.dir(parent)
			for range w.IntN(6) {
				w.grow(dir, depth+1)
			}
		}
	}
}

// listing is what is below a directory, with contents.
func listing(t *testing.T, dir string) (list []string) {
	t.Helper()
	testkit.Must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			info, _ := entry.Info()
			text := ""
			if info.Mode().IsRegular() {
				text = string(testkit.Value(os.ReadFile(path))(t))
			}
			list = append(list, fmt.Sprint(path, " ", info.Mode(), " ", text))
		}
		return err
	}))
	return list
}

// TestTrees removes trees of a hostile task: nothing outside is touched, and what stays is named.
func TestTrees(t *testing.T) {
	if !withMounts(t) {
		return
	}
	base := t.TempDir()
	w := &wood{T: t, victim: filepath.Join(base, "victim"), Rand: rand.New(rand.NewPCG(3, 4))}
	testkit.Must(t, os.MkdirAll(filepath.Join(w.victim, "sub/deep"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(w.victim, "file"), []byte("precious"), 0o644))
	testkit.Must(t, os.WriteFile(filepath.Join(w.victim, "sub/deep/file"), []byte("precious"), 0o600))
	before := listing(t, w.victim)
	for i := range *trees {
		w.root, w.stays, w.free = filepath.Join(base, fmt.Sprint("tree", i)), map[string]bool{}, nil
		testkit.Must(t, os.Mkdir(w.root, 0o755))
		for range 1 + w.IntN(12) {
			w.grow(w.root, 0)
		}
		err := removal.All(t.Context(), w.root)
		if diff := cmp.Diff(before, listing(t, w.victim)); diff != "" {
			t.Fatalf("tree %d: the victim differs:\n%s", i, diff)
		}
		w.check(i, err)
		slices.Reverse(w.free)
		for _, undo := range w.free {
			testkit.Must(t, undo())
		}
		if err := removal.All(t.Context(), w.root); err != nil {
			t.Fatalf("tree %d, freed: %v", i, err)
		}
		if _, err := os.Lstat(w.root); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("tree %d is there: %v", i, err)
		}
	}
}

func (w *wood) check(tree int, err error) {
	w.Helper()
	left, ok := errors.AsType[*removal.Remains](err)
	if !ok {
		if err != nil || len(w.stays) > 0 {
			w.Fatalf("tree %d: %v, %d entries stay", tree, err, len(w.stays))
		}
		return
	}
	if left.Count() != len(w.stays) {
		w.Errorf("tree %d: %d entries are named, %d stay: %v\n%q", tree, left.Count(), len(w.stays), err, slices.Collect(maps.Keys(w.stays)))
	}
	for _, e := range left.Named {
		if !w.stays[e.Path] {
			w.Errorf("tree %d: %q can be removed: %v", tree, e.Path, e.Err)
		}
	}
}

// TestMountedTop leaves a directory alone that another one was mounted on, with all that is in it.
func TestMountedTop(t *testing.T) {
	if !withMounts(t) {
		return
	}
	base := t.TempDir()
	victim, top := filepath.Join(base, "victim"), filepath.Join(base, "top")
	testkit.Must(t, errors.Join(os.Mkdir(victim, 0o755), os.Mkdir(top, 0o755)))
	testkit.Must(t, os.WriteFile(filepath.Join(victim, "file"), nil, 0o644))
	testkit.Must(t, unix.Mount(victim, top, "", unix.MS_BIND, ""))
	defer func() { testkit.Must(t, unix.Unmount(top, 0)) }()
	if err := removal.All(t.Context(), top); !errors.Is(err, removal.ErrMounted) {
		t.Error(err)
	}
	if list := listing(t, victim); len(list) != 2 {
		t.Error(list)
	}
}

// TestLast keeps what a directory is found by while anything else is left of it.
func TestLast(t *testing.T) {
	if !withMounts(t) {
		return
	}
	top := filepath.Join(t.TempDir(), "top")
	mounted, last, other := filepath.Join(top, "down/mounted"), filepath.Join(top, "last"), filepath.Join(top, "other")
	testkit.Must(t, os.MkdirAll(mounted, 0o755))
	testkit.Must(t, errors.Join(os.WriteFile(last, nil, 0o600), os.WriteFile(other, nil, 0o600)))
	testkit.Must(t, unix.Mount("tmpfs", mounted, "tmpfs", 0, ""))
	if err := removal.All(t.Context(), top, "last", "absent"); !errors.Is(err, removal.ErrMounted) {
		t.Error(err)
	}
	if _, err := os.Lstat(last); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	testkit.Must(t, unix.Unmount(mounted, 0))
	if err := removal.All(t.Context(), top, "last", "absent"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDeepAndWide removes 10,000 levels and many entries with few descriptors.
func TestDeepAndWide(t *testing.T) {
	t.Parallel()
	top := filepath.Join(t.TempDir(), "top")
	testkit.Must(t, os.Mkdir(top, 0o755))
	for i := range *entries {
		testkit.Must(t, os.Symlink("nowhere", filepath.Join(top, fmt.Sprint(i))))
	}
	at := testkit.Value(unix.Open(top, unix.O_DIRECTORY, 0))(t)
	for range 10_000 {
		testkit.Must(t, unix.Mkdirat(at, "down", 0o700))
		next := testkit.Value(unix.Openat(at, "down", unix.O_DIRECTORY, 0))(t)
		testkit.Must(t, unix.Close(at))
		at = next
	}
	testkit.Must(t, unix.Close(at))
	if err := removal.All(t.Context(), top); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestWriter removes what a writer makes meanwhile, or says that it is at work.
func TestWriter(t *testing.T) {
	t.Parallel()
	top := filepath.Join(t.TempDir(), "top")
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := 0; ctx.Err() == nil; i++ {
			_ = os.MkdirAll(filepath.Join(top, "a", fmt.Sprint(i%50)), 0o755)
			_ = os.WriteFile(filepath.Join(top, "a", fmt.Sprint(i%50), "file"), nil, 0o644)
		}
	}()
	for range 50 {
		limited, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := removal.All(limited, top); err != nil && !errors.Is(err, removal.ErrWritten) &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
	stop()
	<-written
	if err := removal.All(t.Context(), top); err != nil {
		t.Error(err)
	}
}

// TestTogether has several removers at one tree, and others that remove its directories.
func TestTogether(t *testing.T) {
	t.Parallel()
	for range 30 {
		top := filepath.Join(t.TempDir(), "top")
		for i := range 40 {
			testkit.Must(t, os.MkdirAll(filepath.Join(top, fmt.Sprint(i%4), strings.Repeat("d/", i)), 0o755))
		}
		var removers sync.WaitGroup
		for i := range 8 {
			removers.Go(func() {
				if i%2 == 0 {
					_ = os.RemoveAll(filepath.Join(top, fmt.Sprint(i/2)))
				}
				testkit.NoError(t, removal.All(t.Context(), top))
			})
		}
		removers.Wait()
		if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// TestNothing takes a path without a file for removed, and removes a file that is no directory.
func TestNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	testkit.Must(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(dir, link)))
	for _, path := range []string{filepath.Join(dir, "absent"), filepath.Join(dir, "absent/more"), file, link} {
		if err := removal.All(t.Context(), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Error(entries, err)
	}
}
