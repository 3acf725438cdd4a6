// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestUnwritten(t *testing.T) {
	const captured = "MemTotal:        4025200 kB\nDirty:             24576 kB\nWriteback:            16 kB\nAnonPages:        101000 kB\n" +
		"NFS_Unstable:          4 kB\nBounce:                0 kB\nWritebackTmp:          8 kB\nHugetlb:               0 kB\n"
	tests := []struct {
		name, text string
		kibibytes  int64
		invalid    bool
	}{
		{"all four", captured, 24576 + 16 + 4 + 8, false},
		{"neither NFS nor user-space file systems", "Dirty: 1 kB\nWriteback: 2 kB\n", 3, false},
		{"nothing to write", "Dirty: 0 kB\nWriteback: 0 kB\n", 0, false},
		{"no Writeback", "Dirty: 1 kB\n", 0, true},
		{"another unit", "Dirty: 1 MB\nWriteback: 2 kB\n", 0, true},
		{"no number", "Dirty: x kB\nWriteback: 2 kB\n", 0, true},
		{"empty", "", 0, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := FS{Proc: t.TempDir(), Sys: t.TempDir()}
			if err := os.WriteFile(filepath.Join(root.Proc, "meminfo"), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			u := NewUnwritten(root)
			bytes, err := u.Read()
			if (err != nil) != test.invalid || err != nil && !strings.Contains(err.Error(), "meminfo") {
				t.Fatalf("%d bytes, error %v", bytes, err)
			}
			if !test.invalid && (bytes-u.Lag() != test.kibibytes*1024 || u.Lag() < 2*16*int64(os.Getpagesize())) {
				t.Errorf("%d bytes, %d of them lag, want %d KiB beside it", bytes, u.Lag(), test.kibibytes)
			}
			if err := u.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	missing := NewUnwritten(FS{Proc: t.TempDir()})
	if _, err := missing.Read(); err == nil {
		t.Error("no error without the file")
	}
}

func TestLags(t *testing.T) {
	root := FS{Sys: t.TempDir()}
	for i := range 64 {
		if err := os.MkdirAll(filepath.Join(root.Sys, "devices", "system", "cpu", "cpu"+strconv.Itoa(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	page := int64(os.Getpagesize())
	if got, want := RSSLag(root), 64*128*page; got != want {
		t.Errorf("%d, want %d", got, want)
	}
	for _, node := range []string{"node0", "node1"} {
		if err := os.MkdirAll(filepath.Join(root.Sys, "devices", "system", "node", node), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for total, threshold := range map[int64]int64{0: 125, 1 << 30: 2 * 7 * (1 + 4), 256 << 30: 125} {
		if got, want := countersLag(root, total), 2*2*64*threshold*page; got != want {
			t.Errorf("counters of %d bytes of memory: %d, want %d", total, got, want)
		}
	}
}
