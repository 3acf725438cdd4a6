// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/internal/bpf"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// ringSize is room for 1500 records: the reader is woken when half of it is used.
	ringSize = 256 << 10
	// mostWatched bounds the watched cgroups. mostInherited is how many live processes have a place for their peak at
	// their exec, by the last bits of the PID.
	mostWatched   = 4096
	mostInherited = 8192
	// mostRSSLag is how far off the kernel's largest resident set may be and still count as exact: with up to eight CPUs
	// it is not more.
	mostRSSLag = 1 << 20
)

// Reader gets a record of every thread that ends in a watched cgroup or below one. The kernel runs its programs at
// every context switch and every exec of the machine until it is closed.
type Reader struct {
	host  kernel.FS
	maps  shared
	links []link.Link
	ring  *ring
	page  int64
	// hasDelay and hasIO report whether this kernel accounts for the time on run queues and for the bytes to storage.
	hasDelay, hasIO bool
	// peaks is what a largest resident set guarantees that is a process's own.
	peaks procstats.Guarantee
	// touched is the most memory of its own that one page fault gives a process; 0 if that is not known.
	touched int64
	// unseen is why sockets that tasks are handed are not seen.
	unseen error

	work sync.WaitGroup

	mu       sync.Mutex // guards following
	next     uint64
	watches  map[uint64]*Watch
	reported bool // the end of a thread with its account
}

// OpenOne is Open for one watch at a time; it is faster, and so are its programs.
func OpenOne(fs kernel.FS) (*Reader, error) { return open(fs, true) }

// Open loads the programs. The error says why exits are not had here. What loads may still report nothing: see
// [Reader.Try] and [Watch.Finish].
func Open(fs kernel.FS) (*Reader, error) { return open(fs, false) }

func open(fs kernel.FS, one bool) (*Reader, error) {
	r := &Reader{
		host: fs, page: int64(os.Getpagesize()), peaks: procstats.Exact, watches: make(map[uint64]*Watch),
	}
	if kernel.RSSLag(fs) > mostRSSLag {
		r.peaks = procstats.Sampled
	}
	if !kernel.GivesHugePages(fs) {
		r.touched = r.page
	}
	if err := checkNamespace(fs); err != nil {
		return nil, err
	}
	if err := bpf.Load(fs, func() error { return r.load(fs, one) }); err != nil {
		return nil, errors.Join(explain(fs, err), r.Close())
	}
	r.work.Go(func() { r.ring.wait(r.add) })
	return r, nil
}

func (r *Reader) load(fs kernel.FS, one bool) error {
	if err := r.makeMaps(one); err != nil { // before anything that takes time: this is what is refused without privileges
		return err
	}
	o, err := readOffsets(fs)
	if err != nil {
		return err
	}
	r.hasDelay, r.hasIO = o.hasDelay, o.hasIO
	if r.ring, err = openRing(r.maps.ring.FD(), int(r.page)); err != nil {
		return err
	}
	if err := r.attach(exitProgram(o, &r.maps)); err != nil { // the first is the one that readers are counted by
		return err
	}
	specs := []*ebpf.ProgramSpec{endingProgram(o, &r.maps), execProgram(o, &r.maps), forkProgram(o, &r.maps)}
	if o.capable {
		specs = append(specs, capableProgram(o, &r.maps))
	}
	var loading sync.WaitGroup // the kernel checks several at a time
	errs := make([]error, len(specs))
	for i, spec := range specs {
		loading.Go(func() { errs[i] = r.attach(spec) })
	}
	r.unseen = r.watchReceived(o)
	loading.Wait()
	return cmp.Or(errs...)
}

// attach loads a program and attaches it, also to other tracepoints.
func (r *Reader) attach(spec *ebpf.ProgramSpec, also ...string) error {
	_, err := bpf.Attach(spec, func(p *ebpf.Program) (l link.Link, err error) {
		for _, to := range append(also, spec.AttachTo) {
			if spec.Type == ebpf.Kprobe {
				l, err = link.Kprobe(to, p, nil)
			} else {
				l, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: to, Program: p})
			}
			if err != nil {
				return nil, fmt.Errorf("attach BPF program to %s: %w", to, err)
			}
			r.mu.Lock()
			r.links = append(r.links, l)
			r.mu.Unlock()
		}
		return l, nil
	})
	return err
}

func (r *Reader) makeMaps(one bool) error {
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&r.maps.ring, ebpf.MapSpec{Name: "tacho_exits", Type: ebpf.RingBuf, MaxEntries: ringSize}},
		{&r.maps.watched, ebpf.MapSpec{
			Name: "tacho_watched", Type: ebpf.Hash, KeySize: 8, ValueSize: watchedSize, MaxEntries: mostWatched,
			Flags: unix.BPF_F_NO_PREALLOC,
		}},
		{&r.maps.inherited, ebpf.MapSpec{
			Name: "tacho_peaks", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: mostInherited,
		}},
		{&r.maps.one, ebpf.MapSpec{Name: "tacho_one", Type: ebpf.CGroupArray, KeySize: 4, ValueSize: 4, MaxEntries: 1}},
	} {
		if m.to == &r.maps.one && !one {
			break
		}
		var err error
		if *m.to, err = ebpf.NewMap(&m.spec); err != nil {
			return fmt.Errorf("create BPF map %s: %w", m.spec.Name, err)
		}
	}
	return nil
}

// Close detaches the programs, and waits for the reader's goroutine.
func (r *Reader) Close() error {
	var errs []error
	for _, l := range r.links {
		errs = append(errs, l.Close())
	}
	if r.ring != nil {
		errs = append(errs, r.ring.stop())
		r.work.Wait()
		errs = append(errs, r.ring.close())
	}
	for _, m := range []*ebpf.Map{r.maps.ring, r.maps.watched, r.maps.inherited, r.maps.one} {
		errs = append(errs, m.Close()) // of none there is nothing to close
	}
	return errors.Join(errs...)
}

func (r *Reader) add(raw []byte) {
	one, ok := decode(raw, r.page)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported = r.reported || one.use.cpu > 0
	if w := r.watches[one.watch]; w != nil {
		if one.process.start < w.since {
			one.inherited = one.maxRSS // it may have executed its program before
		} else {
			delete(w.tally.earlier, one.process.pid) // of one that had this number before
		}
		w.tally.add(one)
		w.records++
	}
}

// read adds up what the kernel has written until now.
func (r *Reader) read() { r.ring.read(r.add) }

// Watch counts what ends in one cgroup.
type Watch struct {
	reader *Reader
	cgroup uint64
	number uint64
	since  uint64 // nanoseconds since boot

	tally   *tally // guarded by the reader's mu
	records int64  // guarded by the reader's mu
}

// Watch begins with the cgroup in dir, a directory of the version 2 hierarchy.
func (r *Reader) Watch(dir string) (*Watch, error) {
	if r.maps.one != nil {
		return r.watchOne(dir)
	}
	cgroup, err := find(dir)
	if err != nil {
		return nil, err
	}
	w, err := r.watch(cgroup)
	if err != nil {
		return nil, fmt.Errorf("watch cgroup %s: %w", dir, err)
	}
	return w, nil
}

// watchOne is Watch of a reader of one: the kernel finds what is below the cgroup, however deep.
func (r *Reader) watchOne(dir string) (w *Watch, err error) {
	cgroup, err := os.Open(dir)
	if err == nil {
		if w, err = r.watch(ownKey); err == nil {
			err = r.maps.one.Update(uint32(0), uint32(cgroup.Fd()), ebpf.UpdateAny) //nolint:gosec // a descriptor
		}
		err = errors.Join(err, cgroup.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("watch cgroup %s: %w", dir, err)
	}
	return w, nil
}

// Earlier takes from a process, once it has ended, what it had used before the watch began. PIDs are those of the first
// PID namespace.
func (w *Watch) Earlier(pid int, cpu time.Duration, io kernel.ProcIO) {
	w.reader.mu.Lock()
	defer w.reader.mu.Unlock()
	w.tally.earlier[uint32(pid)] = use{cpu: cpu, read: io.ReadBytes, written: io.WriteBytes} //nolint:gosec // a PID
}

// find returns the id of a cgroup, the number of its directory, unless it is so deep that what ends below it would not
// be found. In a namespace of cgroups not all of those above it are seen.
func find(dir string) (cgroup uint64, err error) {
	var own, above unix.Stat_t
	if err := unix.Stat(dir, &own); err != nil {
		return 0, fmt.Errorf("watch cgroup %s: %w", dir, err)
	}
	above = own
	for path, depth := dir, 0; above.Ino != rootCgroup && above.Dev == own.Dev; depth++ {
		if depth == mostLevels-1 {
			return 0, fmt.Errorf("watch cgroup %s: it has more than %d others above it", dir, mostLevels-1)
		}
		path = filepath.Dir(path)
		if err := unix.Stat(path, &above); err != nil {
			return 0, fmt.Errorf("watch cgroup %s: %w", dir, err)
		}
	}
	return own.Ino, nil
}

// watch begins with the cgroup of a number. A watch of the same cgroup gets no more records.
func (r *Reader) watch(cgroup uint64) (*Watch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	w := &Watch{reader: r, cgroup: cgroup, number: r.next, tally: newTally(r.peaks, r.touched)}
	w.since = uint64(kernel.SinceBoot()) //nolint:gosec // positive
	if err := r.maps.watched.Update(cgroup, [watchedSize / 8]uint64{w.number}, ebpf.UpdateAny); err != nil {
		return nil, err //nolint:wrapcheck // by the callers
	}
	r.watches[w.number] = w
	return w, nil
}

// Close ends it, unless a later watch of the cgroup has taken its place.
func (w *Watch) Close() error {
	w.reader.mu.Lock()
	defer w.reader.mu.Unlock()
	delete(w.reader.watches, w.number)
	for _, other := range w.reader.watches {
		if other.cgroup == w.cgroup && other.number > w.number {
			return nil
		}
	}
	if err := w.reader.maps.watched.Delete(w.cgroup); err != nil {
		return fmt.Errorf("stop watching a cgroup: %w", err)
	}
	return nil
}

// Read returns what has ended until now, without the threads whose records are outstanding.
func (w *Watch) Read() Summary {
	lost := w.counts().lost
	w.reader.read()
	s := Summary{Lost: lost}
	w.reader.mu.Lock()
	defer w.reader.mu.Unlock()
	if w.outstanding() == 0 { // else it may be that of a thread of a process that has ended
		w.tally.settle()
	}
	s.Commands = w.tally.list()
	for i := range s.Commands {
		c := &s.Commands[i]
		if !w.reader.hasDelay {
			c.RunDelaySeconds = nil
		}
		if !w.reader.hasIO {
			c.ReadBytes, c.WrittenBytes = nil, nil
		}
	}
	return s
}

// counts are what the programs have counted of a watched cgroup.
type counts struct {
	lost   int64 // records
	forked int64 // processes
	ending int64 // threads that have begun to end, before their parents are told
	// sockets are those whose packets the cgroup does not count: see Uncounted.
	sockets int64
}

func (w *Watch) counts() counts {
	var value [watchedSize / 8]int64
	if w == nil || w.reader.maps.watched.Lookup(w.cgroup, &value) != nil {
		return counts{}
	}
	return counts{lost: value[1], forked: value[2], ending: value[3], sockets: value[4]}
}

// Uncounted returns how many sockets, whose packets the cgroup does not count, processes were handed or had open when
// they ended, or may have opened by CAP_NET_RAW, and why more can be there that it has not seen. One socket can count
// twice: if it was opened so and was open at the end, and if each of two threads found that it was the last.
func (w *Watch) Uncounted() (sockets int64, unseen error) { return w.counts().sockets, w.reader.unseen }

// outstanding returns how many records of the threads that have begun to end have not been read; the reader's lock is
// held. What has been read is counted first: against a count from before, the record of a thread that began later
// would stand for one that is missing.
func (w *Watch) outstanding() int64 {
	read := w.records
	c := w.counts()
	return max(0, c.ending-c.lost-read)
}

// left returns how many processes have left the cgroup when nothing in it is alive: of the first one and those that
// were forked there, those that did not end there. Others may have joined it, so that it is at least so many; 0 if
// records were lost.
func (w *Watch) left(lost int64) int64 {
	forked := w.counts().forked
	w.reader.mu.Lock()
	defer w.reader.mu.Unlock()
	if lost > 0 {
		return 0
	}
	return max(0, 1+forked-w.tally.ended)
}

// pollInterval is between two looks for a record that is outstanding: of single records the kernel does not wake the
// reader.
const pollInterval = 500 * time.Microsecond

// await reads until what it asks for is found, and reports whether that was within the limit.
func (r *Reader) await(limit time.Duration, found func() bool) bool {
	if r.read(); found() {
		return true
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			if r.read(); found() {
				return true
			}
		case <-deadline.C:
			return false
		}
	}
}

// Await reads the records of the threads that have begun to end, until none is outstanding, but no longer than the
// limit: a process can be reaped long before the scheduler switches away from it for the last time, which is when its
// last slice is counted. It returns how many are outstanding, and whether the programs have reported anything so far.
func (w *Watch) Await(limit time.Duration) (outstanding int64, reported bool) {
	w.reader.await(limit, func() bool {
		w.reader.mu.Lock()
		defer w.reader.mu.Unlock()
		outstanding, reported = w.outstanding(), w.reader.reported
		return outstanding == 0
	})
	return outstanding, reported
}

// Finish returns what has ended when nothing in the cgroup is alive. It waits for outstanding records as [Watch.Await]
// does, and counts as lost what has not come by then. The error says that the programs report nothing, if they have
// not been tried before.
func (w *Watch) Finish(limit time.Duration) (Summary, error) {
	outstanding, reported := w.Await(limit)
	w.reader.mu.Lock()
	w.tally.finish()
	lastEnd := w.tally.lastEnd
	w.reader.mu.Unlock()
	if !reported {
		return Summary{}, fmt.Errorf("first process of the cgroup: %w", errSilent)
	}
	s := w.Read()
	s.Lost += outstanding
	s.Left = w.left(s.Lost)
	if s.Lost == 0 && s.Left == 0 && kernel.InInitialTimeNamespace(w.reader.host) {
		s.LastEnd = lastEnd
	}
	return s, nil
}
