// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"cmp"
	"slices"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// Writer makes the messages of one stream. Most of what a task does in a second is in a few of its readings, and the
// reasons for what is absent never change: a caller that keeps the sample before is sent the changes to it.
type Writer struct {
	// Rows asks for process rows.
	Rows bool
	// Changes says that the reader keeps the sample before.
	Changes bool

	before *procstats.Sample
}

// Write returns the message of the next sample, which must not change any more.
func (w *Writer) Write(s *procstats.Sample) *proto.SampleResponse {
	before := w.before
	w.before = s
	if !w.Changes || before == nil || !w.sameRows(s, before) {
		return &proto.SampleResponse{Sample: FromSample(s, w.Rows)}
	}
	return &proto.SampleResponse{Sample: fromSample(s, before, w.Rows), Changes: true}
}

// sameRows reports whether the readings of a sample have the ids of those before. What is no longer mentioned cannot
// be told by a change.
func (w *Writer) sameRows(s, before *procstats.Sample) bool {
	if !sameIDs(s.Task, before.Task) {
		return false
	}
	if !w.Rows {
		return true
	}
	for i := range s.Processes {
		row, ok := process(before, s.Processes[i].ProcessID)
		if ok && !sameIDs(s.Processes[i].Readings, row.Readings) {
			return false
		}
	}
	return true
}

func sameIDs(a, b procstats.Readings) bool {
	return slices.EqualFunc(a, b, func(a, b procstats.Reading) bool { return a.ID() == b.ID() })
}

// changed are the readings of now that are not as before; both have the same ids.
func changed(now, before procstats.Readings) procstats.Readings {
	var list procstats.Readings
	for i := range now {
		if now[i] != before[i] {
			list = append(list, now[i])
		}
	}
	return list
}

// process finds a row of a sample, whose rows are ordered by PID; of no sample there is none.
func process(s *procstats.Sample, id procstats.ProcessID) (*procstats.ProcessRow, bool) {
	if s == nil {
		return nil, false
	}
	i, found := slices.BinarySearchFunc(s.Processes, id.PID, func(row procstats.ProcessRow, pid int) int {
		return cmp.Compare(row.PID, pid)
	})
	if !found || s.Processes[i].ProcessID != id {
		return nil, false
	}
	return &s.Processes[i], true
}

// Reader turns the messages of one stream back into samples.
type Reader struct {
	before *procstats.Sample
}

// Read returns the sample of the next message. Changes to a sample that this reader has not seen are taken as they
// are: what is missing then is not mentioned, and never made up.
func (r *Reader) Read(m *proto.SampleResponse) *procstats.Sample {
	s := ToSample(m.GetSample())
	if m.GetChanges() && r.before != nil {
		s.Task = overlay(r.before.Task, s.Task)
		for i := range s.Processes {
			if row, ok := process(r.before, s.Processes[i].ProcessID); ok {
				s.Processes[i].Readings = overlay(row.Readings, s.Processes[i].Readings)
			}
		}
	}
	r.before = s
	return s
}

// overlay returns a copy of readings with changes put over them.
func overlay(readings, changes procstats.Readings) procstats.Readings {
	all := slices.Clone(readings)
	for _, r := range changes {
		all.Put(r)
	}
	return all
}
