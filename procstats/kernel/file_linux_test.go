// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestKeptFileReadsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpu.stat")
	contents := []string{"usage_usec 1\n", strings.Repeat("x", 3*keptFileSize), "", strings.Repeat("y", keptFileSize), "z"}
	write := func(content string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(content), 0o600))
	}
	write(contents[0])
	f, err := Open(path)
	must(t, err)
	readers := map[string]func([]byte) ([]byte, error){"read": f.Read, "readRecord": f.ReadRecord}
	for name, read := range readers {
		var buf []byte
		for _, want := range contents {
			write(want)
			if buf, err = read(buf); err != nil || string(buf) != want {
				t.Errorf("%s: got %d bytes and error %v, want %d bytes", name, len(buf), err, len(want))
			}
		}
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := f.Read(nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read after close: %v, want fs.ErrClosed", err)
	}
}

func TestOpenKeptNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.peak")
	_, err := Open(path)
	var pathError *fs.PathError
	if !errors.As(err, &pathError) || pathError.Path != path || !Gone(err) {
		t.Errorf("got %v, want a PathError for %s that counts as gone", err, path)
	}
}

func TestGone(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{syscall.ENOENT, true},
		{syscall.ESRCH, true},
		{&fs.PathError{Op: "read", Path: "memory.stat", Err: syscall.ENODEV}, true},
		{fs.ErrNotExist, false},
		{syscall.EACCES, false},
		{syscall.EOPNOTSUPP, false},
		{nil, false},
	}
	for _, test := range tests {
		testkit.Equal(t, Gone(test.err), test.want, "gone(%v) =", test.err)
	}
}
