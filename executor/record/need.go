// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"math"
	"slices"

	"github.com/tachograph/tacho/procstats"
)

// need is the memory of a run in bytes: the peak of what was charged to it, with what was swapped, without the page
// cache that it can do without, and with what it had mapped that others had loaded. A run that finds nothing loaded is
// charged for that too. files is the part of charged that came from files, code the part of others that is the code of
// its programs, around what is read with others from their files. spare may be page cache too, floor is the limit
// that a run has met and shown to be enough; 0 for none.
type need struct{ charged, cache, spare, files, others, code, around, floor float64 }

func (n need) total() float64 { return n.charged - n.cache + n.others + n.around }

func compareNeeds(a, b need) int { return cmp.Compare(a.total(), b.total()) }

func largest(needs []need) need { return slices.MaxFunc(needs, compareNeeds) }

const (
	// libraries are those that everything uses: they are in memory anyway. Where they are not, the margin has room for
	// them, unless they are more than a notable part of what was charged; or what is advised at least has.
	libraries, notable = 4 * mebibyte, 0.25
	// flow is room for pages that are used once, beside what is read ahead.
	flow = mebibyte
	// usualReadAhead is that of disks of which it is not known.
	usualReadAhead = 8 * mebibyte
	// fastReads are bytes in a second: the kernel takes back some 10 GiB of clean pages in one. Written ones must go to
	// the disk first, as fast as that is.
	fastReads, fastWrites = 512 * mebibyte, 64 * mebibyte
	// passing is the margin of pages of files: they come and go.
	passing = 1.1
	// inSequence is what is mapped for each page fault, in bytes, of files that are read from one end to the other: half
	// of what the kernel maps around one, fault_around_bytes of mm/memory.c.
	inSequence = 32 << 10
	// mostMargin is how many times the highest need the advice is at most.
	mostMargin = 1.33
)

// usage is what a run did with its memory, in bytes, as far as it is known.
type usage struct {
	charged float64
	// stored is what came from storage, written what is to go there. again is what was read and did not: from the page
	// cache, or from pipes. found is again without what can have come through pipes of the run, or the
	// network. passed is all that was read or written.
	stored, written, again, found, passed float64
	// cached is the page cache of files when the last process had ended, kernel what was the kernel's then: mostly of
	// directories and files.
	cached, kernel float64
	// streamed was read from storage by calls, and not by touching what is mapped.
	streamed float64
	// leastRoom and room are what files need at least and at most that pass through memory once. fast reports that
	// they pass so fast that it takes time to take them back, flooding that they are written so fast.
	room, leastRoom float64
	fast, flooding  bool
	// limited reports whether the run met its memory limit.
	limited bool
	// resident is the most that all processes together can have had resident, inherited the part of it that may have
	// been that of the executor; whole is false if not every process is in them.
	resident, inherited float64
	whole               bool
	// uncharged is what the processes had mapped that others had loaded, unless that is what everything uses.
	uncharged float64
	// largest is the most that one process had resident for sure, mapped the most that one had mapped beyond what
	// came from storage or was written, and what was seen to be charged: 0 if not every process is known. sparse is what
	// of that was touched here and there, as code is.
	largest, mapped, sparse float64
}

func usageOf(r *Record, charged float64) (u usage) {
	headline := func(id procstats.ID) float64 {
		if h := r.Headline[id.String()]; h.Value != nil {
			return *h.Value
		}
		return 0
	}
	u.charged, u.stored = charged, headline(procstats.HeadlineIORead)
	u.written = headline(procstats.HeadlineIOHanded)
	read, wrote := r.amount(procstats.TreeIORchar), r.amount(procstats.TreeIOWchar)
	u.passed, u.again = max(read, u.stored)+wrote, max(0, read-u.stored)
	u.found = max(0, u.again-wrote-headline(procstats.HeadlineNetworkReceived))
	u.cached, u.kernel = r.amount(procstats.ExitsPageCache), r.amount(procstats.ExitsKernelMemory)
	seconds := waitsOf(r).moving()
	u.streamed = min(u.stored, read)
	u.flooding = u.written > fastWrites*seconds
	u.fast = u.flooding || u.streamed > fastReads*seconds
	u.leastRoom, u.room = roomFor(r, u.streamed, headline(procstats.HeadlineCPU), seconds)
	u.limited = metLimit(r)
	if u.uncharged = r.amount(procstats.TreeUncharged); u.uncharged < libraries {
		u.uncharged = 0
	}
	if r.Commands == nil {
		return u
	}
	u.whole = r.Commands.Reason == "" && r.Commands.LostRecords == 0
	u.resident, u.inherited = r.residentAtOnce()
	for row := range r.Commands.all() {
		if row.PeakRSSGuarantee != procstats.UpperBound && row != r.Commands.Others {
			u.largest = max(u.largest, float64(row.PeakRSSBytes))
		}
	}
	if mapped, faults := r.Commands.mostMapped(); u.whole {
		u.mapped = max(0, float64(mapped)-max(u.stored+wrote, r.amount(procstats.TreeChargedMapped)))
		if mapped <= inSequence*faults {
			u.sparse = u.mapped
		}
	}
	return u
}

// mostMapped returns the most that one process had mapped at least, and the page faults of one with its command.
func (c *Commands) mostMapped() (bytes, faults int64) {
	for row := range c.all() {
		if row.MappedBytes > bytes {
			bytes, faults = row.MappedBytes, row.MinorFaults/max(1, row.Processes)
		}
	}
	return bytes, faults
}

// basisRows is how many rows a basis has, which are added up already.
const basisRows = 3

// residentAtOnce returns the most that as many processes had resident together as there were tasks at once, and the
// part of it that may have been that of the executor.
func (r *Record) residentAtOnce() (resident, inherited float64) {
	type part struct{ processes, least, most float64 }
	var parts []part
	for row := range r.Commands.all() {
		least, most := r.residentOf(row)
		parts = append(parts, part{float64(max(1, row.Processes)), least, most})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(b.most/b.processes, a.most/a.processes) })
	left := math.Inf(1)
	if tasks := r.amount(procstats.CgroupPidsPeak); tasks > 0 {
		left = max(tasks, basisRows)
	}
	for _, p := range parts {
		share := min(1, left/p.processes)
		left -= share * p.processes
		resident, inherited = resident+share*p.most, inherited+share*(p.most-p.least)
	}
	return resident, inherited
}

// residentOf returns between what bounds the processes of a row had resident together. One whose peak may be that of
// the executor had what was seen of it, and between two samples not more than it had page faults, beside what others
// had loaded: of that a page fault maps many pages.
func (r *Record) residentOf(row *procstats.Command) (least, most float64) {
	const page = 4096
	most = float64(row.Processes * row.PeakRSSBytes)
	if row.PeakRSSGuarantee != procstats.UpperBound {
		return most, most
	}
	if r.Processes == nil || row.Processes != 1 {
		return 0, most
	}
	for _, p := range r.Processes.Rows {
		if seen, ok := p.Measurements[procstats.ProcessRSS.String()].(float64); ok && p.Command == row.Name {
			faulted := float64(row.MinorFaults*page) + r.amount(procstats.TreeUncharged)
			return min(seen, most), min(max(seen, faulted), most)
		}
	}
	return 0, most
}

// foundLoaded reports whether a run read much that others had loaded, and hardly anything else: whether that must stay
// in memory is not known, because it was charged to them and no process maps it.
func (u *usage) foundLoaded() bool {
	const much, hardly = 64 * mebibyte, 64
	return u.found > max(much, 2*u.charged) && u.stored < u.found/hardly
}

// roomFor is what files need at least and at most that pass through memory once, of which so much came from storage.
// What is read faster than a program computes is read ahead, and read again if that has no room; what is read as fast
// as memory allows, while that which was read ahead before is in use. The kernel reads twice as much ahead each time:
// a disk that a program hardly waited for can read all twice meanwhile. A program that did wait would wait again.
func roomFor(r *Record, streamed, cpu, seconds float64) (least, most float64) {
	const fast, hardly, much = 128 * mebibyte, 0.01, stalledShare / 2 // fast per second of CPU time
	ahead := min(streamed, float64(cmp.Or(r.Host.ReadAheadBytes, usualReadAhead)))
	w := waitsOf(r)
	io := w.share(w.IOSome)
	switch {
	case streamed <= fast*cpu, w.IOSome != nil && io < hardly && streamed <= 2*fast*cpu:
		return flow, flow
	case io >= much && !metLimit(r):
		least = flow + ahead
	}
	if streamed <= fastReads*seconds {
		return max(flow, least), 4*flow + ahead
	}
	return max(flow, least), max(4*flow+ahead, 2*flow+2*ahead)
}

// cache returns between what bounds the part of a peak is that is page cache of files, and that nothing needs. What
// was read from storage once, or written and not read, the kernel takes back at little cost; what is read time and
// again must stay. Of what was read a few times nothing is known, nor of a run that had to read again what a limit took
// from it, nor whether files that pass fast may take longer. What processes had resident is no such cache, nor what
// lies around it and was read ahead with it. What was not cached at the end may have been shared memory: files can have
// been read around the cache, or removed. What the kernel has cached of directories and files may be used again.
func (u *usage) cache() (least, most float64) {
	const seldom, often = 8, 4
	if !u.whole {
		return 0, 0
	}
	unmapped := func(files, resident, room float64) float64 {
		return max(0, u.charged-max(u.charged-files, resident-u.uncharged)-room)
	}
	files := u.streamed + u.written
	if !u.limited && !u.flooding && u.again <= 4*flow+files/seldom {
		least = unmapped(min(files, u.cached), u.resident, u.room)
	}
	if u.again >= often*u.stored {
		files = u.written
	}
	files = max(files, min(u.kernel, u.cached)) // directories are read by no call that counts
	return least, max(least, unmapped(files+u.kernel, u.resident-u.inherited, u.leastRoom))
}

// needOf returns what a run needed that needed between least and high of what was charged to it. It is not less than
// its largest process had, nor than one had mapped that no sample has met, and not more than all had together, with
// what passed through the page cache.
func needOf(r *Record, u *usage, least, high float64) need {
	others := r.amount(procstats.TreeUncharged)
	code := max(0, others-r.amount(procstats.TreeUnchargedData))
	if u.whole {
		others = min(others, max(0, u.resident+u.passed+4*flow-u.charged))
	}
	others = max(others, u.largest-u.charged)
	if u.mapped > r.amount(procstats.TreeUncharged)+flow {
		others, code = max(others, u.mapped), max(code, u.sparse-r.amount(procstats.TreeUnchargedData))
	}
	if others < min(libraries, max(notable*u.charged, leastAdvised*mebibyte-u.charged)) {
		others = 0
	}
	n := need{charged: u.charged, cache: u.charged - high, spare: high - least, others: others, code: min(code, others)}
	if others > 0 {
		// What was mapped after the last sample was around before.
		n.around = max(0, r.amount(procstats.TreeUnchargedAround)-max(0, others-r.amount(procstats.TreeUncharged)))
	}
	if files := u.stored + u.written; files <= u.charged { // otherwise nothing says how much of it was there at once
		n.files = min(max(0, files-n.cache-n.spare), least)
		wrote := min(u.written, n.files) // which gives way to what grows, if need be
		n.files, n.spare = n.files-wrote, n.spare+wrote
	}
	return n
}

// own is what comes from no files.
func (n need) own() float64 { return n.charged - n.cache - n.spare - n.files }

// loaded is what comes from files and is no code, without the libraries. What lies around is code as the rest is.
func (n need) loaded() float64 {
	data := 1 - n.code/max(n.others, 1)
	return n.files + max(0, (n.others+n.around)*data-libraries)
}

// text says what was charged, with a word of its guarantee, and what was not.
func (n need) text(guarantee string) string {
	text := procstats.Bytes.Text(n.charged) + guarantee
	if n.cache > 0 {
		text += ", but for " + procstats.Bytes.Text(n.cache) + " of page cache"
	}
	if n.others > 0 {
		text += ", and up to " + procstats.Bytes.Text(n.others) + " more that others had loaded"
	}
	if n.around > 0 {
		text += ", with " + procstats.Bytes.Text(n.around) + " around it"
	}
	return text
}

// ask returns the MiB to ask for: above the highest value by a margin that is smaller the more runs there are, and
// above what the spread of the values makes likely, but not more than 1.33 times the highest; rounded up to a number
// that people use. Pages of files get a margin of a tenth, because they come and go: one that is missing is read again,
// and nothing is killed. The margin has room for code that others had loaded, of which a cold start reads as much again
// that lies around it.
func ask(needs []need) int64 {
	n := float64(len(needs))
	most, files, code, mean, squares := 0.0, 0.0, 0.0, 0.0, 0.0
	for _, v := range needs {
		most, files, mean = max(most, v.own()), max(files, passing*v.loaded()), mean+v.own()/n
		room := max(v.code-libraries-v.around, min(v.spare, (passing-1)*(v.charged-v.cache)), 0)
		code = max(code, v.total()+room, v.floor)
	}
	for _, v := range needs {
		squares += (v.own() - mean) * (v.own() - mean)
	}
	margin, deviations := 1.25, 6.0
	switch {
	case n >= 20:
		margin, deviations = 1.1, 4
	case n >= few:
		margin = 1.15
	}
	spread := 0.0
	if n > 1 {
		spread = math.Sqrt(squares / (n - 1))
	}
	likely := mean + deviations*spread
	if n < 2*few && spread > mean/50 {
		likely = most * mostMargin // of so few that vary, the spread is not known either
	}
	return roundUp(max(code, files+max(most*margin, min(likely, most*mostMargin))) / mebibyte)
}

// nextLimit is what to try, in MiB, if a limit was too low: as much more as advice asks for above a single run at most.
func nextLimit(bytes float64) int64 { return roundUp(mostMargin * bytes / mebibyte) }

// leastAdvised is in MiB: orchestrators accept nothing less.
const leastAdvised = 10

// roundUp rounds MiB up, by at most a thirty-second from 32 on.
func roundUp(mib float64) int64 {
	step := 1.0
	for mib > 64*step {
		step *= 2
	}
	return max(leastAdvised, int64(math.Ceil(mib/step)*step))
}
