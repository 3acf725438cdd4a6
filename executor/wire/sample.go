// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package wire turns samples into messages of executor/proto and back. Only cumulative values and gauges cross the
// wire; an id that this build does not know passes through.
package wire

import (
	"math"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// FromSample returns the message of a sample. Without rows the process rows stay behind.
func FromSample(s *procstats.Sample, rows bool) *proto.Sample {
	return fromSample(s, nil, rows)
}

// fromSample leaves out the readings that are as in the sample before; nil for none before.
func fromSample(s, before *procstats.Sample, rows bool) *proto.Sample {
	task := s.Task
	if before != nil {
		task = changed(task, before.Task)
	}
	m := &proto.Sample{At: fromStamp(s.Stamp), Sources: fromStamps(s), Task: fromReadings(task), Omitted: uint32(s.Omitted)}
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
		readings := p.Readings
		if row, ok := process(before, p.ProcessID); ok {
			readings = changed(readings, row.Readings)
		}
		m.Processes[i] = &proto.Process{
			Id:       FromProcessID(p.ProcessID),
			Ppid:     int32(p.PPID),
			Command:  []byte(p.Command),
			Readings: fromReadings(readings),
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
	s := &procstats.Sample{Stamp: toStamp(m.GetAt()), Checked: toStamp(m.GetChecked()), Task: toReadings(m.GetTask()), Omitted: int(m.GetOmitted())}
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
			Readings:  toReadings(p.GetReadings()),
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
func FromReadings(readings procstats.Readings) []*proto.Reading { return fromReadings(readings) }

// ToReadings returns the readings of messages.
func ToReadings(messages []*proto.Reading) procstats.Readings { return toReadings(messages) }

func fromReadings(readings procstats.Readings) []*proto.Reading {
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

func toReadings(messages []*proto.Reading) procstats.Readings {
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
