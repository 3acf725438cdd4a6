// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"math"
	"strings"
)

// Written is what became of the bytes that a task wrote; a reading that is not present is not known.
type Written struct {
	// Handed is io_write_handed_bytes_total, Cancelled tree_io_cancelled_write_bytes_total, Stored io_write_bytes_total and
	// Pending io_write_pending_bytes.
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

// Writing returns the headline whose growth says how much a task writes: what reaches storage where that is counted, else
// what it hands to the kernel. A lower bound of what has reached storage grows in leaps, whenever the machine has written.
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

// Text says it at both ends: "64 MiB written by the task" and "24 MiB reached storage, 40 MiB not yet written". If all of it
// reached storage, there is only "written 64 MiB"; both are empty if nothing is known.
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

// Short says it in the room of a line that has more to say: "written 64 MiB (24 MiB reached storage)".
func (w Written) Short() string {
	if w.simple() {
		return w.storedText("written ", "")
	}
	handed, _ := w.Handed.Number()
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
