// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The golden file is read by "cpio -itv" and, in every guest, by the kernel.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	for name, perm := range map[string]fs.FileMode{"tool": 0o700, "deep/text": 0o640} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), perm); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("deep/text", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}

	var a archive
	a.console()
	a.file("/etc/five", 0o644, []byte("12345"))
	a.folder("/etc") // there already
	if err := a.tree(dir, "/data"); err != nil {
		t.Fatal(err)
	}
	if err := a.tree(filepath.Join(dir, "link"), "/data/plain"); err != nil { // what is asked for is followed
		t.Fatal(err)
	}
	got := a.bytes()

	golden := filepath.Join("testdata", "archive.cpio")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

func TestArchiveErrors(t *testing.T) {
	for name, host := range map[string]string{
		"missing": filepath.Join(t.TempDir(), "none"),
		"device":  os.DevNull,
	} {
		if err := new(archive).tree(host, "/x"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
