// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package regular_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/regular"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestNotRegular names files that cannot be read, and waits for none.
func TestNotRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	testkit.Must(t, syscall.Mkfifo(path("fifo"), 0o600))
	socket := testkit.Value(net.Listen("unix", path("socket")))(t)
	defer socket.Close()
	testkit.Must(t, os.WriteFile(path("large"), make([]byte, 11), 0o600))
	testkit.Must(t, os.Symlink("fifo", path("link")))
	for file, want := range map[string]error{
		path("fifo"): regular.ErrNotRegular, path("socket"): regular.ErrNotRegular, dir: regular.ErrNotRegular,
		"/dev/zero": regular.ErrNotRegular, path("link"): regular.ErrNotRegular, path("absent"): fs.ErrNotExist,
		path("large"): nil,
	} {
		_, err := regular.Read(file, 10)
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if text, err := regular.Read(path("large"), 11); err != nil || len(text) != 11 {
		t.Errorf("%q, %v", text, err)
	}
}

// TestToken rejects what no request can carry.
func TestToken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"secret": "", " secret\n": "", "": "is empty", "\n": "is empty", "one\ntwo\n": "it has 2 lines",
		"a b": "printable", "é": "printable", "\x00": "printable",
	} {
		file := filepath.Join(t.TempDir(), "token")
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		token, err := regular.Token(file)
		if want == "" && (err != nil || token != "secret") ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%q: %q, %v", text, token, err)
		}
	}
}
