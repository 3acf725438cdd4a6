// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHugePools(t *testing.T) {
	for _, test := range []struct {
		name        string
		total, free string
		inUse       bool
		err         bool
	}{
		{"empty", "0\n", "0\n", false, false},
		{"all are free", "64\n", "64\n", false, false},
		{"one is held", "64\n", "63\n", true, false},
		{"not a number", "many\n", "0\n", false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := FS{Sys: t.TempDir()}
			for size, files := range map[string][2]string{"hugepages-2048kB": {"0\n", "0\n"}, "hugepages-1048576kB": {test.total, test.free}} {
				dir := filepath.Join(root.Sys, "kernel/mm/hugepages", size)
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				for i, name := range []string{"nr_hugepages", "free_hugepages"} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(files[i]), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			p, err := OpenHugePools(root)
			if err != nil {
				t.Fatal(err)
			}
			if inUse, err := p.InUse(); inUse != test.inUse || (err != nil) != test.err {
				t.Errorf("in use %v, %v; want %v", inUse, err, test.inUse)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHugePoolsOfOtherKernels(t *testing.T) {
	root := FS{Sys: t.TempDir()}
	if _, err := OpenHugePools(root); err == nil {
		t.Error("no sysfs, and no error")
	}
	if err := os.MkdirAll(filepath.Join(root.Sys, "kernel/mm"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := OpenHugePools(root)
	if err != nil {
		t.Fatal(err)
	}
	if inUse, err := p.InUse(); inUse || err != nil {
		t.Errorf("in use %v, %v", inUse, err)
	}
}
