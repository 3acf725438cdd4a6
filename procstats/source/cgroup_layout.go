// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
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

// number describes a file of one number.
func number(controller, name string, id procstats.ID) cgroupFileSpec {
	return cgroupFileSpec{controller: controller, name: name, fields: []cgroupFieldSpec{{id: id}}}
}

// setting describes a file of one number that says what was last written to it.
func setting(controller, name string, id procstats.ID) cgroupFileSpec {
	s := number(controller, name, id)
	s.setting = true
	return s
}

// needs adds what the file needs besides its controller.
func (s cgroupFileSpec) needs(since string) cgroupFileSpec {
	s.since = since
	return s
}

// parsedBy sets the parser.
func (s cgroupFileSpec) parsedBy(parse kernel.FieldParser) cgroupFileSpec {
	s.parse = parse
	return s
}

// cgroupFilesV2 lists every file that is read from a v2 folder, CPU time first: rates divide by the time between the
// stamps, which are taken just before.
func cgroupFilesV2(devices *kernel.BlockDevices) []cgroupFileSpec {
	return slices.Concat(cpuStatV2(), memoryFilesV2(), ioStatV2(devices), pidsFiles(), []cgroupFileSpec{
		setting("cpu", "cpu.max", procstats.CgroupCPUQuota).needs(needsBandwidth).parsedBy(kernel.ParseCPUMax),
		setting("cpu", "cpu.weight", procstats.CgroupCPUWeight),
	})
}

// cgroupFilesV1 lists every file that is read from the v1 folders.
func cgroupFilesV1(devices *kernel.BlockDevices) []cgroupFileSpec {
	return slices.Concat(cpuFilesV1(), memoryFilesV1(), blkioV1(devices), pidsFiles(), []cgroupFileSpec{
		{
			controller: "cpu", name: "cpu.cfs_quota_us", second: "cpu.cfs_period_us", setting: true, since: needsBandwidth,
			parse: kernel.ParseCPUMax, fields: []cgroupFieldSpec{{id: procstats.CgroupCPUQuota}},
		},
		setting("cpu", "cpu.shares", procstats.CgroupCPUShares),
	})
}

const needsBandwidth = "needs CONFIG_CFS_BANDWIDTH"

// cpuStatV2 is read from every v2 folder, also where no controller is enabled (hybrid mounts): the three times come
// from the core, the throttling counters from the cpu controller. Times are in microseconds. The periods are counted
// only while a quota is set; they are true zeros before.
func cpuStatV2() []cgroupFileSpec {
	const controller = "cpu controller not available in this cgroup"
	return []cgroupFileSpec{{
		name: "cpu.stat", since: "needs Linux 4.15",
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupCPUUsage, key: "usage_usec", per: 1e6},
			{id: procstats.CgroupCPUUser, key: "user_usec", per: 1e6},
			{id: procstats.CgroupCPUSystem, key: "system_usec", per: 1e6},
			{id: procstats.CgroupCPUPeriods, key: "nr_periods", since: controller},
			{id: procstats.CgroupCPUThrottledPeriods, key: "nr_throttled", since: controller},
			{id: procstats.CgroupCPUThrottled, key: "throttled_usec", per: 1e6, since: controller},
		},
	}}
}

// userHZ is the unit of cpuacct.stat and of /proc/PID/stat: clock ticks as user space sees them. It is part of the
// kernel's ABI and 100 on every architecture that Go runs on, whatever CONFIG_HZ is.
const userHZ = 100

// cpuFilesV1 are cpuacct.usage, in nanoseconds, cpuacct.stat, in ticks of 10 ms, and cpu.stat, which has the throttling
// alone, in nanoseconds.
func cpuFilesV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "cpuacct", name: "cpuacct.usage",
		fields: []cgroupFieldSpec{{id: procstats.CgroupCPUUsage, per: 1e9}},
	}, {
		controller: "cpuacct", name: "cpuacct.stat",
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupCPUUser, key: "user", per: userHZ},
			{id: procstats.CgroupCPUSystem, key: "system", per: userHZ},
		},
	}, {
		controller: "cpu", name: "cpu.stat", since: needsBandwidth,
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupCPUPeriods, key: "nr_periods"},
			{id: procstats.CgroupCPUThrottledPeriods, key: "nr_throttled"},
			{id: procstats.CgroupCPUThrottled, key: "throttled_time", per: 1e9},
		},
	}}
}

// chargesMemory reports whether a cgroup accounts memory: a nested v2 group has no controllers.
func chargesMemory(c procstats.Cgroup) bool {
	if c.V1["memory"] != "" {
		return true
	}
	_, err := os.Lstat(filepath.Join(c.V2, "memory.current"))
	return c.V2 != "" && err == nil
}

const (
	reasonNoSwapAccounting = "the kernel does not account swap (CONFIG_SWAP, boot parameter swapaccount=1)"
	sinceOOMKill           = "kernels older than 4.13 do not report it"
)

// memoryFilesV2 cover the folder and all below it, memory.events unless cgroup2 is mounted with memory_localevents.
// Sizes are in bytes. The files of swap exist if the kernel accounts it.
func memoryFilesV2() []cgroupFileSpec {
	const refaults = "kernels older than 5.9 do not split it"
	return []cgroupFileSpec{
		number("memory", "memory.current", procstats.CgroupMemoryCurrent),
		number("memory", "memory.peak", procstats.CgroupMemoryPeak).needs("kernels older than 5.19 have no memory.peak"),
		setting("memory", "memory.max", procstats.CgroupMemoryMax),
		setting("memory", "memory.high", procstats.CgroupMemoryHigh),
		{controller: "memory", name: "memory.stat", fields: []cgroupFieldSpec{
			{id: procstats.CgroupMemoryAnon, key: "anon"},
			{id: procstats.CgroupMemoryFile, key: "file"},
			{id: procstats.CgroupMemoryKernel, key: "kernel", since: "kernels older than 5.18 do not report it"},
			{id: procstats.CgroupMemorySock, key: "sock"},
			{id: procstats.CgroupMemoryShmem, key: "shmem"},
			{id: procstats.CgroupMemoryFileMapped, key: "file_mapped"},
			{id: procstats.CgroupMemoryFileDirty, key: "file_dirty"},
			{id: procstats.CgroupMemoryFileWriteback, key: "file_writeback"},
			{id: procstats.CgroupMemoryInactiveFile, key: "inactive_file"},
			{id: procstats.CgroupMemoryActiveFile, key: "active_file"},
			{id: procstats.CgroupMemorySlabReclaimable, key: "slab_reclaimable"},
			{id: procstats.CgroupMemorySlabUnreclaimable, key: "slab_unreclaimable"},
			{id: procstats.CgroupMemoryRefaultAnon, key: "workingset_refault_anon", since: refaults},
			{id: procstats.CgroupMemoryRefaultFile, key: "workingset_refault_file", since: refaults},
			{id: procstats.CgroupMemoryPgfault, key: "pgfault"},
			{id: procstats.CgroupMemoryPgmajfault, key: "pgmajfault"},
		}},
		number("memory", "memory.swap.current", procstats.CgroupMemorySwapCurrent).needs(reasonNoSwapAccounting),
		number("memory", "memory.swap.peak", procstats.CgroupMemorySwapPeak).
			needs("kernels older than 6.5, or without swap accounting, have no memory.swap.peak"),
		setting("memory", "memory.swap.max", procstats.CgroupMemorySwapMax).needs(reasonNoSwapAccounting),
		{controller: "memory", name: "memory.events", fields: []cgroupFieldSpec{
			{id: procstats.CgroupMemoryEventsLow, key: "low"},
			{id: procstats.CgroupMemoryEventsHigh, key: "high"},
			{id: procstats.CgroupMemoryEventsMax, key: "max"},
			{id: procstats.CgroupMemoryEventsOOM, key: "oom"},
			{id: procstats.CgroupMemoryEventsOOMKill, key: "oom_kill", since: sinceOOMKill},
			{
				id: procstats.CgroupMemoryEventsOOMGroupKill, key: "oom_group_kill",
				since: "kernels older than 5.17 do not report it",
			},
		}},
	}
}

// memoryFilesV1 are their forerunners. memory.limit_in_bytes covers the folder's own limit, as memory.max does.
//
// Of memory.stat the total_ keys are read, which cover the folder and all below it; the keys without total_ leave out
// nested cgroups. total_cache has shmem in it, as file of v2 has. total_swap has the use of swap; its limit counts
// memory and swap together, which is another meaning, and there is no peak. memory.oom_control counts kills in the
// folder itself; v1 does not carry them up from nested cgroups.
func memoryFilesV1() []cgroupFileSpec {
	return []cgroupFileSpec{
		number("memory", "memory.usage_in_bytes", procstats.CgroupMemoryCurrent),
		number("memory", "memory.max_usage_in_bytes", procstats.CgroupMemoryPeak),
		number("memory", "memory.kmem.usage_in_bytes", procstats.CgroupMemoryKernel).needs("needs kernel memory accounting"),
		setting("memory", "memory.limit_in_bytes", procstats.CgroupMemoryMax).parsedBy(kernel.ParseMemoryLimitV1),
		number("memory", "memory.failcnt", procstats.CgroupMemoryFailcnt),
		{controller: "memory", name: "memory.stat", fields: []cgroupFieldSpec{
			{id: procstats.CgroupMemoryFile, key: "total_cache"},
			{id: procstats.CgroupMemoryAnon, key: "total_rss"},
			{id: procstats.CgroupMemoryShmem, key: "total_shmem", since: "kernels older than 4.15 do not report it"},
			{id: procstats.CgroupMemoryFileMapped, key: "total_mapped_file"},
			{id: procstats.CgroupMemoryFileDirty, key: "total_dirty"},
			{id: procstats.CgroupMemoryFileWriteback, key: "total_writeback"},
			{id: procstats.CgroupMemorySwapCurrent, key: "total_swap", since: reasonNoSwapAccounting},
			{id: procstats.CgroupMemoryPgfault, key: "total_pgfault"},
			{id: procstats.CgroupMemoryPgmajfault, key: "total_pgmajfault"},
			{id: procstats.CgroupMemoryInactiveFile, key: "total_inactive_file"},
			{id: procstats.CgroupMemoryActiveFile, key: "total_active_file"},
		}},
		{controller: "memory", name: "memory.oom_control", fields: []cgroupFieldSpec{
			{id: procstats.CgroupMemoryEventsOOMKill, key: "oom_kill", since: sinceOOMKill},
		}},
	}
}

// ioStatV2 has one line for each device that the cgroup used, so an empty file is a true 0.
func ioStatV2(devices *kernel.BlockDevices) []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "io", name: "io.stat",
		own: func() kernel.FieldParser { return kernel.NewIOStat(devices).Parse },
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupIORead, key: "rbytes"},
			{id: procstats.CgroupIOWrite, key: "wbytes"},
			{id: procstats.CgroupIOReadOperations, key: "rios"},
			{id: procstats.CgroupIOWriteOperations, key: "wios"},
		},
	}}
}

// blkioV1 are the counters of blk-throttle, the layer that sees requests of every I/O scheduler, of the folder and
// all below it. Most kernels pass requests by its counters unless a throttle rule for their device and direction
// exists: 6.1 shows lines of zeros then, 6.10 and later no line at all.
func blkioV1(devices *kernel.BlockDevices) []cgroupFileSpec {
	file := func(name string, read, write procstats.ID) cgroupFileSpec {
		nothing := name + " has counted nothing: most kernels count block I/O on cgroup v1 only where a throttle rule is set"
		return cgroupFileSpec{
			controller: "blkio", name: name, since: "needs CONFIG_BLK_DEV_THROTTLING", parse: devices.ParseBlkio,
			fields: []cgroupFieldSpec{{id: read, key: "Read", missing: nothing}, {id: write, key: "Write", missing: nothing}},
		}
	}
	return []cgroupFileSpec{
		file("blkio.throttle.io_service_bytes_recursive", procstats.CgroupBlkioRead, procstats.CgroupBlkioWrite),
		file("blkio.throttle.io_serviced_recursive",
			procstats.CgroupBlkioReadOperations, procstats.CgroupBlkioWriteOperations),
	}
}

// pidsFiles are the same on v1 and v2.
func pidsFiles() []cgroupFileSpec {
	return []cgroupFileSpec{
		number("pids", "pids.current", procstats.CgroupPidsCurrent),
		number("pids", "pids.peak", procstats.CgroupPidsPeak).needs("kernels older than 6.1 have no pids.peak"),
		setting("pids", "pids.max", procstats.CgroupPidsMax).needs("there is none in the root cgroup"),
		{
			controller: "pids", name: "pids.events", since: "kernels older than 4.8 have no pids.events",
			fields: []cgroupFieldSpec{{id: procstats.CgroupPidsEventsMax, key: "max"}},
		},
	}
}
