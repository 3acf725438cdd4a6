// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package series stores points over time in bounded space: the samples of a run as rows of a CSV file, and the history
// of a task as a ring of fixed size, which outlives the agent. Gaps stay gaps. Points are in the order in which they
// were written, whatever the wall clock does.
package series

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Point is one reading, several that were joined, or a mark that there was none.
type Point struct {
	// Stamp is the end of the point.
	procstats.Stamp
	// From is its beginning on the monotonic clock. If it is later than the Mono of the point before, nothing was
	// measured between them. Samples counts the readings in the point. A history sets neither.
	From    time.Duration
	Samples int64
	// Run counts the starts of the task: counters restart with each.
	Run int
	// Gap says why nothing was read between the point before and the one after; such a point has no values.
	Gap Gap
	// Values are the last readings of the task by measurement. A measurement that was not read is absent.
	Values map[procstats.ID]float64
	// Kept are other reductions of the readings.
	Kept map[Column]float64
	// Processes are the largest processes, by PID: see [Top]. Nil if the query did not ask for them.
	Processes []procstats.ProcessRow
}

// Column is a measurement or headline, and what a point keeps of its readings.
type Column struct {
	ID   procstats.ID
	Keep procstats.Reduction
}

// String returns the name of the measurement for its last value, otherwise followed by what is kept of it.
func (c Column) String() string {
	switch c.Keep {
	case procstats.Last:
		return c.ID.String()
	case procstats.Rate:
		return c.ID.String() + "_highest_rate"
	}
	return c.ID.String() + "_" + c.Keep.String()
}

// Value returns what the point keeps of a measurement; ok is false if that is nothing.
func (p *Point) Value(id procstats.ID, keep procstats.Reduction) (value float64, ok bool) {
	if keep == procstats.Last {
		value, ok = p.Values[id]
	} else {
		value, ok = p.Kept[Column{id, keep}]
	}
	return value, ok
}

// set puts a value into its column.
func (p *Point) set(c Column, value float64) {
	if c.Keep == procstats.Last {
		p.Values[c.ID] = value
	} else {
		p.Kept[c] = value
	}
}

// newPoint returns a point without values.
func newPoint() *Point {
	return &Point{Values: map[procstats.ID]float64{}, Kept: map[Column]float64{}}
}

// join adds the point that follows: of counters the last value stays, of gauges the extremes, of rates the highest.
func (p *Point) join(later *Point) {
	p.Stamp, p.Samples = later.Stamp, p.Samples+later.Samples
	maps.Copy(p.Values, later.Values)
	for c, value := range later.Kept {
		if before, ok := p.Kept[c]; ok && c.Keep == procstats.Min {
			value = min(before, value)
		} else if ok {
			value = max(before, value)
		}
		p.Kept[c] = value
	}
}

// Follows reports whether a point begins where another one ends: otherwise nothing was measured between them. Less than
// a hundredth of the point before is no gap, as two sources of one sample are not read at the same instant.
func (p *Point) Follows(before *Point) bool {
	return p.From-before.Mono <= time.Millisecond+(before.Mono-before.From)/100
}

// thin halves the number of points. It joins points on both sides of a gap only if too many are left otherwise.
func thin(points []*Point) []*Point {
	thinned := pairUp(points, (*Point).Follows)
	if len(thinned) > 3*len(points)/4 {
		return pairUp(points, func(*Point, *Point) bool { return true })
	}
	return thinned
}

// pairUp joins pairs of points. The first and the last stay as they are: what a run began and ended with.
func pairUp(points []*Point, fits func(later, earlier *Point) bool) (joined []*Point) {
	if len(points) < 4 {
		return points
	}
	last := len(points) - 1
	joined = append(joined, points[0])
	for i := 1; i < last; i++ {
		p := *points[i]
		if i+1 < last && fits(points[i+1], points[i]) {
			i++
			p.Values, p.Kept = maps.Clone(p.Values), maps.Clone(p.Kept)
			p.join(points[i])
		}
		joined = append(joined, &p)
	}
	return append(joined, points[last])
}

// Gap says why there are no readings.
type Gap uint8

const (
	// NoGap is a reading.
	NoGap Gap = iota
	// GapAgent is a time without the agent.
	GapAgent
	// GapPublishing is a time in which publishing was off.
	GapPublishing
	// GapTask is a time in which the task did not run.
	GapTask
	// GapSilent is a time in which the driver sent no sample.
	GapSilent
	// GapDropped is a time whose readings were dropped because the disk was too slow.
	GapDropped
	// GapOOM is a time in which the task did not run after the kernel had killed it for its memory.
	GapOOM
)

// String returns the gap in words.
func (g Gap) String() string {
	words := [...]string{
		NoGap: "", GapAgent: "the agent was not running", GapPublishing: "publishing was off",
		GapTask: "the task was not running", GapSilent: "the driver sent no sample",
		GapDropped: "readings were dropped: the disk did not keep up",
		GapOOM:     "the task was not running, after an OOM kill",
	}
	if int(g) >= len(words) {
		return "unknown"
	}
	return words[g]
}

const (
	// topRows is how many processes a point has because of their CPU time, and as many because of their memory.
	topRows = 4
	// maxRows is the most processes of a point.
	maxRows = 2 * topRows
	// rowSize is the size of one: u32 PID, 0 if unused, u32 parent, u64 start, the name, two float64.
	rowSize = 48
	// nameSize is room for the kernel's comm with its NUL; longer names of other systems are cut.
	nameSize = 16
)

// rowIDs are what a point has of a process: CPU time and resident memory.
func rowIDs() [2]procstats.ID { return [...]procstats.ID{procstats.ProcessCPU, procstats.ProcessRSS} }

// Top returns the rows of a sample that a history has room for: the processes with the most CPU time since the sample
// before, which may be nil, and those with the most memory, by PID. Processes without a name are left out: a history is
// asked for them by name.
func Top(s, before *procstats.Sample) []procstats.ProcessRow {
	ids := rowIDs()
	growth := func(row *procstats.ProcessRow) float64 {
		now, ok := row.Readings.Number(ids[0])
		before := s.Since(before, ids[0]) // the same set again has grown as much as it had
		if !ok || before == nil {
			return now
		}
		i, found := slices.BinarySearchFunc(before.Processes, row.PID, func(r procstats.ProcessRow, pid int) int {
			return cmp.Compare(r.PID, pid)
		})
		if found && before.Processes[i].ProcessID == row.ProcessID {
			earlier, _ := before.Processes[i].Readings.Number(ids[0])
			return now - earlier
		}
		return now
	}
	memory := func(row *procstats.ProcessRow) float64 {
		bytes, _ := row.Readings.Number(ids[1])
		return bytes
	}
	chosen := append(largest(s.Processes, growth), largest(s.Processes, memory)...)
	slices.Sort(chosen)
	chosen = slices.Compact(chosen)
	top := make([]procstats.ProcessRow, len(chosen))
	for i, index := range chosen {
		top[i] = s.Processes[index]
	}
	return top
}

// largest returns the indexes of the topRows rows that are largest by some number, largest first.
func largest(rows []procstats.ProcessRow, by func(*procstats.ProcessRow) float64) []int {
	var named []int
	numbers := make([]float64, len(rows))
	for i := range rows {
		if rows[i].Command != "" {
			named, numbers[i] = append(named, i), by(&rows[i])
		}
	}
	slices.SortStableFunc(named, func(a, b int) int { return cmp.Compare(numbers[b], numbers[a]) })
	return named[:min(len(named), topRows)]
}

// rowsFor is the room for n processes in each point: most tasks have one or two, and what is kept free is paid for.
func rowsFor(n int) int {
	room := 0
	for room < min(n, maxRows) {
		room = max(1, 2*room)
	}
	return room
}

// putRows writes as many processes as there is room for into the end of a slot.
func putRows(b []byte, rows []procstats.ProcessRow) {
	clear(b)
	ids := rowIDs()
	for i := 0; i < len(rows) && len(b) >= rowSize; i, b = i+1, b[rowSize:] {
		row := &rows[i]
		binary.LittleEndian.PutUint32(b, uint32(row.PID))
		binary.LittleEndian.PutUint32(b[4:], uint32(row.PPID))
		binary.LittleEndian.PutUint64(b[8:], row.Start)
		copy(b[16:16+nameSize], row.Command)
		for k, id := range ids {
			binary.LittleEndian.PutUint64(b[16+nameSize+8*k:], bitsOf(row.Readings, id))
		}
	}
}

// rowsOf are the processes in the end of a slot; not nil.
func rowsOf(b []byte) []procstats.ProcessRow {
	rows := []procstats.ProcessRow{}
	ids := rowIDs()
	for ; len(b) >= rowSize; b = b[rowSize:] {
		pid := binary.LittleEndian.Uint32(b)
		if pid == 0 {
			break
		}
		name, _, _ := bytes.Cut(b[16:16+nameSize], []byte{0})
		row := procstats.ProcessRow{
			ProcessID: procstats.ProcessID{PID: int(pid), Start: binary.LittleEndian.Uint64(b[8:])},
			PPID:      int(binary.LittleEndian.Uint32(b[4:])), Command: string(name),
		}
		for k, id := range ids {
			if v := numberAt(b[16+nameSize+8*k:]); !math.IsNaN(v) {
				row.Readings.Put(procstats.NumberReading(id, v))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// bitsOf is a measurement as a column has it.
func bitsOf(readings procstats.Readings, id procstats.ID) uint64 {
	if v, ok := readings.Number(id); ok && id != 0 {
		return math.Float64bits(v)
	}
	return absent
}
