// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package wire turns samples into messages of executor/proto and back. Only cumulative values and gauges cross the
// wire; an id that this build does not know passes through.
package wire

import (
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	googleproto "google.golang.org/protobuf/proto"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// FromSample returns the message of a sample. Without rows the process rows stay behind.
func FromSample(s *procstats.Sample, rows bool) *proto.Sample {
	m := &proto.Sample{
		At: fromStamp(s.Stamp), Sources: fromStamps(s), Task: FromReadings(s.Task), Omitted: uint32(s.Omitted),
	}
	if !s.Checked.Zero() {
		m.Checked = fromStamp(s.Checked)
	}
	if !rows {
		m.Omitted += uint32(len(s.Processes))
		return m
	}
	m.Processes = make([]*proto.Process, len(s.Processes))
	for i := range s.Processes {
		p := &s.Processes[i]
		m.Processes[i] = &proto.Process{
			Id:       FromProcessID(p.ProcessID),
			Ppid:     int32(p.PPID),
			Command:  []byte(p.Command),
			Readings: FromReadings(p.Readings),
		}
	}
	return m
}

func fromStamps(s *procstats.Sample) []*proto.SourceStamp {
	type message struct {
		stamp proto.SourceStamp
		at    proto.Stamp
	}
	messages := make([]message, len(s.Sources)) // in one piece, as the readings
	stamps := make([]*proto.SourceStamp, 0, len(s.Sources))
	for source, stamp := range s.Sources.All() {
		m := &messages[source]
		m.at.MonoNs, m.at.UnixNs = int64(stamp.Mono), stamp.Wall.UnixNano()
		m.stamp.Source, m.stamp.At = uint32(source), &m.at
		stamps = append(stamps, &m.stamp)
	}
	return stamps
}

// ToSample returns the sample of a message.
func ToSample(m *proto.Sample) *procstats.Sample {
	s := &procstats.Sample{
		Stamp: toStamp(m.GetAt()), Checked: toStamp(m.GetChecked()),
		Task: ToReadings(m.GetTask()), Omitted: int(m.GetOmitted()),
	}
	for _, source := range m.GetSources() {
		if number := source.GetSource(); number <= math.MaxUint8 && procstats.SourceID(number).Known() {
			s.SetRead(procstats.SourceID(number), toStamp(source.GetAt()))
		}
	}
	for _, p := range m.GetProcesses() {
		s.Processes = append(s.Processes, procstats.ProcessRow{
			ProcessID: ToProcessID(p.GetId()),
			PPID:      int(p.GetPpid()),
			Command:   string(p.GetCommand()),
			Readings:  ToReadings(p.GetReadings()),
		})
	}
	return s
}

// FromProcessID returns the message of an identity.
func FromProcessID(id procstats.ProcessID) *proto.ProcessID {
	return &proto.ProcessID{Pid: int32(id.PID), Start: id.Start}
}

// ToProcessID returns the identity of a message.
func ToProcessID(m *proto.ProcessID) procstats.ProcessID {
	return procstats.ProcessID{PID: int(m.GetPid()), Start: m.GetStart()}
}

func fromStamp(s procstats.Stamp) *proto.Stamp {
	return &proto.Stamp{MonoNs: int64(s.Mono), UnixNs: s.Wall.UnixNano()}
}

func toStamp(m *proto.Stamp) procstats.Stamp {
	if m == nil {
		return procstats.Stamp{}
	}
	return procstats.Stamp{Mono: time.Duration(m.GetMonoNs()), Wall: time.Unix(0, m.GetUnixNs())}
}

// FromReadings returns the messages of readings.
func FromReadings(readings procstats.Readings) []*proto.Reading {
	// One allocation for all messages of a row: a stream sends hundreds of them every second.
	messages := make([]proto.Reading, len(readings))
	pointers := make([]*proto.Reading, len(readings))
	for i, r := range readings {
		m := &messages[i]
		m.Id = uint32(r.ID())
		switch text, isText := r.Text(); {
		case !r.Present():
			m.Value = &proto.Reading_Absent{Absent: r.Reason()}
		case isText:
			m.Value = &proto.Reading_Text{Text: []byte(text)}
		default:
			number, _ := r.Number()
			m.Value = &proto.Reading_Number{Number: number}
		}
		pointers[i] = m
	}
	return pointers
}

// ToReadings returns the readings of messages.
func ToReadings(messages []*proto.Reading) procstats.Readings {
	readings := make(procstats.Readings, 0, len(messages))
	for _, m := range messages {
		if m.GetId() > math.MaxUint16 {
			continue // no id that a build can pass on: it would become another's
		}
		id := procstats.ID(m.GetId())
		switch value := m.GetValue().(type) {
		case *proto.Reading_Number:
			readings.Put(procstats.NumberReading(id, value.Number))
		case *proto.Reading_Text:
			readings.Put(procstats.TextReading(id, string(value.Text)))
		case *proto.Reading_Absent:
			readings.Put(procstats.AbsentReading(id, value.Absent))
		default:
			readings.Put(procstats.AbsentReading(id, "a value of a kind unknown to this build"))
		}
	}
	return readings
}

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
			mono, wall := time.Duration(m.GetSourcesMonoNs()[i]), time.Unix(0, m.GetSourcesUnixNs()[i])
			s.SetRead(id, procstats.Stamp{Mono: mono, Wall: wall})
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

// FromSelection returns the message of what is measured.
func FromSelection(s procstats.Selection) (ids []uint32) {
	for _, id := range s.IDs() {
		ids = append(ids, uint32(id))
	}
	return ids
}

// ToSelection returns what a message of FromSelection selects.
func ToSelection(ids []uint32) procstats.Selection {
	var selected []procstats.ID
	for id := range column(ids, ids) {
		selected = append(selected, id)
	}
	return procstats.Select(selected...)
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
