// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// cgroupLayout says which files of a cgroup are read for a selection, and where in them each measurement is. All tasks
// share it that have folders in the same hierarchies.
type cgroupLayout struct {
	files  []layoutFile  // in the order of reading
	fields []layoutField // of all files and of none, in the order of the table
	values int           // how many fields the files have
}

// layoutFile is a file that is read.
type layoutFile struct {
	spec     *cgroupFileSpec
	version  int
	selected fieldSet
}

// folder is where a cgroup has the file.
func (f *layoutFile) folder(c procstats.Cgroup) string {
	if f.version == 1 {
		return c.V1[f.spec.controller]
	}
	return c.V2
}

// layoutField is where a measurement is.
type layoutField struct {
	spec *cgroupFieldSpec
	file int // in files; -1 where nothing is read
	at   int // in the file's fields
}

// fieldSet is a set of the fields of one file, by their index.
type fieldSet uint32

func (s fieldSet) has(at int) bool { return s&(1<<at) != 0 }

// layoutKey is what a layout depends on.
type layoutKey struct {
	source    procstats.SourceID
	selection procstats.Selection
	folders   string
}

// foldersOf names the hierarchies that a cgroup has folders in.
func foldersOf(c procstats.Cgroup) string {
	list := slices.Sorted(maps.Keys(c.V1))
	list = slices.DeleteFunc(list, func(controller string) bool { return c.V1[controller] == "" })
	if c.V2 != "" {
		list = append(list, "v2")
	}
	return strings.Join(list, ",")
}

// layout returns the layout of a source for a cgroup.
func (f *cgroupFiles) layout(source procstats.SourceID, sel procstats.Selection, c procstats.Cgroup) *cgroupLayout {
	key := layoutKey{source, sel, foldersOf(c)}
	if l := f.layouts[key]; l != nil {
		return l
	}
	l := &cgroupLayout{}
	if source == procstats.SourcePSI {
		l.add(f.pressure, 2, sel.Has)
	} else {
		l.add(f.v1, 1, func(id procstats.ID) bool { return sel.Has(id) && f.version(c, id) == 1 })
		l.add(f.v2, 2, func(id procstats.ID) bool { return sel.Has(id) && f.version(c, id) == 2 })
		l.addForeign(f, f.v1, sel, c)
		l.addForeign(f, f.v2, sel, c)
	}
	f.layouts[key] = l.sorted()
	return l
}

// absentLayout makes all selected measurements of a source absent for one reason.
func absentLayout(source procstats.SourceID, sel procstats.Selection, reason string) *cgroupLayout {
	l := &cgroupLayout{}
	for _, row := range procstats.Table() {
		if row.Source == source && sel.Has(row.ID) {
			l.addAbsent(row.ID, reason)
		}
	}
	return l.sorted()
}

// add adds the files that have a wanted measurement.
func (l *cgroupLayout) add(specs []cgroupFileSpec, version int, wanted func(procstats.ID) bool) {
	for i := range specs {
		file := layoutFile{spec: &specs[i], version: version}
		for at := range file.spec.fields {
			if field := &file.spec.fields[at]; wanted(field.id) {
				file.selected |= 1 << at
				l.fields = append(l.fields, layoutField{field, len(l.files), at})
			}
		}
		if file.selected != 0 {
			l.files = append(l.files, file)
			l.values += len(file.spec.fields)
		}
	}
}

// addForeign makes those selected measurements of the files absent that nothing is read for, because the task's
// hierarchy is of the other version, or because the controller has no hierarchy.
func (l *cgroupLayout) addForeign(
	files *cgroupFiles, specs []cgroupFileSpec, sel procstats.Selection, c procstats.Cgroup,
) {
	for i := range specs {
		for j := range specs[i].fields {
			if field := &specs[i].fields[j]; sel.Has(field.id) && !l.has(field.id) {
				l.addAbsent(field.id, files.explainForeign(field, specs[i].name, files.version(c, field.id)))
			}
		}
	}
}

func (l *cgroupLayout) addAbsent(id procstats.ID, reason string) {
	l.fields = append(l.fields, layoutField{&cgroupFieldSpec{id: id, missing: reason}, -1, 0})
}

func (l *cgroupLayout) has(id procstats.ID) bool {
	return slices.ContainsFunc(l.fields, func(f layoutField) bool { return f.spec.id == id })
}

// sorted puts the fields into the order of the table.
func (l *cgroupLayout) sorted() *cgroupLayout {
	slices.SortFunc(l.fields, func(a, b layoutField) int { return cmp.Compare(a.spec.id, b.spec.id) })
	return l
}

// cgroupFiles describes the files of both versions, for all tasks.
type cgroupFiles struct {
	v1, v2, pressure []cgroupFileSpec
	recursive        bool // there are counters of block I/O that cover all below a folder
	layouts          map[layoutKey]*cgroupLayout
}

func newCgroupFiles(fs kernel.FS, recursive bool) *cgroupFiles {
	devices := kernel.NewBlockDevices(fs)
	files := &cgroupFiles{
		v1: cgroupFilesV1(recursive, devices), v2: cgroupFilesV2(devices), pressure: pressureFiles(fs),
		recursive: recursive, layouts: map[layoutKey]*cgroupLayout{},
	}
	for _, specs := range [][]cgroupFileSpec{files.v1, files.v2, files.pressure} {
		for i := range specs {
			specs[i].complete()
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

// explainForeign words why a field of a file is not read: the task has its measurement in another version, 0 for none.
func (f *cgroupFiles) explainForeign(field *cgroupFieldSpec, file string, version int) string {
	what := file
	if field.key != "" {
		what += " " + field.key
	}
	switch version {
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
