// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// cgroupReader is the Source over the kept-open files of a task's cgroup. openCgroup and openPSI make one each.
type cgroupReader struct {
	description procstats.SourceDescription
	layout      *cgroupLayout
	files       []cgroupFile // those of the layout
	watched     []watchedFile
	settings    cgroupSettings
	shared      *Shared
	// used reports that the group had tasks before this one.
	used bool
	// quotas are of the task's group and of those above it.
	quotas cpuQuotas
}

// watchedFile is a file that moves whenever the task uses CPU time or memory, or waits.
type watchedFile struct {
	file   *cgroupFile
	before []kernel.FieldValue // what it said at the read before
	// alone is not set for a file that tells of waits which begin only while a thread runs: the CPU time moves with them.
	// Waits that go on have moved it by the read before.
	alone bool
}

// openCgroup opens the files of the task's cgroup that the selected measurements of SourceCgroup need, on any layout:
// each controller is read where it is, in its v1 folder or in the v2 folder. What can be read is decided here, once:
// a file that does not exist now stays absent. It cannot fail; Describe says what there is.
//
// CPU time comes from cpuacct.usage where there is one and from cpu.stat else; its split into user and system from
// cpu.stat wherever there is a v2 folder, because cpuacct.stat counts in steps of 10 ms.
func openCgroup(t Target, sel procstats.Selection) *cgroupReader {
	r := openCgroupReader(procstats.SourceCgroup, t, sel)
	r.quotas = openCPUQuotas(t, sel, r.files)
	return r
}

// openCgroupReader opens the files that a source reads.
func openCgroupReader(source procstats.SourceID, t Target, sel procstats.Selection) *cgroupReader {
	reason := ""
	switch {
	case !t.Cgroup.Exists():
		reason = "the task has no cgroup"
	case t.Cgroup.Shared:
		reason = "other processes live in the same cgroup: its totals are not the task's"
	case source == procstats.SourcePSI && t.Cgroup.V2 == "":
		reason = "the task has no cgroup v2, and only that has pressure files"
	}
	r := &cgroupReader{
		description: procstats.SourceDescription{ID: source, Version: t.Cgroup.Layout(), Reason: reason},
		shared:      t.shared(), used: t.Used,
	}
	r.layout = r.shared.cgroupFiles(t.FS).layout(source, sel, t.Cgroup, reason)
	values := make([]kernel.FieldValue, r.layout.values) // in one piece: a host holds those of all its tasks
	r.files = make([]cgroupFile, len(r.layout.files))
	for i := range r.layout.files {
		file := &r.layout.files[i]
		n := len(file.spec.fields)
		r.files[i] = openCgroupFile(file.folder(t.Cgroup), file.spec, file.selected, values[:n:n])
		values = values[n:]
	}
	if source == procstats.SourceCgroup {
		r.useOpened(t.Opened)
		r.settings = watchSettings(r.shared, r.files) // before they are read
	}
	r.ready(t)
	return r
}

// useOpened reads files that the caller opened in place of the group's. One that cannot be duplicated is left alone.
func (r *cgroupReader) useOpened(opened map[string]*os.File) {
	for i := range r.files {
		f := &r.files[i]
		file, given := opened[f.spec.name]
		if !given {
			continue
		}
		if kept, err := kernel.Dup(file); err == nil {
			_ = f.close()
			f.kept, f.given, f.fault = kept, true, nil
		}
	}
}

// ready makes the files count from where the task does, and says what can be read. That takes a read of each file:
// pressure files, for one, open where they cannot be read.
func (r *cgroupReader) ready(t Target) {
	for i := range r.files {
		f := &r.files[i]
		f.collect(r.shared)
		f.countAs(t)
		if f.absent() == "" {
			r.description.Available = true
		}
		r.description.Reason = cmp.Or(r.description.Reason, f.absent())
	}
	if r.description.Available {
		r.description.Reason = ""
		return
	}
	for _, field := range r.layout.fields {
		r.description.Reason = cmp.Or(r.description.Reason, field.spec.missing)
	}
	r.description.Reason = cmp.Or(r.description.Reason, "none of its measurements is selected")
}

// watch remembers the values of the files that move whenever the task uses CPU time or memory, or waits, and returns
// how many there are.
func (r *cgroupReader) watch() int {
	for i := range r.files {
		if f := &r.files[i]; r.watches(f) && f.absent() == "" {
			r.watched = append(r.watched, watchedFile{
				f, slices.Clone(f.values), !f.has(procstats.PSIMemorySome) && !f.has(procstats.PSIIOSome),
			})
		}
	}
	return len(r.watched)
}

// watches reports whether a file moves whenever the task uses CPU time or memory, or waits.
func (r *cgroupReader) watches(f *cgroupFile) bool {
	return r.description.ID == procstats.SourcePSI ||
		f.has(procstats.CgroupCPUUsage) || f.has(procstats.CgroupMemoryCurrent)
}

// reread reads the watched files of a task that has not moved again, without those that do not move alone, and reports
// whether it has moved now.
func (r *cgroupReader) reread() (moved bool) {
	r.settings.look()
	for _, w := range r.watched {
		if w.alone && w.file.collect(r.shared) {
			r.settings.expire()
		}
		moved = moved || w.alone && w.moved()
	}
	return moved || r.settings.written()
}

// moved reports whether a watched file says something else than at the read before, or a write has changed a setting.
func (r *cgroupReader) moved() bool {
	return r.settings.written() || slices.ContainsFunc(r.watched, watchedFile.moved)
}

func (w watchedFile) moved() bool {
	return w.file.fault != nil || !slices.Equal(w.before, w.file.values)
}

// addBefore says what the counters of open files begin at, where that is not 0.
func (r *cgroupReader) addBefore(before map[procstats.ID]float64) {
	r.quotas.addBefore(before)
	if !r.used {
		return
	}
	for i := range r.files {
		r.files[i].addBefore(before)
	}
}

// Describe implements Source.
func (r *cgroupReader) Describe() procstats.SourceDescription { return r.description }

// Collect implements Source. Where no file is open the source stays unstamped: nothing was read.
func (r *cgroupReader) Collect(s *procstats.Sample) {
	if r.quotas.inherited || slices.ContainsFunc(r.files, func(f cgroupFile) bool { return f.isOpen() }) {
		s.SetRead(r.description.ID, kernel.Now())
	}
	for _, w := range r.watched {
		copy(w.before, w.file.values)
	}
	stale := r.settings.stale(s.Mono)
	for i := range r.files {
		f := &r.files[i]
		if (stale || !f.spec.setting) && f.collect(r.shared) {
			stale = true
			r.settings.expire()
		}
	}
	for _, field := range r.layout.fields {
		if field.file < 0 {
			s.Task.Put(procstats.AbsentReading(field.spec.id, field.spec.missing))
			continue
		}
		s.Task.Put(r.files[field.file].reading(field.at))
	}
	r.quotas.collect(s)
}

// Close implements Source.
func (r *cgroupReader) Close() error {
	r.settings.close()
	errs := []error{r.quotas.close()}
	for i := range r.files {
		errs = append(errs, r.files[i].close())
	}
	return errors.Join(errs...)
}

// settingsInterval is how often settings are read without a write that was seen.
const settingsInterval = time.Minute

// cgroupSettings says when the settings of a task's cgroup have to be read again.
type cgroupSettings struct {
	watched bool // else they are read at every collection
	shared  *Shared
	folders []*kernel.WrittenFolder // those that have them
	due     time.Duration           // Stamp.Mono from which on they are read whatever was seen
}

// watchSettings watches the folders of the settings among some files, if the caller wants that and it can be done.
// Either way they are opened for each read from then on, so that a task takes as many descriptors.
func watchSettings(shared *Shared, files []cgroupFile) (s cgroupSettings) {
	if !shared.Watches {
		return s
	}
	s.shared, s.watched = shared, true
	var dirs []string
	for i := range files {
		f := &files[i]
		if !f.spec.setting || !f.isOpen() {
			continue
		}
		f.reopen()
		if slices.Contains(dirs, f.dir) {
			continue
		}
		dirs = append(dirs, f.dir)
		if folder := shared.watch(f.dir); folder != nil {
			s.folders = append(s.folders, folder)
		} else {
			s.watched = false
		}
	}
	if !s.watched {
		s.close()
	}
	return s
}

// written reports whether a file of one of the folders was written to since the settings were last read.
func (s *cgroupSettings) written() bool {
	return slices.ContainsFunc(s.folders, func(f *kernel.WrittenFolder) bool { return f.Written })
}

// look takes what the kernel has seen of writes.
func (s *cgroupSettings) look() {
	if len(s.folders) > 0 {
		s.shared.writes.Look()
	}
}

// stale reports whether the settings have to be read now, as the caller does then.
func (s *cgroupSettings) stale(now time.Duration) bool {
	s.look()
	if s.watched && !s.written() && now < s.due {
		return false
	}
	for _, folder := range s.folders {
		folder.Written = false
	}
	s.due = now + settingsInterval
	return true
}

// expire has the settings read at the next collection, whatever is seen.
func (s *cgroupSettings) expire() { s.due = 0 }

// close ends the watch.
func (s *cgroupSettings) close() {
	for _, folder := range s.folders {
		s.shared.writes.Leave(folder)
	}
	s.folders = nil
}

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
	content, err := kernel.ReadFile(filepath.Join(f.dir, "cgroup.pressure"))
	if err == nil && bytes.HasPrefix(content, []byte("0")) {
		return "pressure accounting is switched off for this cgroup: cgroup.pressure is 0"
	}
	if _, err := os.Lstat(filepath.Join(fs.Proc, "pressure")); err != nil {
		return "the kernel has no PSI: it needs Linux 4.20 with CONFIG_PSI, and the boot parameter psi=1"
	}
	return ""
}

// watched is how many files tell of a quiet task that it is: CPU time, memory, and three of pressure.
const watched = 5

// Quiet tells whether a task uses no CPU time and no memory and waits for nothing. Only a whole collection reads the
// pressure of memory and storage: such waits begin only while a thread runs.
type Quiet struct {
	readers []*cgroupReader
}

// Watch prepares a Quiet over the sources of a collector; nil if they do not read what tells it, as in kernels without
// PSI.
func (c *Collector) Watch() *Quiet {
	q, n := &Quiet{}, 0
	for _, r := range c.cgroups {
		n += r.watch()
		q.readers = append(q.readers, r)
	}
	if n != watched {
		return nil
	}
	return q
}

// Moved reports whether the last collection found that the task has moved since the one before.
func (q *Quiet) Moved() bool {
	return slices.ContainsFunc(q.readers, (*cgroupReader).moved)
}

// Again returns the last sample for now if the task has not moved since, and nil if it has. The sample shares its
// readings with last.
func (q *Quiet) Again(last *procstats.Sample) *procstats.Sample {
	now := kernel.Now()
	if slices.ContainsFunc(q.readers, (*cgroupReader).reread) {
		return nil
	}
	again := *last
	again.Stamp, again.Checked = now, now
	return &again
}
