// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// openPSI opens the pressure files of the task's v2 folder (kernel documentation: accounting/psi.rst) that the
// selected measurements need. They exist without any controller, so also in the v2 folder of a hybrid layout; v1 has
// none. It cannot fail; Describe says what there is.
func openPSI(t Target, sel procstats.Selection) *cgroupReader {
	return openCgroupReader(procstats.SourcePSI, t, sel)
}

// pressureFiles are cpu.pressure, memory.pressure and io.pressure; their totals are in microseconds.
func pressureFiles(fs kernel.FS) []cgroupFileSpec {
	explain := func(f *cgroupFile, err error) string { return explainPressure(fs, f, err) }
	file := func(name string, some, full procstats.ID, since string) cgroupFileSpec {
		return cgroupFileSpec{name: name, parse: kernel.ParsePressure, explain: explain, fields: []cgroupFieldSpec{
			{id: some, key: "some", per: 1e6}, {id: full, key: "full", per: 1e6, since: since},
		}}
	}
	return []cgroupFileSpec{
		file("cpu.pressure", procstats.PSICPUSome, procstats.PSICPUFull,
			"kernels older than 5.13 do not report it for the CPU"),
		file("memory.pressure", procstats.PSIMemorySome, procstats.PSIMemoryFull, ""),
		file("io.pressure", procstats.PSIIOSome, procstats.PSIIOFull, ""),
	}
}

// explainPressure words why a pressure file cannot be read. A kernel that was built with PSI and booted without
// answers EOPNOTSUPP; one without PSI, and since Linux 6.1 a cgroup whose cgroup.pressure is 0, has no such files.
// Empty for other errors.
func explainPressure(fs kernel.FS, f *cgroupFile, err error) string {
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP):
		return "the kernel has PSI switched off: it needs the boot parameter psi=1"
	case !kernel.Gone(err) || !f.dirExists():
		return ""
	}
	content, err := os.ReadFile(filepath.Join(f.dir, "cgroup.pressure"))
	if err == nil && bytes.HasPrefix(content, []byte("0")) {
		return "pressure accounting is switched off for this cgroup: cgroup.pressure is 0"
	}
	if _, err := os.Lstat(filepath.Join(fs.Proc, "pressure")); err != nil {
		return "the kernel has no PSI: it needs Linux 4.20 with CONFIG_PSI, and the boot parameter psi=1"
	}
	return ""
}
