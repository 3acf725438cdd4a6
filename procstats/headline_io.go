// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"math"
	"strings"
)

// Orders of preference for I/O, as in headline.go.
//
//nolint:gochecknoglobals // constant lists
var (
	ioReadSources  = [...]ID{CgroupIORead, ExitsIORead, TreeIORead, CgroupBlkioRead, RusageInblock}
	ioWriteSources = [...]ID{TreeIOStored, CgroupBlkioWrite}
	ioWriteNeeds   = [...]ID{
		CgroupIOWrite, TreeIOStored, CgroupBlkioWrite,
		ExitsIOWrite, TreeIOWrite, TreeIOCancelledWrite, RusageOublock, CgroupMemoryFileDirty, CgroupMemoryFileWriteback,
	}
	ioHandedSources  = [...]ID{ExitsIOWrite, TreeIOWrite, RusageOublock}
	ioPendingSources = [...]ID{CgroupMemoryFileDirty, CgroupMemoryFileWriteback}
	// What a headline of the network is taken from, and since when that is counted.
	receivedSources = [...]ID{SkbReceived, SkbStartTime}
	sentSources     = [...]ID{SkbSent, SkbStartTime}
)

// largestRead takes the exact counter where there is one, and otherwise the largest of the lower bounds: each misses
// something else, and none counts too much.
func largestRead(f *facts, id ID, sources []ID) HeadlineValue {
	best := firstRead(f.Sample, id, sources)
	if best.Guarantee == Exact {
		return best
	}
	for _, from := range sources {
		value, ok := f.Task.Number(from)
		if most, _ := best.Reading.Number(); ok && value > most {
			best = takenFrom(id, value, from)
		}
	}
	return best
}

// ioWrite is what has reached storage: what the kernel charged to the cgroup, else the larger lower bound, or more if
// the task has ended.
func ioWrite(f *facts, id ID, _ []ID) HeadlineValue {
	written, ok := f.Task.Number(CgroupIOWrite)
	if !ok {
		v := largestRead(f, id, ioWriteSources[:])
		if least, _ := v.Reading.Number(); f.Ended {
			if stored, known := f.storedAtEnd(); known && stored.atLeast(least) {
				return stored
			}
		}
		if !v.Reading.Present() {
			v = noHeadline(id, whyNone(f.Sample, []ID{TreeIOStored, CgroupIOWrite}))
		}
		return v
	}
	v := takenFrom(id, written, CgroupIOWrite)
	if allWritten(f.Sample, written) {
		v.Guarantee = Exact
	}
	return v
}

// storedAtEnd is what an ended task handed to the kernel and neither cancelled nor left dirty in its cgroup. It is
// sampled, because pages can be charged to other cgroups, unless nothing was handed over. While the task goes on it can
// fall, and is no counter.
func (f *facts) storedAtEnd() (v HeadlineValue, known bool) {
	v = firstRead(f.Sample, HeadlineIOWrite, ioHandedSources[:])
	handed, _ := v.Reading.Number()
	if v.Guarantee == Exact && handed == 0 {
		return v, true
	}
	seen, okSeen := f.Task.Number(TreeIOWrite)
	cancelled, _ := f.Task.Number(TreeIOCancelledWrite)
	pending, okPending := pendingBytes(f.Sample)
	if !okSeen || !okPending || seen == 0 || seen < handed*0.99 { // what was not seen may be cancelled
		return v, false
	}
	v.Reading, v.Guarantee = NumberReading(HeadlineIOWrite, max(0, handed-cancelled-pending)), Sampled
	return v, true
}

// atLeast reports whether the value is not below another.
func (h *HeadlineValue) atLeast(other float64) bool {
	value, _ := h.Reading.Number()
	return value >= other
}

// allWritten reports that the bytes charged to a cgroup are those that the task handed to the kernel, and that nothing
// is left to write, both to 1 %. Otherwise the cgroup may have been charged what others wrote, or not what the task
// wrote: the kernel charges the cgroup that owns a file's pages, and the root one for those of devices.
func allWritten(s *Sample, written float64) bool {
	handed, okHanded := s.Task.Number(TreeIOWrite)
	cancelled, okCancelled := s.Task.Number(TreeIOCancelledWrite)
	pending, okPending := pendingBytes(s)
	if !okHanded || !okCancelled || !okPending {
		return false
	}
	if reaped, ok := s.Task.Number(RusageOublock); ok {
		handed = max(handed, reaped)
	}
	handed = max(0, handed-cancelled)
	return math.Abs(written-handed) <= handed/100 && pending <= handed/100
}

// pendingBytes is the page cache of the cgroup that has not reached storage.
func pendingBytes(s *Sample) (bytes float64, ok bool) {
	dirty, okDirty := s.Task.Number(CgroupMemoryFileDirty)
	writeback, okWriteback := s.Task.Number(CgroupMemoryFileWriteback)
	return dirty + writeback, okDirty && okWriteback
}

func ioPending(f *facts, id ID, sources []ID) HeadlineValue {
	bytes, ok := pendingBytes(f.Sample)
	if !ok {
		return noHeadline(id, whyNone(f.Sample, sources))
	}
	v := takenFrom(id, bytes, CgroupMemoryFileDirty)
	v.Guarantee = Sampled // pages of the task can be charged to other cgroups, and those of others to its own
	return v
}

// NetworkHeadlines returns the headlines of the network alone, of a task that has ended.
func NetworkHeadlines(s *Sample) []HeadlineValue {
	f := &facts{Sample: s, History: History{Ended: true}}
	return f.checked([]HeadlineValue{
		packets(f, HeadlineNetworkReceived, receivedSources[:]), packets(f, HeadlineNetworkSent, sentSources[:]),
	})
}

// packets is a lower bound because packets may have been divided or merged. Where there was none since the start of the
// task until its end, none was, if the sockets were watched whose packets are not counted.
func packets(f *facts, id ID, sources []ID) HeadlineValue {
	h := firstRead(f.Sample, id, sources[:1])
	_, late := f.Task.Number(SkbStartTime)
	if value, ok := h.Reading.Number(); ok && value == 0 && !late && f.Ended {
		h.Guarantee = Exact
		if uncounted, _ := f.Task.Get(SkbUncountedSockets); !uncounted.Present() {
			return noHeadline(id, whyNone(f.Sample, []ID{SkbUncountedSockets}))
		}
	}
	return h
}

// Written is what became of the bytes that a task wrote; a reading that is not present is not known.
type Written struct {
	// Handed is io_write_handed_bytes_total, Cancelled tree_io_cancelled_write_bytes_total, Stored io_write_bytes_total
	// and Pending io_write_pending_bytes.
	Handed, Cancelled, Stored, Pending Reading
	// AtLeast reports that Stored is a lower bound.
	AtLeast bool
}

// WrittenOf returns it from the headlines of a sample.
func WrittenOf(s *Sample, list []HeadlineValue) (w Written) {
	w.Cancelled, _ = s.Task.Get(TreeIOCancelledWrite)
	for _, h := range list {
		switch h.ID {
		case HeadlineIOHanded:
			w.Handed = h.Reading
		case HeadlineIOWrite:
			w.Stored, w.AtLeast = h.Reading, h.Guarantee == LowerBound
		case HeadlineIOPending:
			w.Pending = h.Reading
		}
	}
	return w
}

// Writing returns the headline whose growth says how much a task writes: what reaches storage where that is counted,
// else what it hands to the kernel. A lower bound of what has reached storage grows in leaps, whenever the machine has
// written.
func Writing(list []HeadlineValue) ID {
	id := HeadlineIOWrite
	for _, h := range list {
		switch {
		case h.ID == HeadlineIOWrite && h.Source == rowOf(CgroupIOWrite).Name:
			return h.ID
		case h.ID == HeadlineIOHanded && h.Reading.Present():
			id = h.ID
		}
	}
	return id
}

// Text says it at both ends: "64 MiB written by the task" and "24 MiB reached storage, 40 MiB not yet written". If all
// of it reached storage, there is only "written 64 MiB"; both are empty if nothing is known.
func (w Written) Text() (written, since string) {
	if w.simple() {
		return w.storedText("written ", ""), ""
	}
	handed, _ := w.Handed.Number()
	var parts []string
	if text := w.storedText("", " reached storage"); text != "" {
		parts = append(parts, text)
	}
	if cancelled, _ := w.Cancelled.Number(); cancelled > w.little() {
		parts = append(parts, Bytes.Text(min(handed, cancelled))+" deleted before")
	}
	if pending, _ := w.Pending.Number(); pending > w.little() {
		parts = append(parts, Bytes.Text(pending)+" not yet written")
	}
	return Bytes.Text(handed) + " written by the task", strings.Join(parts, ", ")
}

// Short says it in the room of a line that has more to say: "written 64 MiB (24 MiB reached storage)". A lower bound of
// what reached storage says less than what was handed over.
func (w Written) Short() string {
	handed, given := w.Handed.Number()
	switch {
	case given && w.AtLeast:
		return "written " + Bytes.Text(handed)
	case w.simple():
		return w.storedText("written ", "")
	}
	return "written " + Bytes.Text(handed) + w.storedText(" (", " reached storage)")
}

// simple reports that one number says all: as far as is known, all that was handed over has reached storage.
func (w Written) simple() bool {
	handed, given := w.Handed.Number()
	stored, known := w.Stored.Number()
	pending, _ := w.Pending.Number()
	return !given || known && math.Abs(handed-stored) <= w.little() && pending <= w.little()
}

// little is what makes no difference.
func (w Written) little() float64 {
	handed, _ := w.Handed.Number()
	stored, _ := w.Stored.Number()
	return max(handed, stored) / 100
}

// storedText is what reached storage, between two words; empty if that is not known, or only that it is not negative.
func (w Written) storedText(before, after string) string {
	stored, known := w.Stored.Number()
	switch {
	case !known, w.AtLeast && stored == 0:
		return ""
	case w.AtLeast:
		before += "at least "
	}
	return before + Bytes.Text(stored) + after
}
