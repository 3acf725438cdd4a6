// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Cache shares collections among readers: however many ask, at most one collection is made per time to live,
// and readers that ask while one is under way wait for it and share it. It starts no goroutine: the reader
// that finds nothing young enough collects. All methods may be called concurrently.
type Cache struct {
	produce func(latest *procstats.Sample) *procstats.Sample
	now     func() procstats.Stamp

	latest      atomic.Pointer[collection]
	collections atomic.Int64
	// lock is held by the reader that collects. It is a channel, on which readers in a synctest bubble can wait.
	lock chan struct{}
}

// collection is a published sample. Its age is counted from the beginning of the collection and not from its end, so
// that a slow one does not look fresher than its numbers are.
type collection struct {
	began  time.Duration
	sample *procstats.Sample
}

// NewCache returns an empty cache over produce, which is never called twice at the same time. It gets the latest
// sample, nil for none, with which it may share readings: what it returns is published. now is the clock by which
// samples age; nil means Now.
func NewCache(produce func(latest *procstats.Sample) *procstats.Sample, now func() procstats.Stamp) *Cache {
	if now == nil {
		now = kernel.Now
	}
	return &Cache{produce: produce, now: now, lock: make(chan struct{}, 1)}
}

// Get returns a sample whose collection began less than maxAge ago or was under way when Get was called, and
// else it collects. With maxAge 0 only a collection under way is shared. The sample is published:
// it is never changed again, and the caller must not.
func (c *Cache) Get(maxAge time.Duration) *procstats.Sample {
	before := c.latest.Load()
	if c.young(before, maxAge) {
		return before.sample
	}
	return c.share(before, 0)
}

// GetNew returns a sample whose collection began after the call: not one under way, which may have read some of
// what it reads already.
func (c *Cache) GetNew() *procstats.Sample {
	return c.share(c.latest.Load(), c.now().Mono)
}

// share waits for the collection under way, and returns its sample if it is newer than before and began at a time or
// later. Otherwise it collects.
func (c *Cache) share(before *collection, asked time.Duration) *procstats.Sample {
	c.lock <- struct{}{}
	defer func() { <-c.lock }()
	if latest := c.latest.Load(); latest != before && latest.began >= asked {
		return latest.sample
	}
	began := c.now()
	c.collections.Add(1)
	sample := c.produce(c.Latest())
	if sample.Zero() {
		sample.Stamp = began
	}
	c.latest.Store(&collection{began.Mono, sample})
	return sample
}

// young reports whether a sample is no older than maxAge. A clock that went back is another clock: whatever
// was read by the old one is not young.
func (c *Cache) young(latest *collection, maxAge time.Duration) bool {
	if latest == nil || maxAge <= 0 {
		return false
	}
	age := c.now().Mono - latest.began
	return age >= 0 && age < maxAge
}

// Latest returns the newest sample there is, whatever its age, and nil where none was collected. It never
// collects and never waits.
func (c *Cache) Latest() *procstats.Sample {
	if latest := c.latest.Load(); latest != nil {
		return latest.sample
	}
	return nil
}

// Collections counts the collections begun so far.
func (c *Cache) Collections() int64 { return c.collections.Load() }

// Sibling returns an empty sample with memory for as many readings as s has, in one piece for all rows: a
// cache publishes a fresh sample each time, and growing every row anew would cost more than reading it. s may be nil.
func Sibling(s *procstats.Sample) *procstats.Sample {
	if s == nil {
		return &procstats.Sample{}
	}
	perRow := 0
	for i := range s.Processes {
		perRow = max(perRow, len(s.Processes[i].Readings))
	}
	n := len(s.Processes)
	next := &procstats.Sample{Task: make(procstats.Readings, 0, len(s.Task)), Processes: make([]procstats.ProcessRow, n)}
	readings := make(procstats.Readings, n*perRow)
	for i := range next.Processes {
		next.Processes[i].Readings = readings[i*perRow : i*perRow : (i+1)*perRow]
	}
	next.Processes = next.Processes[:0]
	return next
}

// UntilTick is the time to the next multiple of interval on CLOCK_MONOTONIC, or rather to phase after it; a tick that
// is less than a tenth of an interval away is left to the one before it, so that a timer which fired early does not
// fire twice.
func UntilTick(now, interval, phase time.Duration) time.Duration {
	left := interval - (now+interval-phase)%interval
	if left < interval/10 {
		left += interval
	}
	return left
}

// Collector reads all sources that a selection needs, in an order in which the rows of processes come before the totals
// that they are held against. It is used by one goroutine at a time; a Cache sees to that.
type Collector struct {
	sel     procstats.Selection
	sources []Source       // in the order of reading
	ids     []procstats.ID // the selected measurements of the task as a whole
	own     *Shared        // nil if the sources share it with those of other tasks

	// These are among the sources, or nil: what only they know is asked of them below.
	tree    *treeSource
	io      *ioSource
	disk    *diskSource
	cgroups []*cgroupReader // of accounts and of pressure
}

// Open opens the sources that a selection needs for a task, our own readers on Linux and the portable one elsewhere;
// more are read after them. A source that does not work here is opened all the same: it says why.
//
// What is read of every process comes before the cgroup, so that the rows never have more than the total that they are
// held against; the slower files of the processes after that, because the gap between the two has to stay small; last
// what has a slow clock of its own.
func Open(t Target, sel procstats.Selection, more ...Source) *Collector {
	c := NewCollector(sel)
	if t.Shared == nil {
		c.own = &Shared{}
		t.Shared = c.own
	}
	members := sync.OnceValue(func() *membership { return newMembership(t) }) // most collectors read no process
	add(c, procstats.SourceRusage, func() Source { return openRusage(t, sel) })
	c.tree = add(c, procstats.SourceTree, func() *treeSource { return openTree(t, sel, members()) })
	accounts := add(c, procstats.SourceCgroup, func() *cgroupReader { return openCgroup(t, sel) })
	pressure := add(c, procstats.SourcePSI, func() *cgroupReader { return openPSI(t, sel) })
	c.cgroups = slices.DeleteFunc([]*cgroupReader{accounts, pressure}, func(r *cgroupReader) bool { return r == nil })
	add(c, procstats.SourceHugetlb, func() Source { return openHugetlb(t, sel, members) })
	c.io = add(c, procstats.SourceIO, func() *ioSource { return openIO(t, sel, members()) })
	add(c, procstats.SourceSmaps, func() Source { return openSmaps(t, sel, members()) })
	add(c, procstats.SourcePortable, func() Source { return openPortable(t, sel) })
	c.disk = add(c, procstats.SourceDisk, func() *diskSource { return openDisk(t, sel) })
	c.sources = append(c.sources, more...)
	return c
}

// add opens a source if any of its measurements is selected.
func add[S Source](c *Collector, id procstats.SourceID, open func() S) (s S) {
	if c.sel.HasSource(id) {
		s = open()
		c.sources = append(c.sources, s)
	}
	return s
}

// NewCollector returns a collector over the given sources, read in the given order.
func NewCollector(sel procstats.Selection, sources ...Source) *Collector {
	ids := procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Scope == procstats.TaskScope && sel.Has(m.ID)
	}).IDs()
	return &Collector{sel: sel, sources: sources, ids: ids}
}

// Selection returns what was selected.
func (c *Collector) Selection() procstats.Selection { return c.sel }

// Collect reads every source into a sample, whose earlier contents are lost and whose memory is used again.
// Each selected measurement of the task is in it afterwards, with a value or with a reason.
func (c *Collector) Collect(into *procstats.Sample) {
	CollectAll(into, c)
}

// CollectAll reads several collectors into one sample: rows first, then the totals that they are held against.
func CollectAll(into *procstats.Sample, collectors ...*Collector) {
	into.Reset()
	into.Stamp = kernel.Now()
	for _, c := range collectors {
		for _, source := range c.sources {
			source.Collect(into)
		}
	}
	for _, c := range collectors {
		if c.tree != nil {
			c.tree.closeSum(into)
		}
		c.putMissing(into)
	}
}

// CollectBefore reads what the counters of a task start from that has not started yet. Its folder is not walked: the
// next walk would be an interval later, and until then the size from before the start would be the task's.
func (c *Collector) CollectBefore(into *procstats.Sample) {
	into.Reset()
	into.Stamp = kernel.Now()
	for _, source := range c.sources {
		if source != Source(c.disk) {
			source.Collect(into)
		}
	}
	c.putMissing(into)
}

// Ending lets the next collection, which is the task's last, walk the task's folder again, and for longer.
func (c *Collector) Ending() {
	if c.disk != nil {
		c.disk.limits = DiskLimits{Every: time.Second, Budget: 10 * c.disk.limits.Budget}
	}
}

// putMissing gives a reason for what no source has read.
func (c *Collector) putMissing(into *procstats.Sample) {
	at := 0 // both lists are in the order of the table
	for _, id := range c.ids {
		for at < len(into.Task) && into.Task[at].ID() < id {
			at++
		}
		if at == len(into.Task) || into.Task[at].ID() != id {
			into.SetAbsent(id, procstats.ReasonNoSource)
		}
	}
}

// Describe says of each source whether it works here, in the order of reading.
func (c *Collector) Describe() []procstats.SourceDescription {
	var list []procstats.SourceDescription
	for _, source := range c.sources {
		list = append(list, source.Describe())
	}
	return list
}

// Unavailable collects once and returns the measurements of sel that cannot be read here, each with the
// reason. A limit that is not set is not unavailable. What has a value only later (before there is a process, a
// walk that has not come round, a child that was reaped) is judged by whether its source works.
func (c *Collector) Unavailable(sel procstats.Selection) []procstats.Reading {
	var s procstats.Sample
	c.Collect(&s)
	var list []procstats.Reading
	for _, id := range sel.IDs() {
		m, _ := procstats.Lookup(id)
		if reason, gone := c.unavailable(&s, m); gone {
			list = append(list, procstats.AbsentReading(id, reason))
		}
	}
	return list
}

func (c *Collector) unavailable(s *procstats.Sample, m procstats.Measurement) (reason string, unavailable bool) {
	if !c.sel.Has(m.ID) {
		return "not selected", true
	}
	reason, works := c.sourceWorks(m.Source)
	reads := works && (m.Source == procstats.SourceRusage || m.Source == procstats.SourcePortable)
	if m.Scope == procstats.TaskScope && (reads || readAtOnce(m.Source)) {
		r, _ := s.Task.Get(m.ID)
		return r.Reason(), !r.Present() && r.Reason() != procstats.ReasonNoLimit && r.Reason() != reasonNotReaped
	}
	if !works || m.Scope == procstats.TaskScope || m.Source == procstats.SourceSmaps {
		return reason, !works
	}
	for i := range s.Processes {
		r, found := s.Processes[i].Readings.Get(m.ID)
		if r.Present() {
			return "", false
		}
		if reason = procstats.ReasonNoSource; found {
			reason = r.Reason()
		}
	}
	return reason, len(s.Processes) > 0
}

// readAtOnce reports whether the first collection shows what a source can read. The others wait for a process of
// the task, or for their own slow clock.
func readAtOnce(source procstats.SourceID) bool {
	return source == procstats.SourceCgroup || source == procstats.SourcePSI || source == procstats.SourceExecutor
}

func (c *Collector) sourceWorks(id procstats.SourceID) (reason string, works bool) {
	for _, source := range c.sources {
		if d := source.Describe(); d.ID == id {
			return d.Reason, d.Available
		}
	}
	return procstats.ReasonNoSource, false
}

// Earlier returns what a counter of the task's cgroup said when it was opened, in the unit of its row, if the group had
// tasks before.
func (c *Collector) Earlier(id procstats.ID) (value float64, known bool) {
	for _, r := range c.cgroups {
		for i := range r.files {
			if f := &r.files[i]; r.used && f.has(id) && f.origins != nil {
				at := f.find(id)
				return f.before(at) / f.spec.fields[at].units(), true
			}
		}
	}
	return 0, false
}

// Before returns what the counters of the task's cgroup began at, in the kernel's units, for a Target of another
// reader.
func (c *Collector) Before() map[procstats.ID]float64 {
	before := make(map[procstats.ID]float64)
	for _, r := range c.cgroups {
		r.addBefore(before)
	}
	return before
}

// ContinueFrom makes the counters that are kept here, and not by the kernel, at least what they were in an earlier
// sample: one of another reader of the task. Of its processes, those count as exited that alive says are gone.
func (c *Collector) ContinueFrom(earlier *procstats.Sample, alive func(procstats.ProcessID) bool) {
	if c.tree != nil {
		c.tree.continueFrom(earlier, alive)
	}
	if c.io != nil {
		c.io.continueFrom(earlier)
	}
}

// LostChildren reports whether a process was seen, in any sample so far, that ignores SIGCHLD: the CPU time of
// children that ended between two samples is lost then, and tree_cpu_seconds_total can miss any share of the truth and
// not only the last sample's. It is looked for where the task's total comes from the tree. The flag SA_NOCLDWAIT has
// the same effect and is shown nowhere.
func (c *Collector) LostChildren() bool { return c.tree != nil && c.tree.lostChildren() }

// CPUThrottler returns the path, within its hierarchy, of the cgroup above the task's whose CPU quota throttled most so
// far; empty if none did.
func (c *Collector) CPUThrottler() string {
	for _, r := range c.cgroups {
		if path := r.quotas.throttler(); path != "" {
			return path
		}
	}
	return ""
}

// Outside returns the first processes of the task that were seen outside its cgroup.
func (c *Collector) Outside() []procstats.ProcessID {
	if c.tree == nil {
		return nil
	}
	return c.tree.outside()
}

// Close closes every source and returns their errors, joined.
func (c *Collector) Close() error {
	var errs []error
	for _, source := range c.sources {
		errs = append(errs, source.Close())
	}
	errs = append(errs, c.own.Close())
	return errors.Join(errs...)
}

// Split returns what of a selection the totals of a task need, and what is left for readers who want process rows too.
// Without a cgroup that accounts memory the totals come from the processes, and one reader must see both: nothing is
// left then. The same holds if proportional memory is selected, which is wanted among the totals.
func Split(t Target, sel procstats.Selection) (totals, rows procstats.Selection) {
	if !t.Cgroup.Encloses() || !chargesMemory(t.Cgroup) || sel.HasSource(procstats.SourceSmaps) {
		return sel, procstats.Selection{}
	}
	totals = sel.Minus(procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Scope == procstats.ProcessScope || m.Source == procstats.SourceTree || m.Source == procstats.SourceIO
	}))
	return totals, sel.Minus(totals)
}

// Only returns of a whole sample what a reader of a selection of totals always gets: a stream that had more in it now
// and then would have headlines that jump from one source to another.
func Only(whole *procstats.Sample, selection procstats.Selection) *procstats.Sample {
	totals := *whole
	totals.Task, totals.Processes, totals.Omitted = nil, nil, 0
	totals.Task.PutSelected(whole.Task, selection)
	return &totals
}
