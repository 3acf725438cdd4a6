// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

const (
	reasonNoCgroup     = "the task has no cgroup"
	reasonSharedCgroup = "other processes live in the same cgroup: its totals are not the task's"
)

// cgroupReader is the Source over the kept-open files of a task's cgroup. OpenCgroup and OpenPSI make one each.
type cgroupReader struct {
	description Description
	files       []*cgroupFile  // in the order of reading
	fields      []*cgroupField // of all files and of none, in the order of the table
	buf         []byte
	// used is the target's.
	used bool
}

// OpenCgroup opens the files of the task's cgroup that the selected measurements of SourceCgroup need, on any layout:
// each controller is read where it is, in its v1 folder or in the v2 folder. What can be read is decided here, once:
// a file that does not exist now stays absent. It cannot fail; Describe says what there is.
//
// CPU time comes from cpuacct.usage where there is one and from cpu.stat else; its split into user and system from
// cpu.stat wherever there is a v2 folder, because cpuacct.stat counts in steps of 10 ms.
func OpenCgroup(t Target, sel Selection) Source {
	r := newCgroupReader(SourceCgroup, t)
	reason := ""
	switch {
	case !t.Cgroup.Exists():
		reason = reasonNoCgroup
	case t.Cgroup.Shared:
		reason = reasonSharedCgroup
	}
	if reason != "" {
		r.addAbsent(SourceCgroup, sel, reason)
		return r.ready()
	}
	v1, v2 := cgroupFilesV1(t.Cgroup), cgroupFilesV2()
	for i := range v1 {
		spec := &v1[i]
		r.open(t.Cgroup.V1[spec.controller], spec, nil, func(id ID) bool {
			return sel.Has(id) && cgroupVersion(t.Cgroup, id) == 1
		})
	}
	for i := range v2 {
		r.open(t.Cgroup.V2, &v2[i], nil, func(id ID) bool {
			return sel.Has(id) && cgroupVersion(t.Cgroup, id) == 2
		})
	}
	r.takeOver(t.Opened)
	for i := range v1 {
		r.addForeign(&v1[i], sel, t.Cgroup)
	}
	for i := range v2 {
		r.addForeign(&v2[i], sel, t.Cgroup)
	}
	return r.ready()
}

// cgroupFilesV2 lists every file that is read from a v2 folder, CPU time first: rates divide by the time between the
// stamps, which are taken just before.
func cgroupFilesV2() []cgroupFileSpec {
	return slices.Concat(cpuStatV2(), memoryCurrentV2(), memoryStatV2(), memorySwapV2(), memoryEventsV2(), ioStatV2(),
		pidsFiles(), cpuMaxV2())
}

// cgroupFilesV1 lists every file that is read from the v1 folders.
func cgroupFilesV1(c Cgroup) []cgroupFileSpec {
	recursive := false
	if dir := c.V1["blkio"]; dir != "" {
		_, err := os.Lstat(filepath.Join(dir, "blkio.throttle.io_service_bytes_recursive"))
		recursive = err == nil
	}
	return slices.Concat(cpuacctV1(), cpuStatV1(), memoryCurrentV1(), memoryStatV1(), memoryOOMControlV1(),
		blkioV1(recursive), pidsFiles(), cpuMaxV1())
}

// cgroupController names the v1 controller whose folder decides where a measurement is read.
func cgroupController(id ID) string {
	switch {
	case id >= CgroupCPUUsage && id <= CgroupCPUSystem:
		return "cpuacct"
	case id >= CgroupCPUPeriods && id <= CgroupCPUShares:
		return "cpu"
	case id >= CgroupMemoryCurrent && id <= CgroupMemoryFailcnt:
		return "memory"
	case id >= CgroupIORead && id <= CgroupBlkioWriteOperations:
		return "blkio"
	case id >= CgroupPidsCurrent && id <= CgroupPidsEventsMax:
		return "pids"
	}
	return ""
}

// cgroupVersion says from which version of cgroups a measurement of the task is read: 1, 2, or 0 for neither.
func cgroupVersion(c Cgroup, id ID) int {
	split := id == CgroupCPUUser || id == CgroupCPUSystem
	switch {
	case c.V2 != "" && split:
		return 2
	case c.V1[cgroupController(id)] != "":
		return 1
	case c.V2 != "":
		return 2
	}
	return 0
}

func newCgroupReader(id SourceID, t Target) *cgroupReader {
	return &cgroupReader{description: Description{ID: id, Version: t.Cgroup.Layout()}, used: t.Used}
}

// open opens a file if any of its measurements is wanted.
func (r *cgroupReader) open(dir string, spec *cgroupFileSpec, explain func(*cgroupFile, error) string, wanted func(ID) bool) {
	if !slices.ContainsFunc(spec.fields, func(f cgroupFieldSpec) bool { return wanted(f.id) }) {
		return
	}
	f := openCgroupFile(dir, spec, wanted, explain)
	r.files = append(r.files, f)
	for i := range f.fields {
		r.fields = append(r.fields, &f.fields[i])
	}
}

// takeOver reads files that were opened before in place of the group's. One that cannot be taken over is left alone.
func (r *cgroupReader) takeOver(opened map[string]*os.File) {
	for _, f := range r.files {
		file, given := opened[f.name]
		if !given {
			continue
		}
		if kept, err := dupKept(file); err == nil {
			_ = f.kept.close()
			f.kept, f.absent = kept, ""
		}
	}
}

// addForeign makes those selected measurements of a file absent that nothing is read for, because the task's
// hierarchy is of the other version, or because there is none for the controller.
func (r *cgroupReader) addForeign(spec *cgroupFileSpec, sel Selection, c Cgroup) {
	for _, field := range spec.fields {
		if !sel.Has(field.id) || r.has(field.id) {
			continue
		}
		what := spec.name
		if field.key != "" {
			what += " " + field.key
		}
		reason := cgroupController(field.id) + " controller not available: the task has no cgroup in its hierarchy"
		switch cgroupVersion(c, field.id) {
		case 1:
			reason = "cgroup v1 has no " + what
			if field.id == CgroupMemoryRefaultAnon || field.id == CgroupMemoryRefaultFile {
				reason = what + " is read on cgroup v2 only"
			}
		case 2:
			reason = "cgroup v2 has no " + what
		}
		r.fields = append(r.fields, &cgroupField{id: field.id, missing: reason})
	}
}

func (r *cgroupReader) has(id ID) bool {
	return slices.ContainsFunc(r.fields, func(f *cgroupField) bool { return f.id == id })
}

// addAbsent makes all selected measurements of a source absent for one reason.
func (r *cgroupReader) addAbsent(source SourceID, sel Selection, reason string) {
	for _, row := range Table() {
		if row.Source == source && sel.Has(row.ID) {
			r.fields = append(r.fields, &cgroupField{id: row.ID, missing: reason})
		}
	}
	r.description.Reason = reason
}

// ready puts the fields into the order of the table and describes what can be read. That takes a read of each file:
// pressure files, for one, open where they cannot be read.
func (r *cgroupReader) ready() *cgroupReader {
	slices.SortFunc(r.fields, func(a, b *cgroupField) int { return cmp.Compare(a.id, b.id) })
	for _, f := range r.files {
		r.buf = f.collect(r.buf)
		if r.used {
			_ = f.countFromHere() // closing what is only read
		}
		if f.absent == "" {
			r.description.Available = true
		}
		r.description.Reason = cmp.Or(r.description.Reason, f.absent)
	}
	if r.description.Available {
		r.description.Reason = ""
		return r
	}
	for _, f := range r.fields {
		r.description.Reason = cmp.Or(r.description.Reason, f.missing)
	}
	r.description.Reason = cmp.Or(r.description.Reason, "none of its measurements is selected")
	return r
}

// Describe implements Source.
func (r *cgroupReader) Describe() Description { return r.description }

// Collect implements Source. Where no file is open the source stays unstamped: nothing was read.
func (r *cgroupReader) Collect(s *Sample) {
	if slices.ContainsFunc(r.files, func(f *cgroupFile) bool { return f.kept.isOpen() }) {
		s.Sources[r.description.ID] = Now()
	}
	for _, f := range r.files {
		r.buf = f.collect(r.buf)
	}
	for _, f := range r.fields {
		s.Task.Put(f.reading())
	}
}

// Close implements Source.
func (r *cgroupReader) Close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}
