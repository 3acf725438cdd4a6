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

// cgroupFileSpec describes one kernel file: what has to be true for it to exist, and what is read from it.
type cgroupFileSpec struct {
	// controller is the one that the file belongs to, under its name in the file's version of cgroups; empty for
	// the files that every v2 folder has.
	controller string
	name       string
	// second is read behind the file where one value is spread over two (v1 has quota and period apart).
	second string
	// setting is set for a file that says what was last written to it, and nothing else: an operator or a task runner
	// writes limits.
	setting bool
	// since says what else the file needs besides its controller, for people; empty for nothing.
	since string
	// parse reads the fields; nil for a single value, or "KEY VALUE" lines if the fields have keys.
	parse kernel.FieldParser
	// own returns a parser for one file alone, which remembers what the file had; nil if parse does for all.
	own func() kernel.FieldParser
	// fields are in the kernel's order.
	fields []cgroupFieldSpec
	// explain words the errors that mean something particular to the file; nil for none.
	explain func(f *cgroupFile, err error) string
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
	// selected are the fields of the spec that are asked for.
	selected fieldSet
	reopened bool // kept and second are opened for each read
	given    bool // kept is the caller's of a Target: another one would not have what it has counted
	// worked reports that the file was read before: when it failed is part of the reason then.
	worked       bool
	kept, second kernel.File
	parse        kernel.FieldParser
	values       []kernel.FieldValue // what was read for the fields of the spec
	origins      []origin            // those of the fields of the spec; nil if all are 0
	fault        *fileFault          // nil if the file can be read
}

// origin is where a field begins.
type origin struct {
	// before is what a counter said when its file was opened, in a group that had tasks before; 0 elsewhere.
	before float64
	// least is the target's, for a peak; 0 for none.
	least float64
}

// fileFault is why nothing can be read from a file, for all its fields.
type fileFault struct {
	reason string
	cause  error // nil where it does not come from a read
}

// openCgroupFile opens the file, whose values go where the caller says. It cannot fail: a file that cannot be opened
// is absent, with the reason.
func openCgroupFile(dir string, spec *cgroupFileSpec, selected fieldSet, values []kernel.FieldValue) cgroupFile {
	f := cgroupFile{dir: dir, spec: spec, selected: selected, values: values, parse: spec.parse}
	if spec.own != nil {
		f.parse = spec.own()
	}
	var err error
	if f.kept, err = kernel.Open(filepath.Join(dir, spec.name)); err == nil && spec.second != "" {
		f.second, err = kernel.Open(filepath.Join(dir, spec.second))
	}
	if err != nil {
		f.fault = &fileFault{reason: cmp.Or(f.explain("open", err), f.explainMissing())}
		_ = f.close()
	}
	return f
}

// openAlone opens a file for the wanted measurements alone, beside those of a layout.
func openAlone(dir string, spec *cgroupFileSpec, wanted ...procstats.ID) *cgroupFile {
	var selected fieldSet
	for at := range spec.fields {
		if slices.Contains(wanted, spec.fields[at].id) {
			selected |= 1 << at
		}
	}
	f := openCgroupFile(dir, spec, selected, make([]kernel.FieldValue, len(spec.fields)))
	return &f
}

// absent is why nothing can be read from the file; empty where it can.
func (f *cgroupFile) absent() string {
	if f.fault == nil {
		return ""
	}
	return f.fault.reason
}

// has reports whether a measurement is read from the file.
func (f *cgroupFile) has(id procstats.ID) bool { return f.find(id) >= 0 }

// find returns where in the fields a measurement is that is read from the file; -1 if it is not.
func (f *cgroupFile) find(id procstats.ID) int {
	for at := range f.spec.fields {
		if f.spec.fields[at].id == id && f.selected.has(at) {
			return at
		}
	}
	return -1
}

// reading returns what the last read found for a field.
func (f *cgroupFile) reading(at int) procstats.Reading {
	spec, value := &f.spec.fields[at], &f.values[at]
	switch {
	case f.fault != nil:
		return procstats.AbsentReading(spec.id, f.fault.reason)
	case value.State == kernel.FieldRead:
		return procstats.NumberReading(spec.id, f.ofTask(at, value.Value)/spec.units())
	case value.State == kernel.FieldUnlimited:
		return procstats.AbsentReading(spec.id, procstats.ReasonNoLimit)
	case value.State == kernel.FieldInvalid:
		what := "not a number in range"
		if spec.key != "" {
			what = spec.key + " is " + what
		}
		return procstats.AbsentReading(spec.id, f.spec.name+": "+what)
	}
	return procstats.AbsentReading(spec.id, spec.missing)
}

// ofTask is the task's part of the value. A counter that has fallen below what it said before the task was set back
// meanwhile (some files of version 1 can be written to), and continues from there.
func (f *cgroupFile) ofTask(at int, value float64) float64 {
	if f.origins == nil {
		return value
	}
	o := &f.origins[at]
	o.before = min(o.before, value)
	return max(value-o.before, o.least)
}

// reopen gives the descriptors of an open file up: from now on each read opens the file, and would read another one
// that has taken its place. It is for files that are read seldom.
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

// complete sets the parser, and words why a field is absent that the file does not have, once for all tasks.
func (s *cgroupFileSpec) complete() {
	switch {
	case s.parse != nil:
	case s.fields[0].key == "":
		s.parse = kernel.ParseSingleValue
	default:
		s.parse = kernel.ParseFlatKeyed
	}
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

// explain says in words why a file cannot be opened or read; empty if it is gone and its cgroup is not.
func (f *cgroupFile) explain(op string, err error) string {
	if f.spec.explain != nil {
		if reason := f.spec.explain(f, err); reason != "" {
			return reason
		}
	}
	switch {
	case !kernel.Gone(err):
	case f.dirExists():
		return ""
	default:
		return reasonCgroupRemoved
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno
	}
	return fmt.Sprintf("%s %s: %v", op, f.spec.name, err)
}

// explainMissing says in words why a file does not exist.
func (f *cgroupFile) explainMissing() string {
	switch spec := f.spec; {
	case !f.controllerEnabled(spec.controller):
		return spec.controller + " controller not available in this cgroup: " + spec.name + " does not exist"
	case spec.since != "":
		return spec.name + " does not exist: " + spec.since
	}
	return f.spec.name + " does not exist in this kernel"
}

// controllerEnabled reports whether the folder has the files of a controller at all. On v1 the folder itself is the
// controller's; in v2 the file that each controller always brings decides.
func (f *cgroupFile) controllerEnabled(controller string) bool {
	first := map[string][]string{
		"memory": {"memory.current", "memory.usage_in_bytes"}, "cpu": {"cpu.weight", "cpu.shares"},
		"io": {"io.stat"}, "pids": {"pids.current"},
	}[controller]
	return first == nil || slices.ContainsFunc(first, func(name string) bool {
		_, err := os.Lstat(filepath.Join(f.dir, name))
		return err == nil
	})
}

func (f *cgroupFile) dirExists() bool {
	_, err := os.Lstat(f.dir)
	return err == nil
}

// collect reads the file into its values, by way of the shared memory. It reports whether what the file has is not
// what it had before: its cgroup was removed, or a controller, which may be that of other files too. A setting that
// cannot be read but may be later does so each time.
func (f *cgroupFile) collect(shared *Shared) (changed bool) {
	if !f.isOpen() {
		return false
	}
	data, err := f.read(shared.Buffer)
	shared.Buffer = data
	if err != nil {
		before := f.fault
		f.fail(err)
		return f.fault != before || f.spec.setting && f.isOpen()
	}
	changed = f.fault != nil
	f.fault, f.worked = nil, true
	fields := shared.fields[:0]
	for at := range f.spec.fields {
		fields = append(fields, kernel.Field{Key: f.spec.fields[at].key})
	}
	f.parse(data, fields)
	for at := range fields {
		changed = changed || f.values[at].State != fields[at].State
		f.values[at] = fields[at].FieldValue
	}
	shared.fields = fields
	return changed
}

// countAs makes the fields of the file, which has just been read, begin where a task does.
func (f *cgroupFile) countAs(t Target) {
	for at := range f.spec.fields {
		if least, set := t.Least[f.spec.fields[at].id]; set && f.selected.has(at) {
			f.origin(at).least = least
		}
	}
	if t.Used {
		_ = f.countFrom(t.Before) // closing what is only read
	}
}

// origin returns where a field begins, to be set.
func (f *cgroupFile) origin(at int) *origin {
	if f.origins == nil {
		f.origins = make([]origin, len(f.spec.fields))
	}
	return &f.origins[at]
}

// counters yields the selected counters of the file, by their index.
func (f *cgroupFile) counters(yield func(at int, id procstats.ID) bool) {
	for at := range f.spec.fields {
		id := f.spec.fields[at].id
		if m, _ := procstats.Lookup(id); m.Kind == procstats.Counter && f.selected.has(at) && !yield(at, id) {
			return
		}
	}
}

// countFrom makes the counters of the file, which has just been read, begin at what they said before the task, or at
// what they say now if before is nil. A file with one that is not known is closed: whatever it says later, how much of
// that is the task's is unknown. A key that is missing now will begin at 0 by itself.
func (f *cgroupFile) countFrom(before map[procstats.ID]float64) error {
	for at, id := range f.counters {
		value, known := before[id]
		if before == nil {
			value, known = f.values[at].Value, f.fault == nil
		}
		switch {
		case !known:
			f.fault = cmp.Or(f.fault, &fileFault{reason: reasonNotBefore})
			return f.close()
		case before != nil || f.values[at].State == kernel.FieldRead:
			f.origin(at).before = value
		}
	}
	return nil
}

// addBefore says what the counters of the file begin at, if it was ever read: also of a group that was removed since.
func (f *cgroupFile) addBefore(before map[procstats.ID]float64) {
	if !f.isOpen() && f.origins == nil {
		return
	}
	for at, id := range f.counters {
		before[id] = f.before(at)
	}
}

// before is what a counter began at.
func (f *cgroupFile) before(at int) float64 {
	if f.origins == nil {
		return 0
	}
	return f.origins[at].before
}

// fail makes the file's fields absent. A file whose cgroup or controller is gone never comes back and is closed; any
// other error is tried again at the next collection, and worded only when it changes.
func (f *cgroupFile) fail(err error) {
	if f.fault != nil && errors.Is(err, f.fault.cause) {
		return
	}
	reason := cmp.Or(f.explain("read", err),
		f.spec.name+" was taken away: its controller was disabled for this cgroup")
	if f.worked {
		reason += ", noticed at " + kernel.Now().Wall.UTC().Format(time.RFC3339)
	}
	f.fault = &fileFault{reason, err}
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
