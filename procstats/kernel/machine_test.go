// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestParseCPUInfo(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       float64
		fails      bool
	}{
		{"two cores", "processor\t: 0\ncpu MHz\t\t: 2000.5\nflags\t\t: fpu\nprocessor\t: 1\ncpu MHz\t\t: 2999.5\n", 2500, false},
		{"ARM says nothing", "processor\t: 0\nBogoMIPS\t: 38.40\n", 0, true},
		{"no number", "cpu MHz : fast\n", 0, true},
		{"zero", "cpu MHz : 0.000\n", 0, true},
		{"empty", "", 0, true},
	} {
		got, err := parseCPUInfo(test.text)
		if (err != nil) != test.fails || got != test.want {
			t.Errorf("%s: %f, %v; want %f", test.name, got, err, test.want)
		}
	}
}

func FuzzParseCPUInfo(f *testing.F) {
	f.Add("cpu MHz\t\t: 2000.5\n")
	f.Add("cpu MHz : NaN\n")
	f.Add("cpu MHz : 1e300\n")
	f.Fuzz(func(t *testing.T, text string) {
		if mhz, err := parseCPUInfo(text); err == nil && !(mhz > 0 && mhz <= 1e6) {
			t.Errorf("%f MHz of %q", mhz, text)
		}
	})
}

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
			u := NewUnwritten(FS{Proc: writeTree(t, map[string]string{"meminfo": test.text}), Sys: t.TempDir()})
			bytes, err := u.Read()
			if (err != nil) != test.invalid || err != nil && !strings.Contains(err.Error(), "meminfo") {
				t.Fatalf("%d bytes, error %v", bytes, err)
			}
			if !test.invalid && (bytes-u.Lag() != test.kibibytes*1024 || u.Lag() < 2*16*int64(os.Getpagesize())) {
				t.Errorf("%d bytes, %d of them lag, want %d KiB beside it", bytes, u.Lag(), test.kibibytes)
			}
			noError(t, u.Close())
		})
	}
	missing := NewUnwritten(FS{Proc: t.TempDir()})
	if _, err := missing.Read(); err == nil {
		t.Error("no error without the file")
	}
}

func TestLags(t *testing.T) {
	dirs := map[string]string{}
	for i := range 64 {
		dirs["devices/system/cpu/cpu"+strconv.Itoa(i)+"/"] = ""
	}
	page := int64(os.Getpagesize())
	testkit.Equal(t, RSSLag(FS{Sys: writeTree(t, dirs)}), 64*128*page, "result")
	dirs["devices/system/node/node0/"], dirs["devices/system/node/node1/"] = "", ""
	root := FS{Sys: writeTree(t, dirs)}
	for total, threshold := range map[int64]int64{0: 125, 1 << 30: 2 * 7 * (1 + 4), 256 << 30: 125} {
		testkit.Equal(t, countersLag(root, total), 2*2*64*threshold*page, "counters of %d bytes of memory", total)
	}
}

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
			const pools = "kernel/mm/hugepages/hugepages-"
			root := FS{Sys: writeTree(t, map[string]string{
				pools + "2048kB/nr_hugepages": "0\n", pools + "2048kB/free_hugepages": "0\n",
				pools + "1048576kB/nr_hugepages": test.total, pools + "1048576kB/free_hugepages": test.free,
			})}
			p := testkit.Value(OpenHugePools(root))(t)
			if inUse, err := p.InUse(); inUse != test.inUse || (err != nil) != test.err {
				t.Errorf("in use %v, %v; want %v", inUse, err, test.inUse)
			}
			noError(t, p.Close())
		})
	}
}

func TestGivesHugePages(t *testing.T) {
	const dir = "kernel/mm/transparent_hugepage/"
	for name, test := range map[string]struct {
		files map[string]string
		gives bool
	}{
		"always":                             {map[string]string{dir + "enabled": "[always] madvise never\n"}, true},
		"asked for":                          {map[string]string{dir + "enabled": "always [madvise] never\n"}, false},
		"never":                              {map[string]string{dir + "enabled": "always madvise [never]\n"}, false},
		"another kernel":                     {map[string]string{"kernel/mm/x": ""}, false},
		"small ones always":                  {map[string]string{dir + "enabled": "always madvise [never]\n", dir + "hugepages-64kB/enabled": "[always] inherit madvise never\n"}, true},
		"small ones as all are":              {map[string]string{dir + "enabled": "always [madvise] never\n", dir + "hugepages-64kB/enabled": "always [inherit] madvise never\n"}, false},
		"one size is for shared memory only": {map[string]string{dir + "enabled": "always [madvise] never\n", dir + "hugepages-8kB/shmem_enabled": "[always]\n"}, false},
		"not readable":                       {map[string]string{dir + "enabled/x": ""}, true},
	} {
		if gives := GivesHugePages(FS{Sys: writeTree(t, test.files)}); gives != test.gives {
			t.Errorf("%s: %v", name, gives)
		}
	}
}

func TestHugePoolsOfOtherKernels(t *testing.T) {
	root := FS{Sys: t.TempDir()}
	if _, err := OpenHugePools(root); err == nil {
		t.Error("no sysfs, and no error")
	}
	must(t, os.MkdirAll(filepath.Join(root.Sys, "kernel/mm"), 0o700))
	p := testkit.Value(OpenHugePools(root))(t)
	if inUse, err := p.InUse(); inUse || err != nil {
		t.Errorf("in use %v, %v", inUse, err)
	}
}
