// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func TestExplainPressure(t *testing.T) {
	const (
		noPSI = "the kernel has no PSI: it needs Linux 4.20 with CONFIG_PSI, and the boot parameter psi=1"
		off   = "pressure accounting is switched off for this cgroup: cgroup.pressure is 0"
	)
	tests := []struct {
		name     string
		proc     bool   // /proc/pressure exists
		switched string // content of cgroup.pressure, empty where the kernel has none
		err      error
		want     string
	}{
		{"psi=0 at boot", true, "1\n", syscall.EOPNOTSUPP, "the kernel has PSI switched off: it needs the boot parameter psi=1"},
		{"no PSI in the kernel", false, "", syscall.ENOENT, noPSI},
		{"switched off before", true, "0\n", syscall.ENOENT, off},
		{"switched off while it was open", true, "0\n", syscall.ENODEV, off},
		{"not there for another reason", true, "1\n", syscall.ENOENT, ""},
		{"not permitted", true, "1\n", syscall.EACCES, ""},
	}
	for _, test := range tests {
		root := t.TempDir()
		if test.proc {
			must(t, os.Mkdir(filepath.Join(root, "pressure"), 0o755))
		}
		if test.switched != "" {
			must(t, os.WriteFile(filepath.Join(root, "cgroup.pressure"), []byte(test.switched), 0o600))
		}
		got := explainPressure(kernel.FS{Proc: root}, &cgroupFile{dir: root, spec: &cgroupFileSpec{name: "cpu.pressure"}}, test.err)
		testkit.Equal(t, got, test.want, "%s", test.name)
	}
}

// TestCgroupFileFails covers errors of reading that no ordinary file gives.
func TestCgroupFileFails(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "memory.stat"), nil, 0o600))
	tests := []struct {
		name string
		dir  string
		err  error
		want string
		open bool // tried again at the next collection
	}{
		{"cgroup removed", dir + "/gone", syscall.ENODEV, "cgroup was removed", false},
		{"controller disabled", dir, syscall.ENODEV, "memory.stat was taken away: its controller was disabled for this cgroup", false},
		{"no memory", dir, syscall.ENOMEM, "read memory.stat: cannot allocate memory", true},
		{"not permitted", dir, syscall.EACCES, "read memory.stat: permission denied", true},
	}
	for _, test := range tests {
		kept, err := kernel.Open(filepath.Join(dir, "memory.stat"))
		if err != nil {
			t.Skipf("no kernel files on this system: %v", err)
		}
		spec := specOf(memoryFilesV2(), procstats.CgroupMemoryAnon)
		spec.complete()
		f := &cgroupFile{dir: test.dir, spec: spec, kept: kept, parse: spec.parse, values: make([]kernel.FieldValue, len(spec.fields))}
		f.fail(test.err)
		f.fail(test.err)
		if f.absent() != test.want || f.kept.IsOpen() != test.open {
			t.Errorf("%s: %q, open %v; want %q, %v", test.name, f.absent(), f.kept.IsOpen(), test.want, test.open)
		}
		if f.collect(&Shared{}); test.open && f.absent() != "" {
			t.Errorf("%s: still absent after a read that worked: %q", test.name, f.absent())
		}
		noError(t, f.close())
	}
}

// TestCgroupReadersShare covers what hundreds of readers in one process have in common, and that a file which is
// opened for each read leaves no garbage.
func TestCgroupReadersShare(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"cpu.stat": "usage_usec 1\n", "memory.stat": "anon 1\n", "memory.current": "1\n"})
	target := Target{Cgroup: procstats.Cgroup{V2: dir}, Shared: &Shared{}}
	open := func() *cgroupReader {
		r := openCgroup(target, procstats.SourceSelection(procstats.SourceCgroup))
		if !r.description.Available {
			t.Skip("no kernel files on this system")
		}
		t.Cleanup(func() { _ = r.Close() })
		for i := range r.files {
			r.files[i].reopen()
		}
		return r
	}
	one, other := open(), open()
	if one.layout != other.layout {
		t.Error("two readers have a description each")
	}
	for i := range one.files {
		f := &one.files[i]
		collect := func() { f.collect(target.Shared) }
		if n := testing.AllocsPerRun(10, collect); f.reopened && n > 0 && runtime.GOOS == "linux" {
			t.Errorf("%s: %v allocations to read it", f.spec.name, n)
		}
	}
}
