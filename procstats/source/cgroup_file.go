// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	reasonCgroupRemoved = "cgroup was removed"
	reasonNotBefore     = "what it said before the task started is not known"
)

// cgroupField is one measurement in one kernel file.
type cgroupField struct {
	spec *cgroupFieldSpec
	file *cgroupFile // nil where nothing is read
	at   int         // in file.values
	// before is what a counter said when its file was opened, in a group that had tasks before; 0 elsewhere.
	before float64
	// least is the target's, for a peak; 0 for none.
	least float64
}

// absentField is a field that nothing is read for.
func absentField(id procstats.ID, reason string) *cgroupField {
	return &cgroupField{spec: &cgroupFieldSpec{id: id, missing: reason}}
}

// ofTask is the task's part of the value. A counter that has fallen below what it said before the task was set back
// meanwhile (some files of version 1 can be written to), and continues from there.
func (f *cgroupField) ofTask(value float64) float64 {
	f.before = min(f.before, value)
	return value - f.before
}

// reading returns what the last read of the field's file found.
func (f *cgroupField) reading() procstats.Reading {
	id := f.spec.id
	switch {
	case f.file == nil:
		return procstats.AbsentReading(id, f.spec.missing)
	case f.file.absent != "":
		return procstats.AbsentReading(id, f.file.absent)
	}
	value := &f.file.values[f.at]
	switch value.State {
	case kernel.FieldRead:
		return procstats.NumberReading(id, max(f.ofTask(value.Value)/f.spec.units(), f.least))
	case kernel.FieldUnlimited:
		return procstats.AbsentReading(id, procstats.ReasonNoLimit)
	case kernel.FieldInvalid:
		if value.Key != "" {
			return procstats.AbsentReading(id, f.file.spec.name+": "+value.Key+" is not a number in range")
		}
		return procstats.AbsentReading(id, f.file.spec.name+": not a number in range")
	}
	return procstats.AbsentReading(id, f.spec.missing)
}

// cgroupFileSpec describes one kernel file: what has to be true for it to exist, and what is read from it.
type cgroupFileSpec struct {
	// controller is the one that the file belongs to, under its name in the file's version of cgroups; empty for
	// the files that every v2 folder has.
	controller string
	name       string
	// second is read behind the file where one value is spread over two (v1 has quota and period apart).
	second string
	// since says what else the file needs besides its controller, for people; empty for nothing.
	since string
	parse kernel.FieldParser
	// fields are in the kernel's order.
	fields []cgroupFieldSpec
}

// has reports whether a measurement is read from the file.
func (s *cgroupFileSpec) has(id procstats.ID) bool {
	return slices.ContainsFunc(s.fields, func(f cgroupFieldSpec) bool { return f.id == id })
}

// cgroupFieldSpec describes one measurement in a kernel file.
type cgroupFieldSpec struct {
	id  procstats.ID
	key string
	// per is how many of the kernel's units make one unit of the row; 0 means one.
	per float64
	// since says why the key may be missing in a file that exists, for people; empty for no known reason.
	since string
	// missing is the whole reason for absence, where "FILE has no KEY: SINCE" would not be true.
	missing string
}

// units is how many of the kernel's units make one unit of the row.
func (s *cgroupFieldSpec) units() float64 { return max(s.per, 1) }

// cgroupFile is one kernel file of the task's cgroup, kept open.
type cgroupFile struct {
	dir  string
	spec *cgroupFileSpec
	// kept and second are open, unless reopened says that they are opened for each read.
	kept, second kernel.File
	reopened     bool
	given        bool // kept is the caller's of a Target: another one would not have what it has counted
	fields       []cgroupField
	values       []kernel.Field // what was read for the fields, in their order
	// before is what values were at the read before; nil for a file that can move while its task sleeps.
	before []kernel.Field
	// absent is why nothing can be read from the file, for all its fields; empty where it can.
	absent string
	failed error // the cause of absent where that came from a read
	// worked reports that the file was read before: when it failed is part of the reason then.
	worked bool
	// explain words the errors that mean something particular to the files of one source; nil for none.
	explain func(f *cgroupFile, err error) string
}

// openCgroupFile opens the file and prepares the selected ones of its fields. It cannot fail: a file that cannot be
// opened is absent, with the reason.
func openCgroupFile(dir string, file *cgroupFileSpec, selected func(procstats.ID) bool, explain func(*cgroupFile, error) string) *cgroupFile {
	f := &cgroupFile{dir: dir, spec: file, explain: explain}
	n := 0
	for i := range file.fields {
		if selected(file.fields[i].id) {
			n++
		}
	}
	f.fields, f.values = make([]cgroupField, 0, n), make([]kernel.Field, 0, n) // a host holds those of all its tasks
	for i := range file.fields {
		spec := &file.fields[i]
		if !selected(spec.id) {
			continue
		}
		f.fields = append(f.fields, cgroupField{spec: spec, file: f, at: len(f.values)})
		f.values = append(f.values, kernel.Field{Key: spec.key})
	}
	var err error
	if f.kept, err = kernel.Open(filepath.Join(dir, file.name)); err == nil && file.second != "" {
		f.second, err = kernel.Open(filepath.Join(dir, file.second))
	}
	if err != nil {
		f.absent = f.explainOpen(err)
		_ = f.close()
	}
	return f
}

// reopen gives the descriptors of an open file up: from now on each read opens the file, and would read another one that has
// taken its place. It is for files that are read seldom.
func (f *cgroupFile) reopen() {
	if f.isOpen() && !f.given {
		_ = f.close() // of what was only read
		f.reopened = true
	}
}

// isOpen reports whether there is something to read.
func (f *cgroupFile) isOpen() bool { return f.kept.IsOpen() || f.reopened }

// read reads the file, and the second one behind it.
func (f *cgroupFile) read(buf []byte) ([]byte, error) {
	data, err := f.readOne(&f.kept, f.spec.name, buf)
	if err != nil || f.spec.second == "" || bytes.HasPrefix(data, []byte("-")) { // no quota has no need of its period
		return data, err
	}
	tail, err := f.readOne(&f.second, f.spec.second, data[len(data):])
	return append(data, tail...), err
}

// readOne reads a file that the kernel writes in one piece.
func (f *cgroupFile) readOne(kept *kernel.File, name string, buf []byte) ([]byte, error) {
	switch {
	case f.reopened:
		file, err := kernel.OpenIn(f.dir, name, buf)
		if err != nil {
			return buf[:0], err
		}
		data, err := file.ReadRecord(buf)
		return data, errors.Join(err, file.Close())
	case f.spec.fields[0].key == "" && kept == &f.kept: // the kernel prints one number without waiting for anything
		return kept.ReadNow(buf)
	}
	return kept.ReadRecord(buf)
}

// sayMissing words why a field is absent that its file does not have, once for all tasks.
func (s *cgroupFileSpec) sayMissing() {
	for i := range s.fields {
		field := &s.fields[i]
		if field.missing != "" {
			continue
		}
		field.missing = s.name + " is empty"
		if field.key != "" {
			field.missing = s.name + " has no " + field.key
		}
		if field.since != "" {
			field.missing += ": " + field.since
		}
	}
}

// explainOpen says in words why a file cannot be opened.
func (f *cgroupFile) explainOpen(err error) string {
	spec := f.spec
	if f.explain != nil {
		if reason := f.explain(f, err); reason != "" {
			return reason
		}
	}
	switch {
	case !kernel.Gone(err):
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return fmt.Sprintf("open %s: %v", spec.name, errno)
		}
		return err.Error()
	case !f.dirExists():
		return reasonCgroupRemoved
	case !f.controllerEnabled(spec.controller):
		return spec.controller + " controller not available in this cgroup: " + spec.name + " does not exist"
	case spec.since != "":
		return spec.name + " does not exist: " + spec.since
	}
	return spec.name + " does not exist in this kernel"
}

// controllerEnabled reports whether the folder has the files of a controller at all. On v1 the folder itself is the
// controller's; in v2 the file that each controller always brings decides.
func (f *cgroupFile) controllerEnabled(controller string) bool {
	var first []string
	switch controller {
	case "memory":
		first = []string{"memory.current", "memory.usage_in_bytes"}
	case "cpu":
		first = []string{"cpu.weight", "cpu.shares"}
	case "io":
		first = []string{"io.stat"}
	case "pids":
		first = []string{"pids.current"}
	default:
		return true
	}
	for _, name := range first {
		if _, err := os.Lstat(filepath.Join(f.dir, name)); err == nil {
			return true
		}
	}
	return false
}

func (f *cgroupFile) dirExists() bool {
	_, err := os.Lstat(f.dir)
	return err == nil
}

// collect reads the file into its fields and returns buf for the next file.
func (f *cgroupFile) collect(buf []byte) []byte {
	if !f.isOpen() {
		return buf
	}
	data, err := f.read(buf)
	if err != nil {
		f.fail(err)
		return data[:0]
	}
	f.absent, f.failed, f.worked = "", nil, true
	copy(f.before, f.values)
	for i := range f.values {
		f.values[i].State = kernel.FieldMissing
	}
	f.spec.parse(data, f.values)
	return data
}

// countFromHere makes the counters of the file, which has just been read, begin at 0. A file of counters that could not
// be read is closed: whatever it says later, how much of that is the task's is unknown.
func (f *cgroupFile) countFromHere() error {
	for i := range f.fields {
		field, value := &f.fields[i], &f.values[i]
		m, _ := procstats.Lookup(field.spec.id)
		switch {
		case m.Kind != procstats.Counter:
		case f.absent != "":
			return f.close()
		case value.State == kernel.FieldRead: // a key that is missing now will begin at 0 by itself
			field.before = value.Value
		}
	}
	return nil
}

// countFrom makes the counters of the file begin at what they said before the task. A file with one that is not known is
// closed, as countFromHere does with one that could not be read.
func (f *cgroupFile) countFrom(before map[procstats.ID]float64) error {
	for i := range f.fields {
		field := &f.fields[i]
		m, _ := procstats.Lookup(field.spec.id)
		value, known := before[field.spec.id]
		switch {
		case m.Kind != procstats.Counter:
		case !known:
			f.absent = cmp.Or(f.absent, reasonNotBefore)
			return f.close()
		default:
			field.before = value
		}
	}
	return nil
}

// fail makes the file's fields absent. A file whose cgroup or controller is gone never comes back and is closed; any
// other error is tried again at the next collection, and worded only when it changes.
func (f *cgroupFile) fail(err error) {
	if f.absent != "" && errors.Is(err, f.failed) {
		return
	}
	f.failed, f.absent = err, ""
	if kernel.Gone(err) && !f.dirExists() {
		f.absent = reasonCgroupRemoved
	} else if f.explain != nil {
		f.absent = f.explain(f, err)
	}
	if f.absent == "" && kernel.Gone(err) {
		f.absent = f.spec.name + " was taken away: its controller was disabled for this cgroup"
	}
	if f.absent == "" {
		f.absent = fmt.Sprintf("read %s: %v", f.spec.name, err)
	}
	if f.worked {
		f.absent += ", noticed at " + kernel.Now().Wall.UTC().Format(time.RFC3339)
	}
	if kernel.Gone(err) {
		_ = f.close()
	}
}

// close gives the file up; closing twice is allowed.
func (f *cgroupFile) close() error {
	f.reopened = false
	return errors.Join(f.kept.Close(), f.second.Close())
}

// IsRemoved reports whether a reading is absent because the task's cgroup was removed.
func IsRemoved(r procstats.Reading) bool { return strings.HasPrefix(r.Reason(), reasonCgroupRemoved) }
