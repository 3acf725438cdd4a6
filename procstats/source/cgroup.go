// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"os"
	"slices"

	"github.com/tachograph/tacho/errlist"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	reasonNoCgroup     = "the task has no cgroup"
	reasonSharedCgroup = "other processes live in the same cgroup: its totals are not the task's"
)

// cgroupReader is the Source over the kept-open files of a task's cgroup. OpenCgroup and OpenPSI make one each.
type cgroupReader struct {
	description procstats.SourceDescription
	files       []*cgroupFile  // in the order of reading
	fields      []*cgroupField // of all files and of none, in the order of the table
	shared      *Shared
	// used, before and least are the target's.
	used          bool
	before, least map[procstats.ID]float64
	// quotas are of the task's group and of those above it; nil if nothing is read of them.
	quotas *cpuQuotas
}

// OpenCgroup opens the files of the task's cgroup that the selected measurements of SourceCgroup need, on any layout:
// each controller is read where it is, in its v1 folder or in the v2 folder. What can be read is decided here, once:
// a file that does not exist now stays absent. It cannot fail; Describe says what there is.
//
// CPU time comes from cpuacct.usage where there is one and from cpu.stat else; its split into user and system from
// cpu.stat wherever there is a v2 folder, because cpuacct.stat counts in steps of 10 ms.
func OpenCgroup(t Target, sel procstats.Selection) Source {
	r := newCgroupReader(procstats.SourceCgroup, t)
	reason := ""
	switch {
	case !t.Cgroup.Exists():
		reason = reasonNoCgroup
	case t.Cgroup.Shared:
		reason = reasonSharedCgroup
	}
	if reason != "" {
		r.addAbsent(procstats.SourceCgroup, sel, reason)
		r.quotas = openCPUQuotas(t, sel, r.files)
		return r.ready()
	}
	files := r.shared.cgroupFiles(t)
	for i := range files.v1 {
		spec := &files.v1[i]
		r.open(t.Cgroup.V1[spec.controller], spec, nil, func(id procstats.ID) bool {
			return sel.Has(id) && files.version(t.Cgroup, id) == 1
		})
	}
	for i := range files.v2 {
		r.open(t.Cgroup.V2, &files.v2[i], nil, func(id procstats.ID) bool {
			return sel.Has(id) && files.version(t.Cgroup, id) == 2
		})
	}
	r.useOpened(t.Opened)
	r.addForeign(files, files.v1, sel, t.Cgroup)
	r.addForeign(files, files.v2, sel, t.Cgroup)
	r.quotas = openCPUQuotas(t, sel, r.files)
	return r.ready()
}

// cgroupFilesV2 lists every file that is read from a v2 folder, CPU time first: rates divide by the time between the
// stamps, which are taken just before.
func cgroupFilesV2(devices *kernel.BlockDevices) []cgroupFileSpec {
	return slices.Concat(cpuStatV2(), memoryCurrentV2(), memoryStatV2(), memorySwapV2(), memoryEventsV2(), ioStatV2(devices),
		pidsFiles(), cpuMaxV2())
}

// cgroupFilesV1 lists every file that is read from the v1 folders.
func cgroupFilesV1(recursive bool, devices *kernel.BlockDevices) []cgroupFileSpec {
	return slices.Concat(cpuacctV1(), cpuStatV1(), memoryCurrentV1(), memoryStatV1(), memoryOOMControlV1(),
		blkioV1(recursive, devices), pidsFiles(), cpuMaxV1())
}

// cgroupFiles describes the files of both versions, for all tasks.
type cgroupFiles struct {
	v1, v2, pressure []cgroupFileSpec
	recursive        bool // there are counters of block I/O that cover all below a folder
	// foreignFields has the fields that some task does not have, by the version that they are not in.
	foreignFields map[foreignField]*cgroupField
}

type foreignField struct {
	spec    *cgroupFieldSpec
	version int
}

func newCgroupFiles(fs kernel.FS, recursive bool) *cgroupFiles {
	devices := kernel.NewBlockDevices(fs)
	files := &cgroupFiles{
		v1: cgroupFilesV1(recursive, devices), v2: cgroupFilesV2(devices), pressure: pressureFiles(),
		recursive: recursive, foreignFields: map[foreignField]*cgroupField{},
	}
	for _, specs := range [][]cgroupFileSpec{files.v1, files.v2, files.pressure} {
		for i := range specs {
			specs[i].sayMissing()
		}
	}
	return files
}

// specOf returns the first of the files that has a measurement.
func specOf(specs []cgroupFileSpec, id procstats.ID) *cgroupFileSpec {
	i := slices.IndexFunc(specs, func(s cgroupFileSpec) bool { return s.has(id) })
	return &specs[i]
}

// controller names the v1 controller whose folder decides where a measurement is read: that of the v1 file which has
// it, or of the v2 file where v1 has none.
func (f *cgroupFiles) controller(id procstats.ID) string {
	for _, specs := range [][]cgroupFileSpec{f.v1, f.v2} {
		for i := range specs {
			if !specs[i].has(id) {
				continue
			}
			if specs[i].controller == "io" {
				return "blkio"
			}
			return specs[i].controller
		}
	}
	return ""
}

// version says from which version of cgroups a measurement of the task is read: 1, 2, or 0 for neither.
func (f *cgroupFiles) version(c procstats.Cgroup, id procstats.ID) int {
	split := id == procstats.CgroupCPUUser || id == procstats.CgroupCPUSystem
	switch {
	case c.V2 != "" && split:
		return 2
	case c.V1[f.controller(id)] != "":
		return 1
	case c.V2 != "":
		return 2
	}
	return 0
}

func newCgroupReader(id procstats.SourceID, t Target) *cgroupReader {
	return &cgroupReader{
		description: procstats.SourceDescription{ID: id, Version: t.Cgroup.Layout()},
		shared:      t.shared(),
		used:        t.Used, before: t.Before, least: t.Least,
	}
}

// open opens a file if any of its measurements is wanted.
func (r *cgroupReader) open(dir string, spec *cgroupFileSpec, explain func(*cgroupFile, error) string, wanted func(procstats.ID) bool) {
	if !slices.ContainsFunc(spec.fields, func(f cgroupFieldSpec) bool { return wanted(f.id) }) {
		return
	}
	f := openCgroupFile(dir, spec, wanted, explain)
	r.files = append(r.files, f)
	for i := range f.fields {
		r.fields = append(r.fields, &f.fields[i])
	}
}

// useOpened reads files that the caller opened in place of the group's. One that cannot be duplicated is left alone.
func (r *cgroupReader) useOpened(opened map[string]*os.File) {
	for _, f := range r.files {
		file, given := opened[f.spec.name]
		if !given {
			continue
		}
		if kept, err := kernel.Dup(file); err == nil {
			_ = f.close()
			f.kept, f.given, f.absent = kept, true, ""
		}
	}
}

// reopenFiles has the files opened for each read, but for those that Quiet watches.
func (r *cgroupReader) reopenFiles() {
	for _, f := range r.files {
		if !r.watches(f) {
			f.reopen()
		}
	}
}

// addForeign makes those selected measurements of the files absent that nothing is read for, because the task's
// hierarchy is of the other version, or because there is none for the controller.
func (r *cgroupReader) addForeign(files *cgroupFiles, specs []cgroupFileSpec, sel procstats.Selection, c procstats.Cgroup) {
	for i := range specs {
		for j := range specs[i].fields {
			if field := &specs[i].fields[j]; sel.Has(field.id) && !r.has(field.id) {
				r.fields = append(r.fields, files.foreign(c, specs[i].name, field))
			}
		}
	}
}

// foreign returns a field of a file that is not read for a cgroup of the other version, or of none.
func (f *cgroupFiles) foreign(c procstats.Cgroup, file string, field *cgroupFieldSpec) *cgroupField {
	key := foreignField{field, f.version(c, field.id)}
	if f.foreignFields[key] == nil {
		f.foreignFields[key] = absentField(field.id, f.explainForeign(key, file))
	}
	return f.foreignFields[key]
}

// explainForeign words why a field of a file is not read.
func (f *cgroupFiles) explainForeign(key foreignField, file string) string {
	field, what := key.spec, file
	if field.key != "" {
		what += " " + field.key
	}
	switch key.version {
	case 1:
		if field.id == procstats.CgroupMemoryRefaultAnon || field.id == procstats.CgroupMemoryRefaultFile {
			return what + " is read on cgroup v2 only"
		}
		return "cgroup v1 has no " + what
	case 2:
		return "cgroup v2 has no " + what
	}
	return f.controller(field.id) + " controller not available: the task has no cgroup in its hierarchy"
}

func (r *cgroupReader) has(id procstats.ID) bool {
	return slices.ContainsFunc(r.fields, func(f *cgroupField) bool { return f.spec.id == id })
}

// addAbsent makes all selected measurements of a source absent for one reason.
func (r *cgroupReader) addAbsent(source procstats.SourceID, sel procstats.Selection, reason string) {
	for _, row := range procstats.Table() {
		if row.Source == source && sel.Has(row.ID) {
			r.fields = append(r.fields, absentField(row.ID, reason))
		}
	}
	r.description.Reason = reason
}

// ready puts the fields into the order of the table and describes what can be read. That takes a read of each file:
// pressure files, for one, open where they cannot be read.
func (r *cgroupReader) ready() *cgroupReader {
	slices.SortFunc(r.fields, func(a, b *cgroupField) int { return cmp.Compare(a.spec.id, b.spec.id) })
	for _, f := range r.files {
		r.shared.Buffer = f.collect(r.shared.Buffer)
		r.countFrom(f)
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
		r.description.Reason = cmp.Or(r.description.Reason, f.spec.missing)
	}
	r.description.Reason = cmp.Or(r.description.Reason, "none of its measurements is selected")
	return r
}

// countFrom makes the counters of a file that has just been read begin where the task does.
func (r *cgroupReader) countFrom(f *cgroupFile) {
	for i := range f.fields {
		f.fields[i].least = r.least[f.fields[i].spec.id]
	}
	switch { // the errors are of closing what is only read
	case !r.used:
	case r.before != nil:
		_ = f.countFrom(r.before)
	default:
		_ = f.countFromHere()
	}
}

// watch remembers the values of the files that move whenever the task uses CPU time or memory, or waits, and returns how many
// there are.
func (r *cgroupReader) watch() (n int) {
	for _, f := range r.files {
		if r.watches(f) && f.absent == "" {
			f.before = slices.Clone(f.values)
			n++
		}
	}
	return n
}

// watches reports whether a file moves whenever the task uses CPU time or memory, or waits.
func (r *cgroupReader) watches(f *cgroupFile) bool {
	return r.description.ID == procstats.SourcePSI || slices.ContainsFunc(f.fields, func(field cgroupField) bool {
		return field.spec.id == procstats.CgroupCPUUsage || field.spec.id == procstats.CgroupMemoryCurrent
	})
}

// reread reads the watched files again.
func (r *cgroupReader) reread() {
	for _, f := range r.files {
		if f.before != nil {
			r.shared.Buffer = f.collect(r.shared.Buffer)
		}
	}
}

// moved reports whether a watched file says something else than at the read before.
func (r *cgroupReader) moved() bool {
	return slices.ContainsFunc(r.files, func(f *cgroupFile) bool {
		return f.before != nil && (f.absent != "" || !slices.Equal(f.before, f.values))
	})
}

// addBefore says what the counters of open files begin at, where that is not 0.
func (r *cgroupReader) addBefore(before map[procstats.ID]float64) {
	if r.quotas != nil {
		r.quotas.addBefore(before)
	}
	if !r.used {
		return
	}
	for _, f := range r.fields {
		if m, _ := procstats.Lookup(f.spec.id); m.Kind == procstats.Counter && f.file != nil && f.file.isOpen() {
			before[f.spec.id] = f.before
		}
	}
}

// Describe implements Source.
func (r *cgroupReader) Describe() procstats.SourceDescription { return r.description }

// Collect implements Source. Where no file is open the source stays unstamped: nothing was read.
func (r *cgroupReader) Collect(s *procstats.Sample) {
	if r.quotas != nil && r.quotas.inherited || slices.ContainsFunc(r.files, func(f *cgroupFile) bool { return f.isOpen() }) {
		s.SetRead(r.description.ID, kernel.Now())
	}
	for _, f := range r.files {
		r.shared.Buffer = f.collect(r.shared.Buffer)
	}
	for _, f := range r.fields {
		s.Task.Put(f.reading())
	}
	if r.quotas != nil {
		r.shared.Buffer = r.quotas.collect(s, r.shared.Buffer)
	}
}

// Close implements Source.
func (r *cgroupReader) Close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.close())
	}
	if r.quotas != nil {
		errs = append(errs, r.quotas.close())
	}
	return errlist.Join(errs...)
}

// pidsFiles are the same on v1 and v2.
func pidsFiles() []cgroupFileSpec {
	return []cgroupFileSpec{
		{
			controller: "pids", name: "pids.current", parse: kernel.ParseSingleValue,
			fields: []cgroupFieldSpec{{id: procstats.CgroupPidsCurrent}},
		},
		{
			controller: "pids", name: "pids.peak", since: "kernels older than 6.1 have no pids.peak",
			parse:  kernel.ParseSingleValue,
			fields: []cgroupFieldSpec{{id: procstats.CgroupPidsPeak}},
		},
		{
			controller: "pids", name: "pids.max", since: "there is none in the root cgroup", parse: kernel.ParseSingleValue,
			fields: []cgroupFieldSpec{{id: procstats.CgroupPidsMax}},
		},
		{
			controller: "pids", name: "pids.events", since: "kernels older than 4.8 have no pids.events",
			parse:  kernel.ParseFlatKeyed,
			fields: []cgroupFieldSpec{{id: procstats.CgroupPidsEventsMax, key: "max"}},
		},
	}
}
