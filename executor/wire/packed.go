// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"iter"
	"slices"
	"strings"
	"time"

	googleproto "google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// Packer encodes samples in columns. It keeps its memory; the zero Packer is ready.
type Packer struct {
	sample proto.PackedSample
}

// Append appends the encoding of a sample; without rows the process rows stay behind.
func (p *Packer) Append(b []byte, s *procstats.Sample, rows bool) ([]byte, error) {
	m := &p.sample
	if m.At == nil {
		m.At, m.Task = &proto.Stamp{}, &proto.PackedReadings{}
	}
	m.At.MonoNs, m.At.UnixNs = int64(s.Mono), s.Wall.UnixNano()
	m.Checked = nil
	if !s.Checked.Zero() {
		m.Checked = fromStamp(s.Checked)
	}
	m.Sources, m.SourcesMonoNs, m.SourcesUnixNs = m.Sources[:0], m.SourcesMonoNs[:0], m.SourcesUnixNs[:0]
	for source, at := range s.Sources.All() {
		m.Sources = append(m.Sources, uint32(source))
		m.SourcesMonoNs = append(m.SourcesMonoNs, int64(at.Mono))
		m.SourcesUnixNs = append(m.SourcesUnixNs, at.Wall.UnixNano())
	}
	pack(m.GetTask(), s.Task)
	m.Omitted, m.Processes = uint32(s.Omitted), nil //nolint:gosec // a count
	if !rows {
		m.Omitted += uint32(len(s.Processes)) //nolint:gosec // a count
		return googleproto.MarshalOptions{}.MarshalAppend(b, m)
	}
	for i := range s.Processes {
		row := &s.Processes[i]
		process := &proto.PackedProcess{
			Id: FromProcessID(row.ProcessID), Ppid: int32(row.PPID), Command: []byte(row.Command), //nolint:gosec // a PID
			Readings: &proto.PackedReadings{},
		}
		pack(process.GetReadings(), row.Readings)
		m.Processes = append(m.Processes, process)
	}
	return googleproto.MarshalOptions{}.MarshalAppend(b, m)
}

func pack(m *proto.PackedReadings, readings procstats.Readings) {
	m.NumberIds, m.Numbers = m.NumberIds[:0], m.Numbers[:0]
	m.TextIds, m.Texts = m.TextIds[:0], m.Texts[:0]
	m.AbsentIds, m.Reasons = m.AbsentIds[:0], m.Reasons[:0]
	for _, r := range readings {
		id := uint32(r.ID())
		switch text, isText := r.Text(); {
		case !r.Present():
			m.AbsentIds, m.Reasons = append(m.AbsentIds, id), append(m.Reasons, strings.ToValidUTF8(r.Reason(), "\ufffd"))
		case isText:
			m.TextIds, m.Texts = append(m.TextIds, id), append(m.Texts, strings.ToValidUTF8(text, "\ufffd"))
		default:
			number, _ := r.Number()
			m.NumberIds, m.Numbers = append(m.NumberIds, id), append(m.Numbers, number)
		}
	}
}

// Unpack returns the sample that a Packer has encoded.
func Unpack(content []byte) (*procstats.Sample, error) {
	var m proto.PackedSample
	if err := googleproto.Unmarshal(content, &m); err != nil {
		return nil, err
	}
	s := &procstats.Sample{
		Stamp: toStamp(m.GetAt()), Checked: toStamp(m.GetChecked()), Omitted: int(m.GetOmitted()), Task: unpack(m.GetTask()),
	}
	for i, source := range m.GetSources() {
		if id := procstats.SourceID(source); uint32(id) == source && id.Known() && //nolint:gosec // checked
			i < min(len(m.GetSourcesMonoNs()), len(m.GetSourcesUnixNs())) {
			s.SetRead(id, procstats.Stamp{Mono: time.Duration(m.GetSourcesMonoNs()[i]), Wall: time.Unix(0, m.GetSourcesUnixNs()[i])})
		}
	}
	for _, process := range m.GetProcesses() {
		s.Processes = append(s.Processes, procstats.ProcessRow{
			ProcessID: ToProcessID(process.GetId()), PPID: int(process.GetPpid()), Command: string(process.GetCommand()),
			Readings: unpack(process.GetReadings()),
		})
	}
	return s, nil
}

func unpack(m *proto.PackedReadings) procstats.Readings {
	readings := make(procstats.Readings, 0, len(m.GetNumbers())+len(m.GetTexts())+len(m.GetReasons()))
	for id, number := range column(m.GetNumberIds(), m.GetNumbers()) {
		readings = append(readings, procstats.NumberReading(id, number))
	}
	for id, text := range column(m.GetTextIds(), m.GetTexts()) {
		readings = append(readings, procstats.TextReading(id, text))
	}
	for id, reason := range column(m.GetAbsentIds(), m.GetReasons()) {
		readings = append(readings, procstats.AbsentReading(id, reason))
	}
	slices.SortFunc(readings, func(a, b procstats.Reading) int { return int(a.ID()) - int(b.ID()) })
	return readings
}

// column pairs the ids of readings with their values.
func column[T any](ids []uint32, values []T) iter.Seq2[procstats.ID, T] {
	return func(yield func(procstats.ID, T) bool) {
		for i := range min(len(ids), len(values)) {
			if id := procstats.ID(ids[i]); uint32(id) == ids[i] && !yield(id, values[i]) { //nolint:gosec // checked
				return
			}
		}
	}
}
