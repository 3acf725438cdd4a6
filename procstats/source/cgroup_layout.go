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
	reason    string // why nothing can be read
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

// layout returns the layout of a source for a cgroup, without files if there is a reason why nothing can be read.
func (f *cgroupFiles) layout(
	source procstats.SourceID, sel procstats.Selection, c procstats.Cgroup, reason string,
) *cgroupLayout {
	key := layoutKey{source, sel, foldersOf(c), reason}
	if l := f.layouts[key]; l != nil {
		return l
	}
	l := &cgroupLayout{}
	var absent []layoutField
	for version, specs := range f.of(source) {
		for i := range specs {
			file := layoutFile{spec: &specs[i], version: version}
			for at := range file.spec.fields {
				field := &file.spec.fields[at]
				switch where := f.version(c, field.id); {
				case !sel.Has(field.id):
				case reason == "" && where == version:
					file.selected |= 1 << at
					l.fields = append(l.fields, layoutField{field, len(l.files), at})
				default:
					missing := cmp.Or(reason, f.explainForeign(field, file.spec.name, where))
					absent = append(absent, layoutField{&cgroupFieldSpec{id: field.id, missing: missing}, -1, 0})
				}
			}
			if file.selected != 0 {
				l.files = append(l.files, file)
				l.values += len(file.spec.fields)
			}
		}
	}
	for _, field := range absent { // whose measurement is in no file of the other version either
		if !slices.ContainsFunc(l.fields, func(f layoutField) bool { return f.spec.id == field.spec.id }) {
			l.fields = append(l.fields, field)
		}
	}
	slices.SortFunc(l.fields, func(a, b layoutField) int { return cmp.Compare(a.spec.id, b.spec.id) })
	f.layouts[key] = l
	return l
}

// cgroupFiles describes the files of both versions, for all tasks.
type cgroupFiles struct {
	v1, v2, pressure []cgroupFileSpec
	layouts          map[layoutKey]*cgroupLayout
}

func newCgroupFiles(fs kernel.FS) *cgroupFiles {
	devices := kernel.NewBlockDevices(fs)
	files := &cgroupFiles{
		v1: cgroupFilesV1(devices), v2: cgroupFilesV2(devices), pressure: pressureFiles(fs),
		layouts: map[layoutKey]*cgroupLayout{},
	}
	for _, specs := range [][]cgroupFileSpec{files.v1, files.v2, files.pressure} {
		for i := range specs {
			specs[i].complete()
		}
	}
	return files
}

// of returns the files of a source, by the version of cgroups.
func (f *cgroupFiles) of(source procstats.SourceID) [3][]cgroupFileSpec {
	if source == procstats.SourcePSI {
		return [...][]cgroupFileSpec{2: f.pressure}
	}
	return [...][]cgroupFileSpec{1: f.v1, 2: f.v2}
}

// specOf returns the first of the files that has a measurement; nil if none has.
func specOf(specs []cgroupFileSpec, id procstats.ID) *cgroupFileSpec {
	if i := slices.IndexFunc(specs, func(s cgroupFileSpec) bool { return s.has(id) }); i >= 0 {
		return &specs[i]
	}
	return nil
}

// controller names the v1 controller whose folder decides where a measurement is read: that of the v1 file which has
// it, or of the v2 file where v1 has none.
func (f *cgroupFiles) controller(id procstats.ID) string {
	switch spec := cmp.Or(specOf(f.v1, id), specOf(f.v2, id)); {
	case spec == nil:
		return ""
	case spec.controller == "io":
		return "blkio"
	default:
		return spec.controller
	}
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
