// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestParseProcStatm(t *testing.T) {
	tests := map[string]struct {
		want ProcStatm
		err  error
	}{
		"2015 921 812 176 0 245 0\n": {want: ProcStatm{Size: 2015, Resident: 921, Shared: 812, Text: 176}},
		"0 0 0 0 0 0 0\n":            {},
		"":                           {err: ErrFormat},
		"2015 921 812":               {err: ErrFormat},
		"2015 -1 812 176 0 245 0\n":  {err: ErrFormat},
		"2015 18446744073709551615 812 0 0 0 0\n":        {err: ErrFormat},
		"9223372036854775807 1 1 0 0 0 0\n":              {err: ErrFormat},
		"2015  921 812 176 0 245 0\n":                    {err: ErrFormat},
		"140737488355327 140737488355327 0 0 0 245 0 \n": {want: ProcStatm{Size: 1<<47 - 1, Resident: 1<<47 - 1}},
	}
	for content, test := range tests {
		got, err := ParseProcStatm([]byte(content))
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q: got %+v, %v, want %+v, %v", content, got, err, test.want, test.err)
		}
	}
}

const ioText = "rchar: 2012\nwchar: 7\nsyscr: 7\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 512\n"

func TestParseProcIO(t *testing.T) {
	want := ProcIO{Rchar: 2012, Wchar: 7, ReadBytes: 4096, WriteBytes: 8192, CancelledWriteBytes: 512}
	tests := map[string]struct {
		want ProcIO
		err  error
	}{
		ioText:                                  {want: want},
		"new_in_linux_9: many words\n" + ioText: {want: want},
		"":                                      {err: ErrFormat},
		"rchar: 2012\nwchar: 7\nsyscr: 7\nsyscw: 1\n":                  {err: ErrFormat},
		strings.TrimSuffix(ioText, "\n"):                               {err: ErrFormat},
		strings.Replace(ioText, ": 4096", ": -4096", 1):                {err: ErrFormat},
		strings.Replace(ioText, ": 4096", ": 18446744073709551615", 1): {err: ErrFormat},
	}
	for content, test := range tests {
		got, err := ParseProcIO([]byte(content))
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q: got %+v, %v, want %+v, %v", content, got, err, test.want, test.err)
		}
	}
}

func TestReadProcIO(t *testing.T) {
	root := procTree(t, map[string]string{"7/io": ioText, "8/io": "rchar: 1\n"})
	got, err := ReadProcIO(root, 7)
	if err != nil || got.WriteBytes != 8192 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err = ReadProcIO(root, 8); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "8") {
		t.Errorf("got %v, want ErrFormat with the file", err)
	}
	if _, err = ReadProcIO(root, 9); !Gone(err) {
		t.Errorf("got %v, want an error that says that the process is gone", err)
	}
}

const rollupText = "55d0c0a00000-7ffc1b7fe000 ---p 00000000 00:00 0                          [rollup]\n" +
	"Rss:                1680 kB\nPss:                 170 kB\nPss_Dirty:            96 kB\nPss_Anon:             96 kB\n" +
	"Pss_File:             74 kB\nPss_Shmem:            12 kB\nShared_Clean:       1584 kB\nShared_Hugetlb:     4096 kB\nPrivate_Hugetlb:    2048 kB\nSwap:                  8 kB\nSwapPss:               4 kB\nLocked:                0 kB\n"

func TestParseSmapsRollup(t *testing.T) {
	tests := map[string]struct {
		want SmapsRollup
		err  error
	}{
		rollupText: {want: SmapsRollup{
			First: 0x55d0c0a00000, End: 0x7ffc1b7fe000, PSS: 170 << 10, SwapPSS: 4 << 10, PSSAnon: 96 << 10, PSSShmem: 12 << 10,
			PrivateHugetlb: 2 << 20, SharedHugetlb: 4 << 20,
		}},
		"Rss: 8 kB\nPss: 4 kB\nSwapPss: 0 kB\n": {want: SmapsRollup{PSS: 4 << 10}}, // before Linux 5.4
		"":                                      {err: ErrFormat},
		strings.Replace(rollupText, "SwapPss", "Elsewhere", 1):               {err: ErrFormat},
		strings.Replace(rollupText, "170 kB", "170 MB", 1):                   {err: ErrFormat},
		strings.Replace(rollupText, " 170 kB", " -170 kB", 1):                {err: ErrFormat},
		strings.Replace(rollupText, "Pss:                 170 kB\n", "", 1):  {err: ErrFormat},
		strings.Replace(rollupText, " 170 kB", " 9223372036854775807 kB", 1): {err: ErrFormat},
		strings.TrimSuffix(rollupText, " kB\nLocked:                0 kB\n"): {err: ErrFormat},
	}
	for content, test := range tests {
		got, err := ParseSmapsRollup([]byte(content))
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q: got %+v, %v, want %+v, %v", content, got, err, test.want, test.err)
		}
	}
}

func TestProcessFilesAllocateNothing(t *testing.T) {
	rollup, io := []byte(rollupText), []byte(ioText)
	allocs := testing.AllocsPerRun(100, func() {
		_, errRollup := ParseSmapsRollup(rollup)
		_, errIO := ParseProcIO(io)
		must(t, errors.Join(errRollup, errIO))
	})
	if allocs != 0 {
		t.Errorf("parsing allocates %v times, want 0", allocs)
	}
}

func TestAppendPIDs(t *testing.T) {
	tests := []struct {
		content string
		want    []int
		unseen  int
		err     error
	}{
		{content: "", want: []int{1}},
		{content: "7\n12\n4194304\n", want: []int{1, 7, 12, 4194304}},
		{content: "7 12 ", want: []int{1, 7, 12}},
		{content: "0\n0\n12\n", want: []int{1, 12}, unseen: 2},
		{content: "7 12", want: []int{1, 7, 12}},
		{content: "7\n-12\n", want: []int{1}, err: ErrFormat},
		{content: "7\n99999999999\n", want: []int{1}, err: ErrFormat},
		{content: "7\nxy\n", want: []int{1}, err: ErrFormat},
	}
	for _, test := range tests {
		got, unseen, err := AppendPIDs([]int{1}, []byte(test.content))
		if diff := cmp.Diff(test.want, got); diff != "" || unseen != test.unseen || !errors.Is(err, test.err) {
			t.Errorf("%q: %d unseen, error %v (-want +got)\n%s", test.content, unseen, err, diff)
		}
	}
}

// dirent is one entry as getdents64(2) returns it.
func dirent(name string) []byte {
	const head = 19
	entry := make([]byte, (head+len(name)+1+7)/8*8)
	binary.NativeEndian.PutUint16(entry[16:], uint16(len(entry)))
	copy(entry[head:], name)
	return entry
}

func direntsOf(names ...string) []byte {
	var all []byte
	for _, name := range names {
		all = append(all, dirent(name)...)
	}
	return all
}

func TestAppendNumericNames(t *testing.T) {
	whole := direntsOf(".", "..", "17", "self", "4194304", "0", "-3", "18x", "2")
	endless := dirent("5")
	binary.NativeEndian.PutUint16(endless[16:], 0)
	tests := map[string]struct {
		dirents []byte
		want    []int
	}{
		"nothing":             {nil, nil},
		"a folder of threads": {whole, []int{17, 4194304, 2}},
		"cut short":           {whole[:len(whole)-1], []int{17, 4194304}},
		"an entry of no size": {append(dirent("4"), endless...), []int{4}},
	}
	for name, test := range tests {
		testkit.Diff(t, name, test.want, appendNumericNames(nil, test.dirents))
	}
}

func FuzzParseProcStatm(f *testing.F) {
	f.Add([]byte("2015 921 812 176 0 245 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ParseProcStatm(data); err == nil && (s.Size<<16 < 0 || s.Resident<<16 < 0 || s.Shared<<16 < 0) {
			t.Errorf("%q gives %+v", data, s)
		}
	})
}

func FuzzParseProcIO(f *testing.F) {
	f.Add([]byte(ioText))
	f.Fuzz(func(t *testing.T, data []byte) {
		io, err := ParseProcIO(data)
		for _, n := range []int64{io.Rchar, io.Wchar, io.ReadBytes, io.WriteBytes, io.CancelledWriteBytes} {
			if n < 0 || err != nil && n != 0 {
				t.Errorf("%q gives %+v, %v", data, io, err)
			}
		}
	})
}

func FuzzParseSmapsRollup(f *testing.F) {
	f.Add([]byte(rollupText))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ParseSmapsRollup(data); s.PSS < 0 || s.SwapPSS < 0 || err != nil && s != (SmapsRollup{}) {
			t.Errorf("%q gives %+v, %v", data, s, err)
		}
	})
}

func FuzzAppendPIDs(f *testing.F) {
	f.Add([]byte("7\n12\n0\n"))
	f.Add([]byte("7 12 "))
	f.Fuzz(func(t *testing.T, data []byte) {
		pids, unseen, err := AppendPIDs(nil, data)
		if err != nil && (len(pids) > 0 || unseen > 0) {
			t.Errorf("%q gives %v and %v", data, pids, err)
		}
		for _, pid := range pids {
			if pid <= 0 {
				t.Errorf("%q gives PID %d", data, pid)
			}
		}
	})
}

func FuzzAppendNumericNames(f *testing.F) {
	f.Add(direntsOf(".", "17", "self"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, n := range appendNumericNames(nil, data) {
			if n <= 0 {
				t.Errorf("%q gives %d", data, n)
			}
		}
	})
}

// TestReadAround holds that only what is missing of files on disks counts, up to what is read ahead, and that a process
// that is gone has an error.
func TestReadAround(t *testing.T) {
	type part struct {
		name                string
		size, file, written int // MiB: all, resident pages of the file, and pages that were written to in place of them
	}
	const mib, base = 1 << 20, 1 << 30
	root := FS{Proc: t.TempDir()}
	must(t, os.Mkdir(filepath.Join(root.Proc, "7"), 0o755))
	for _, test := range []struct {
		name  string
		parts []part
		want  int64
	}{
		{"sparse", []part{{"/lib/modules", 125, 1, 0}}, 8},
		{"little missing", []part{{"/lib/lib-a.so", 14, 11, 0}}, 3},
		{"dense", []part{{"/data", 60, 59, 0}}, 0},
		{"written to", []part{{"/lib/classes", 6, 1, 5}}, 5},
		{"never touched", []part{{"/data", 60, 0, 0}}, 0},
		{"removed", []part{{"/memfd:heap (deleted)", 60, 1, 0}}, 0},
		{"shared memory", []part{{"/dev/shm/heap", 60, 1, 0}}, 0},
		{"anonymous", []part{{"[heap]", 60, 0, 1}}, 0},
		{"several", []part{{"/data", 60, 1, 0}, {"", 60, 0, 1}, {"/a b", 4, 1, 0}}, 11},
		{"far apart", []part{{"/data", 8 << 10, 0, 0}, {"/data", 3 << 10, 1, 0}}, 8},
	} {
		var maps strings.Builder
		pagemap := testkit.Value(os.Create(filepath.Join(root.Proc, "7", "pagemap")))(t)
		at, page := int64(base), int64(os.Getpagesize())
		for _, p := range test.parts {
			fmt.Fprintf(&maps, "%08x-%08x r--s 00000000 fe:00 4711                       %s\n", at, at+int64(p.size)*mib, p.name)
			at += int64(p.size) * mib
			var pages []byte // at its end
			for i := range int64(p.file+p.written) * mib / page {
				entry := uint64(1 << 63)
				if i < int64(p.file)*mib/page {
					entry |= 1 << 61
				}
				pages = binary.NativeEndian.AppendUint64(pages, entry)
			}
			_, err := pagemap.WriteAt(pages, at/page*8-int64(len(pages)))
			must(t, err)
		}
		must(t, errors.Join(pagemap.Truncate(at/page*8), pagemap.Close()))
		must(t, os.WriteFile(filepath.Join(root.Proc, "7", "maps"), []byte(maps.String()), 0o600))
		if got, err := ReadAround(root, 7, 8<<20); err != nil || got != test.want<<20 {
			t.Errorf("%s: got %d, %v, want %d MiB", test.name, got, err, test.want)
		}
	}
	if _, err := ReadAround(root, 8, 8<<20); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v of a process that is gone", err)
	}
}
