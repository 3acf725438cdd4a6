// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/tachograph/tacho/procstats"
)

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
