// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func diskOf(tb testing.TB, dir string, limits DiskLimits, clock *testClock) *diskSource {
	tb.Helper()
	d := openDisk(Target{Dir: dir, Disk: limits}, procstats.SourceSelection(procstats.SourceDisk))
	if clock != nil {
		d.now = clock.now
	}
	closing(tb, d)
	return d
}

func sampleOf(source Source) *procstats.Sample {
	s := new(procstats.Sample)
	s.Stamp = kernel.Now()
	source.Collect(s)
	return s
}

// boundOf returns why the sizes of a sample are lower bounds; empty if they are not.
func boundOf(s *procstats.Sample) string {
	walk, _ := s.Task.Text(procstats.DiskWalk)
	for _, id := range []procstats.ID{procstats.DiskUsage, procstats.DiskFiles} {
		bound := procstats.Guarantees(s, nil)[id.String()] == procstats.LowerBound
		if bound != (walk != procstats.WalkComplete) {
			return fmt.Sprintf("%s is a lower bound: %v, but the walk is %q", id.String(), bound, walk)
		}
	}
	if walk == procstats.WalkComplete {
		return ""
	}
	return walk
}

func writeFile(tb testing.TB, dir, name string, size int) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	must(tb, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	if err == nil {
		// Allocated at once: some file systems put off the choice of blocks.
		_, err = f.Write(make([]byte, size))
	}
	if err == nil && size > 0 {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	must(tb, err)
	return path
}

// blocksOf adds up what the file system has allocated for some paths.
func blocksOf(tb testing.TB, paths ...string) (bytes float64) {
	tb.Helper()
	for _, path := range paths {
		var stat unix.Stat_t
		must(tb, unix.Lstat(path, &stat))
		bytes += float64(stat.Blocks * blockSize)
	}
	return bytes
}

func checkDisk(tb testing.TB, s *procstats.Sample, files int, bytes float64) {
	tb.Helper()
	for id, want := range map[procstats.ID]float64{procstats.DiskFiles: float64(files), procstats.DiskUsage: bytes} {
		r, _ := s.Task.Get(id)
		if got, ok := r.Number(); !ok || got != want {
			tb.Errorf("%s is %v (%s), want %v", id.String(), got, r.Reason(), want)
		}
	}
}

func TestDiskCountsBlocksOnce(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	plain := writeFile(t, dir, "plain", 100_000)
	deep := writeFile(t, dir, "a/b/c/deep", 10_000)
	sparse := writeFile(t, dir, "a/sparse", 10)
	must(t, os.Truncate(sparse, 1<<40))
	must(t, os.Link(plain, filepath.Join(dir, "a", "linked")))
	writeFile(t, outside, "large", 1_000_000)
	for name, target := range map[string]string{"out": outside, "self": dir, "broken": "nowhere", "a/file": deep} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	d := diskOf(t, dir, DiskLimits{Budget: time.Minute}, nil)
	if description := d.Describe(); !description.Available || description.ID != procstats.SourceDisk {
		t.Errorf("%+v", description)
	}
	join := func(name string) string { return filepath.Join(dir, name) }
	want := blocksOf(t, dir, plain, deep, sparse, join("a"), join("a/b"), join("a/b/c"), join("out"), join("self"),
		join("broken"), join("a/file"), join("pipe"))
	checkDisk(t, sampleOf(d), 11, want)
}

func TestDiskGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := 0
	for i := range 5 {
		files++ // the folder
		for j := range 2 * diskChunk {
			writeFile(t, dir, fmt.Sprintf("%d/%d", i, j), 0)
			files++
		}
	}
	clock := &testClock{mono: time.Hour, step: time.Millisecond}
	d := diskOf(t, dir, DiskLimits{Every: time.Minute, Budget: time.Millisecond}, clock)
	collections := 0
	for before := 0.0; ; {
		s := sampleOf(d)
		n, bound := mustNumber(t, s, procstats.DiskFiles), boundOf(s)
		stamp, _ := s.ReadAt(procstats.DiskFiles)
		if n < before || n > float64(files) || stamp.Mono != clock.mono {
			t.Fatalf("%v files at %v, want %v to %d at %v", n, stamp.Mono, before, files, clock.mono)
		}
		before = n
		if bound == "" {
			testkit.Equal(t, n, float64(files), "files")
			break
		}
		testkit.Equal(t, bound, walkUnderWay, "why it is a lower bound")
		if collections++; collections > 1000 {
			t.Fatal("it never ends")
		}
	}
	if want := 5 * 2; collections < want {
		t.Errorf("the walk took %d collections, want at least %d", collections, want)
	}
	done := clock.mono

	// The finished walk is repeated until the next has finished.
	writeFile(t, dir, "new", 0)
	clock.mono = done + 30*time.Second
	if d.walk != nil {
		t.Error("a walk goes on between walks")
	}
	checkRepeated := func() (repeated bool) {
		t.Helper()
		s := sampleOf(d)
		n := mustNumber(t, s, procstats.DiskFiles)
		stamp, _ := s.ReadAt(procstats.DiskFiles)
		bound := boundOf(s)
		if repeated = stamp.Mono == done; repeated && n != float64(files) || !repeated && n != float64(files+1) ||
			repeated && bound != "" || bound != "" && bound != walkUnderWay {
			t.Fatalf("%v files at %v, lower bound: %q", n, stamp.Mono, bound)
		}
		return bound != "" || repeated
	}
	if !checkRepeated() {
		t.Error("a walk was made too early")
	}
	clock.mono = done + time.Minute
	for collections = 0; checkRepeated(); collections++ {
		if collections > 1000 {
			t.Fatal("the second walk never ends")
		}
	}
	if collections == 0 {
		t.Error("the second walk was made at once")
	}
}

func TestDiskWhileTheFolderChanges(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	writeFile(t, outside, "large", 1_000_000)
	for _, name := range []string{"gone/x", "link/y", "file/z", "stays/a"} {
		writeFile(t, dir, name, 10)
	}
	clock := &testClock{mono: time.Hour, step: time.Millisecond}
	d := diskOf(t, dir, DiskLimits{Budget: time.Millisecond}, clock)
	sampleOf(d) // enters the root
	sampleOf(d) // lists it
	if len(d.walk.pending) != 4 {
		t.Fatalf("pending: %v", d.walk.pending)
	}
	for _, name := range []string{"gone", "link", "file"} {
		must(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	writeFile(t, dir, "file", 10)
	clock.step = 0
	s := sampleOf(d)
	if files := mustNumber(t, s, procstats.DiskFiles); files != 2 {
		t.Errorf("%v files, want 2: what was listed and went is not there, and no link is followed", files)
	}
}

func TestDiskThatCannotBeRead(t *testing.T) {
	tests := []struct {
		name, dir, reason string
	}{
		{"no folder", "", reasonNoDir},
		{"a folder that is not there", filepath.Join(t.TempDir(), "x"), "no such file"},
		{"a file", writeFile(t, t.TempDir(), "f", 1), "not a directory"},
	}
	for _, test := range tests {
		d := diskOf(t, test.dir, DiskLimits{}, nil)
		if description := d.Describe(); description.Available || !strings.Contains(description.Reason, test.reason) {
			t.Errorf("%s: %+v", test.name, description)
		}
		for _, r := range sampleOf(d).Task {
			if r.Present() || !strings.Contains(r.Reason(), test.reason) {
				t.Errorf("%s: %+v", test.name, r)
			}
		}
	}
	if os.Geteuid() == 0 {
		t.Skip("the rest needs a user whom modes bind: root reads every folder")
	}
	dir := t.TempDir()
	writeFile(t, dir, "closed/x", 1)
	closed := filepath.Join(dir, "closed")
	must(t, os.Chmod(closed, 0))
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	if why := boundOf(sampleOf(diskOf(t, dir, DiskLimits{}, nil))); !strings.Contains(why, "open: permission denied") {
		t.Errorf("a sum over what could be read is shown as whole: %q", why)
	}
}

// TestDiskBounds holds that a look that has not seen all is a lower bound with its own time, for each way in which a
// walk can be cut short, of a folder that was, or was not, walked before, and has grown or shrunk since.
func TestDiskBounds(t *testing.T) {
	t.Parallel()
	deep := func(d *diskSource) { d.walk.push(strings.Repeat("d/", maxDiskDepth) + "d") }
	cuts := map[string]struct {
		cut func(d *diskSource) // of a walk that has begun
		why string
	}{
		"time":           {func(*diskSource) {}, walkUnderWay},
		"an error":       {func(d *diskSource) { d.walk.fail("open", unix.EACCES) }, "open: permission denied"},
		"several errors": {func(d *diskSource) { deep(d); d.walk.fail("open", unix.EIO) }, "open: input/output error"},
		"room":           {func(d *diskSource) { d.walk.room = -maxDiskHeld }, "walk: " + errTooManyNames.Error()},
	}
	for name, c := range cuts {
		for _, before := range []int{-1, 10, 10 * diskChunk} { // files at the walk before, if there was one
			t.Run(fmt.Sprint(name, " ", before), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				clock := &testClock{mono: time.Hour}
				d := diskOf(t, dir, DiskLimits{Every: time.Minute, Budget: time.Millisecond}, clock)
				for i := range max(0, before) {
					must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("before", i)), nil, 0o600))
				}
				if before >= 0 {
					testkit.Equal(t, boundOf(sampleOf(d)), "", "why the first walk is a lower bound")
				}
				for i := range max(0, before) {
					must(t, os.Remove(filepath.Join(dir, fmt.Sprint("before", i))))
				}
				for i := range 3 * diskChunk {
					must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("file", i)), nil, 0o600))
				}
				clock.mono += time.Minute
				clock.step = time.Millisecond
				began := clock.mono + clock.step
				sampleOf(d) // begins
				c.cut(d)
				sampleOf(d) // has read one chunk
				s := sampleOf(d)
				files, why := mustNumber(t, s, procstats.DiskFiles), boundOf(s)
				start := mustNumber(t, s, procstats.DiskWalkStart)
				if c.why == walkUnderWay && before > 3*diskChunk {
					if files != float64(before) || why != "" {
						t.Errorf("%v files (%q), want the %d of the last whole walk", files, why, before)
					}
					return
				}
				for i := 0; c.why != walkUnderWay && !strings.HasPrefix(why, c.why); i++ { // the rest is read all the same
					s = sampleOf(d)
					files, why = mustNumber(t, s, procstats.DiskFiles), boundOf(s)
					start = mustNumber(t, s, procstats.DiskWalkStart)
					if i > 100 {
						t.Fatalf("%v files, lower bound: %q, want %q", files, why, c.why)
					}
				}
				if files < diskChunk || files > 3*diskChunk || !strings.HasPrefix(why, c.why) {
					t.Errorf("%v files, lower bound: %q, want %q", files, why, c.why)
				}
				testkit.Equal(t, start, began.Seconds(), "start of the walk")
			})
		}
	}
}

// TestDiskAtTheEnd holds that the last collection walks the folder again, however soon that is.
func TestDiskAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	c := Open(Target{Dir: dir, Disk: DiskLimits{Every: time.Hour}}, procstats.Select(procstats.DiskFiles))
	closing(t, c)
	clock := &testClock{mono: time.Hour}
	c.disk.now = clock.now
	s := new(procstats.Sample)
	c.Collect(s)
	writeFile(t, dir, "x", 1)
	clock.mono += time.Minute
	c.Collect(s)
	testkit.Equal(t, mustNumber(t, s, procstats.DiskFiles), 0, "files before the next walk")
	c.Ending()
	c.Collect(s)
	testkit.Equal(t, mustNumber(t, s, procstats.DiskFiles), 1, "files at the end")
}

// TestDiskOfTooManyNames holds that a walk that would have to remember too much ends, and says so.
func TestDiskOfTooManyNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		make func(dir string, i int) error
	}{
		{"files with two names", func(dir string, i int) error {
			path := filepath.Join(dir, fmt.Sprint(i))
			return errors.Join(os.WriteFile(path, nil, 0o644), os.Link(path, path+"b"))
		}},
		{"folders", func(dir string, i int) error { return os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o755) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for i := range 2 * diskChunk {
				must(t, test.make(dir, i))
			}
			w := testkit.Value(startDiskWalk(dir))(t)
			w.room = diskChunk * inodeSize
			for w.step() {
				if held := len(w.seen) + len(w.pending); held > 2*diskChunk {
					t.Fatalf("%d names are held", held)
				}
			}
			if w.sums.unread != 1 || !strings.Contains(w.sums.reason, "too many") {
				t.Errorf("%+v, want one reason", w.sums)
			}
			noError(t, w.close())
		})
	}
}

// TestDiskHoldsNoMoreThanItMust holds that what a walk need not remember takes no room.
func TestDiskHoldsNoMoreThanItMust(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 * diskChunk {
		writeFile(t, dir, fmt.Sprint(i), 0)
	}
	writeFile(t, dir, "a/b/c/d", 0)
	w := testkit.Value(startDiskWalk(dir))(t)
	for w.step() {
	}
	if held, want := maxDiskHeld-w.room, 4*inodeSize; held != want {
		t.Errorf("at the end %d bytes are held, want the %d of the four folders", held, want)
	}
	noError(t, w.close())
}

func TestDiskOfDeepFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := testkit.Value(unix.Open(dir, unix.O_DIRECTORY, 0))(t)
	for range maxDiskDepth + 5 {
		must(t, unix.Mkdirat(at, "d", 0o755))
		next := testkit.Value(unix.Openat(at, "d", unix.O_DIRECTORY, 0))(t)
		must(t, unix.Close(at))
		at = next
	}
	must(t, unix.Close(at))
	d := diskOf(t, dir, DiskLimits{Budget: time.Minute}, nil)
	if s := sampleOf(d); !strings.Contains(boundOf(s), "nested") || mustNumber(t, s, procstats.DiskFiles) < maxDiskDepth {
		t.Errorf("%+v", s.Task)
	}
}

// TestDiskBeforeTheStart holds that the size from before a task's start is never shown as the task's.
func TestDiskBeforeTheStart(t *testing.T) {
	dir := t.TempDir()
	c := Open(Target{Dir: dir}, procstats.Select(procstats.DiskUsage, procstats.DiskFiles))
	closing(t, c)
	s := new(procstats.Sample)
	c.CollectBefore(s)
	if r, found := s.Task.Get(procstats.DiskFiles); !found || r.Present() {
		t.Errorf("%+v before the start, want a reason", r)
	}
	writeFile(t, dir, "x", 1)
	c.Collect(s)
	if files := mustNumber(t, s, procstats.DiskFiles); files != 1 {
		t.Errorf("%v files, want what the task has written", files)
	}
}
