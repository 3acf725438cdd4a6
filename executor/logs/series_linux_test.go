// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// newSeries opens the series "t.stdout" in a folder, and returns what it finds odd there.
func newSeries(t testing.TB, dir string, maxBytes int64, maxFiles int) (*series, *[]string) {
	t.Helper()
	f := testkit.Value(openFolder(dir))(t)
	var odd []string
	s, err := openSeries(f, "t.stdout", Options{MaxFileBytes: maxBytes, MaxFiles: maxFiles}, func(name string, _ error) {
		odd = append(odd, name)
	})
	must(t, err)
	t.Cleanup(func() {
		testkit.NoError(t, s.close())
		must(t, f.close())
	})
	return s, &odd
}

func put(t testing.TB, s *series, text string) {
	t.Helper()
	for p := []byte(text); len(p) > 0; {
		n := testkit.Value(s.write(p))(t)
		if n == 0 {
			t.Fatalf("nothing of %q was written, and no error", p)
		}
		p = p[n:]
	}
}

// files returns the texts of the files of "t.stdout", by number; for what is no regular file its kind.
func files(t testing.TB, dir string) map[int64]string {
	t.Helper()
	entries := testkit.Value(os.ReadDir(dir))(t)
	texts := map[int64]string{}
	for _, entry := range entries {
		number, ok := fileNumber("t.stdout", entry.Name())
		if !ok {
			continue
		}
		if !entry.Type().IsRegular() {
			texts[number] = entry.Type().String()
			continue
		}
		text := testkit.Value(os.ReadFile(filepath.Join(dir, entry.Name())))(t)
		texts[number] = string(text)
	}
	return texts
}

func TestRotation(t *testing.T) {
	long := strings.Repeat("x", slack)
	tests := []struct {
		name     string
		max      int64
		maxFiles int
		chunks   []string
		want     map[int64]string
	}{
		{"an empty file at once", 10, 3, nil, map[int64]string{0: ""}},
		{"one file", 10, 3, []string{"abc\n", "def\n"}, map[int64]string{0: "abc\ndef\n"}},
		{"exactly full", 8, 3, []string{"abc\n", "def\n"}, map[int64]string{0: "abc\ndef\n"}},
		{"full, and more", 8, 3, []string{"abc\n", "def\n", "g"}, map[int64]string{0: "abc\ndef\n", 1: "g"}},
		{"the line that does not fit begins the next", 10, 3, []string{"abc\n", "def\nghi\n"}, map[int64]string{0: "abc\ndef\n", 1: "ghi\n"}},
		{"the oldest goes", 4, 2, []string{"abc\ndef\nghi\njkl\n"}, map[int64]string{2: "ghi\n", 3: "jkl\n"}},
		{"only one file", 4, 1, []string{"abc\ndef\n"}, map[int64]string{1: "def\n"}},
		{"a line that began here ends here", 6, 3, []string{"abc\nd", "efgh\nij\n"}, map[int64]string{0: "abc\ndefgh\n", 1: "ij\n"}},
		{"in pieces", 6, 3, []string{"abc\nd", "ef", "gh", "i\nj\n"}, map[int64]string{0: "abc\ndefghi\n", 1: "j\n"}},
		{"no lines at all", 4, 9, []string{long, long, "end\n"}, map[int64]string{0: long + "xxxx", 1: long[4:] + "end\n"}},
		{"a line longer than the slack", 4, 9, []string{long + long + "\nab\n"}, map[int64]string{0: long + "xxxx", 1: long[4:] + "\n", 2: "ab\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s, odd := newSeries(t, dir, tt.max, tt.maxFiles)
			for _, chunk := range tt.chunks {
				put(t, s, chunk)
			}
			testkit.Diff(t, "files", tt.want, files(t, dir))
			if len(*odd) > 0 {
				t.Errorf("odd: %q", *odd)
			}
		})
	}
}

func TestContinuation(t *testing.T) {
	tests := []struct {
		name string
		have map[string]string
		want map[int64]string
	}{
		{"the newest has room", map[string]string{"t.stdout.0": "old\n", "t.stdout.7": "ab\n"}, map[int64]string{0: "old\n", 7: "ab\nnew\n"}},
		{"the newest is full", map[string]string{"t.stdout.7": "12345678\n"}, map[int64]string{7: "12345678\n", 8: "new\n"}},
		{"numbers are no text", map[string]string{"t.stdout.9": "9\n", "t.stdout.10": "10\n"}, map[int64]string{9: "9\n", 10: "10\nnew\n"}},
		{"too many", map[string]string{
			"t.stdout.3": "3\n", "t.stdout.4": "4\n", "t.stdout.5": "5\n", "t.stdout.6": "6\n", "t.stdout.1": "1\n",
		}, map[int64]string{4: "4\n", 5: "5\n", 6: "6\nnew\n"}},
		{"files of others", map[string]string{
			"t.stderr.5": "x", "other.stdout.9": "x", "t.stdout.x": "x", "t.stdout.05": "x",
		}, map[int64]string{0: "new\n"}},
		{
			"the highest number there is",
			map[string]string{"t.stdout.9007199254740992": "12345678\n"},
			map[int64]string{maxNumber: "12345678\n"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.have {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			s, _ := newSeries(t, dir, 8, 3)
			put(t, s, "new\n")
			testkit.Diff(t, "files", tt.want, files(t, dir))
			for name, text := range tt.have {
				if _, ours := fileNumber("t.stdout", name); ours {
					continue
				}
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
					t.Errorf("%s, which is none of the series: %q, %v", name, got, err)
				}
			}
		})
	}
}

// What the task puts into the folder must never be written through.
func TestAttacks(t *testing.T) {
	const precious = "precious\n"
	attacks := map[string]func(path, victim string) error{
		"symbolic link":           func(path, victim string) error { return os.Symlink(victim, path) },
		"symbolic link, dead":     func(path, victim string) error { return os.Symlink(victim+".new", path) },
		"symbolic link, relative": func(path, victim string) error { return os.Symlink("../"+filepath.Base(victim), path) },
		"symbolic link to itself": func(path, _ string) error { return os.Symlink(filepath.Base(path), path) },
		"hard link":               func(path, victim string) error { return os.Link(victim, path) },
		"FIFO":                    func(path, _ string) error { return unix.Mkfifo(path, 0o666) },
		"folder":                  func(path, _ string) error { return os.Mkdir(path, 0o777) },
		"socket": func(path, _ string) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
		},
	}
	for name, attack := range attacks {
		for _, moment := range []string{"before the start", "before the rotation", "in the way of many"} {
			t.Run(name+", "+moment, func(t *testing.T) {
				top, err := os.MkdirTemp("/tmp", "logs") // the path of a socket is limited to 107 bytes
				must(t, err)
				t.Cleanup(func() { must(t, os.RemoveAll(top)) })
				dir, victim := filepath.Join(top, "logs"), filepath.Join(top, "victim")
				must(t, os.Mkdir(dir, 0o777))
				must(t, os.WriteFile(victim, []byte(precious), 0o600))
				do := func(number int64) { must(t, attack(filepath.Join(dir, fileName("t.stdout", number)), victim)) }
				ours := int64(1)
				if moment == "before the start" {
					do(0)
				}
				s, odd := newSeries(t, dir, 4, 9)
				switch moment {
				case "before the rotation":
					put(t, s, "one\n")
					do(1)
					ours = 2
				case "in the way of many":
					put(t, s, "one\n")
					for number := range int64(5) {
						do(number + 1)
					}
					ours = 6
				}
				put(t, s, "mine")
				if got, err := os.ReadFile(victim); err != nil || string(got) != precious {
					t.Errorf("the file outside of the folder: %q, %v", got, err)
				}
				if entries, err := os.ReadDir(top); err != nil || len(entries) != 2 {
					t.Errorf("beside the folder: %v, %v", entries, err)
				}
				if got := files(t, dir)[ours]; got != "mine" {
					t.Errorf("file %d has %q, want what was written; all: %v", ours, got, files(t, dir))
				}
				if len(*odd) == 0 {
					t.Error("nothing was said of what stood in the way")
				}
			})
		}
	}
}

func TestFolderIsNoLink(t *testing.T) {
	top := t.TempDir()
	must(t, os.Symlink("/etc", filepath.Join(top, "logs")))
	if f, err := openFolder(filepath.Join(top, "logs")); err == nil {
		t.Errorf("opened %s through a symbolic link", f.path)
	}
}

// After a log file is deleted or emptied, what is written from then on is in a new one.
func TestChangedByOthers(t *testing.T) {
	dir := t.TempDir()
	s, _ := newSeries(t, dir, 8, 9)
	put(t, s, "one\n")
	must(t, os.Remove(filepath.Join(dir, "t.stdout.0")))
	put(t, s, "two\n")
	testkit.Diff(t, "after a file was deleted", map[int64]string{1: "two\n"}, files(t, dir))
	put(t, s, "34\n")
	must(t, os.Truncate(filepath.Join(dir, "t.stdout.1"), 0))
	put(t, s, "five\n")
	testkit.Diff(t, "after a file was emptied", map[int64]string{1: "five\n"}, files(t, dir))
}

// TestRemovedWhileItRuns holds that what is removed or replaced while a task runs, be it the file, its folder or one
// above, is made again as it was, so that readers miss nothing that comes after; or else that the loss is an error.
// Nothing is written over a link.
func TestRemovedWhileItRuns(t *testing.T) {
	deeds := map[string]func(path, elsewhere string) error{
		"removed": func(path, _ string) error { return os.RemoveAll(path) },
		"moved":   func(path, _ string) error { return os.Rename(path, path+".moved") },
		"made again by others": func(path, _ string) error {
			return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o777))
		},
		"replaced by a file": func(path, _ string) error {
			return errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o600))
		},
		"replaced by a link": func(path, elsewhere string) error {
			return errors.Join(os.RemoveAll(path), os.Symlink(elsewhere, path))
		},
	}
	for level, name := range map[string]string{"file": "alloc/logs/t.stdout.0", "folder": "alloc/logs", "parent": "alloc"} {
		for deed, do := range deeds {
			if level == "parent" && deed == "replaced by a link" {
				continue // parents are the host's
			}
			t.Run(level+" "+deed, func(t *testing.T) {
				top, elsewhere := t.TempDir(), t.TempDir()
				dir := filepath.Join(top, "alloc/logs")
				must(t, os.MkdirAll(dir, 0o777))
				must(t, os.Chmod(dir, 0o750))
				s, odd := newSeries(t, dir, 1<<20, 9)
				put(t, s, "one\n")
				must(t, do(filepath.Join(top, name), elsewhere))
				lost := level != "file" && strings.HasPrefix(deed, "replaced")
				n, err := s.write([]byte("two\n"))
				if lost != (err != nil) || lost && n > 0 {
					t.Fatalf("%d bytes were written, %v; want an error: %v", n, err, lost)
				}
				if got := files(t, elsewhere); len(got) > 0 {
					t.Errorf("files elsewhere: %v", got)
				}
				if lost { // until what is in its place is gone
					must(t, os.Remove(filepath.Join(top, name)))
					put(t, s, "two\n")
				}
				put(t, s, "three\n")
				testkit.Equal(t, files(t, dir)[1], "two\nthree\n", "the next file")
				testkit.Diff(t, "reported", []string{"t.stdout.0"}, *odd)
				if info := testkit.Value(os.Stat(dir))(t); deed != "made again by others" && info.Mode().Perm() != 0o750 {
					t.Errorf("the folder has mode %v", info.Mode())
				}
			})
		}
	}
}

// FuzzSeries holds what the files of a series are, whatever is written in whatever pieces.
func FuzzSeries(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree\n"), uint16(4), uint16(3))
	f.Add(bytes.Repeat([]byte("x"), 40000), uint16(100), uint16(16384))
	f.Add([]byte("\n\n\n\n"), uint16(1), uint16(1))
	f.Add(bytes.Repeat([]byte("line\n"), 500), uint16(64), uint16(777))
	f.Add([]byte("\x00\xff\n\r\n\xf0\x9f"), uint16(2), uint16(1))
	f.Add(append(bytes.Repeat([]byte("x"), slack+100), "\ny\n"...), uint16(3), uint16(4096))
	f.Fuzz(func(t *testing.T, text []byte, limit, chunk uint16) {
		// At most some 8 files and 32 pieces, so that many texts are tried.
		limit, chunk = max(limit, uint16(min(len(text)/8+1, 1<<16-1))), max(chunk, uint16(min(len(text)/32+1, 1<<16-1)))
		dir := t.TempDir()
		s, _ := newSeries(t, dir, int64(limit), 1<<20)
		for piece := range slices.Chunk(text, int(chunk)) {
			put(t, s, string(piece))
		}
		got := files(t, dir)
		var all []byte
		for number := range int64(len(got)) {
			file, ok := got[number]
			if !ok {
				t.Fatalf("%d files, and none has number %d", len(got), number)
			}
			if len(file) > int(limit)+slack {
				t.Errorf("file %d has %d bytes, with a limit of %d", number, len(file), limit)
			}
			torn := number > 0 && !bytes.HasSuffix(all, []byte("\n"))
			if torn && len(got[number-1]) < int(limit)+slack {
				t.Errorf("file %d begins within a line, although the one before has only %d bytes", number, len(got[number-1]))
			}
			all = append(all, file...)
		}
		if !bytes.Equal(all, text) {
			t.Errorf("%d files have other bytes than were written: %s", len(got), cmp.Diff(fmt.Sprintf("%q", text), fmt.Sprintf("%q", all)))
		}
	})
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
