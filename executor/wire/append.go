// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tachograph/tacho/procstats"
)

// The fields of executor/proto's messages that a handover consists of.
const (
	handoverLast, handoverBefore, handoverRows, handoverChanges protowire.Number = 1, 2, 3, 4

	sampleAt, sampleSources, sampleTask, sampleProcesses, sampleOmitted, sampleChecked protowire.Number = 1, 2, 3, 4, 5, 6

	stampMono, stampUnix                                      protowire.Number = 1, 2
	sourceNumber, sourceAt                                    protowire.Number = 1, 2
	readingID, readingNumber, readingText, readingAbsent      protowire.Number = 1, 2, 3, 4
	processID, processParent, processCommand, processReadings protowire.Number = 1, 2, 3, 4
	identityPID, identityStart                                protowire.Number = 1, 2
)

// appendNewest appends the encoding of a proto.Handover without rows. It is written at every tick of every task that moves, and
// through messages it costs as much as a third of the reading.
func appendNewest(b []byte, h Handover) []byte {
	b = appendMessage(b, handoverLast, func(b []byte) []byte { return appendSample(b, h.Last, nil, false) })
	switch {
	case h.Before == nil:
		return b
	case sameIDs(h.Before.Task, h.Last.Task):
		return appendMessage(b, handoverChanges, func(b []byte) []byte { return appendSample(b, h.Before, h.Last.Task, false) })
	}
	return appendMessage(b, handoverBefore, func(b []byte) []byte { return appendSample(b, h.Before, nil, false) })
}

// appendRows appends the encoding of a proto.Handover of rows alone.
func appendRows(b []byte, rows *procstats.Sample) []byte {
	return appendMessage(b, handoverRows, func(b []byte) []byte { return appendSample(b, rows, nil, true) })
}

// appendSample appends what FromSample returns, without the readings of the task that are the same in known, which has the same ids
// or none.
func appendSample(b []byte, s *procstats.Sample, known procstats.Readings, rows bool) []byte {
	b = appendStamp(b, sampleAt, s.Stamp)
	for source, at := range s.Sources.All() {
		b = appendMessage(b, sampleSources, func(b []byte) []byte {
			return appendStamp(appendVarint(b, sourceNumber, uint64(source)), sourceAt, at)
		})
	}
	b = appendReadings(b, sampleTask, s.Task, known)
	omitted := s.Omitted
	if rows {
		for i := range s.Processes {
			b = appendMessage(b, sampleProcesses, func(b []byte) []byte { return appendProcess(b, &s.Processes[i]) })
		}
	} else {
		omitted += len(s.Processes)
	}
	b = appendVarint(b, sampleOmitted, uint64(omitted)) //nolint:gosec // a count
	if !s.Checked.Zero() {
		b = appendStamp(b, sampleChecked, s.Checked)
	}
	return b
}

func appendProcess(b []byte, p *procstats.ProcessRow) []byte {
	b = appendMessage(b, processID, func(b []byte) []byte {
		return appendVarint(appendVarint(b, identityPID, uint64(p.PID)), identityStart, p.Start) //nolint:gosec // positive
	})
	b = appendVarint(b, processParent, uint64(p.PPID)) //nolint:gosec // positive
	b = protowire.AppendString(protowire.AppendTag(b, processCommand, protowire.BytesType), p.Command)
	return appendReadings(b, processReadings, p.Readings, nil)
}

func appendReadings(b []byte, field protowire.Number, readings, known procstats.Readings) []byte {
	for i, r := range readings {
		if known != nil && r == known[i] {
			continue
		}
		b = appendMessage(b, field, func(b []byte) []byte {
			b = appendVarint(b, readingID, uint64(r.ID()))
			switch text, isText := r.Text(); {
			case !r.Present():
				return protowire.AppendString(protowire.AppendTag(b, readingAbsent, protowire.BytesType), r.Reason())
			case isText:
				return protowire.AppendString(protowire.AppendTag(b, readingText, protowire.BytesType), text)
			}
			number, _ := r.Number()
			return protowire.AppendFixed64(protowire.AppendTag(b, readingNumber, protowire.Fixed64Type), math.Float64bits(number))
		})
	}
	return b
}

func appendStamp(b []byte, field protowire.Number, s procstats.Stamp) []byte {
	return appendMessage(b, field, func(b []byte) []byte {
		b = appendVarint(b, stampMono, uint64(s.Mono))               //nolint:gosec // int64 is encoded so
		return appendVarint(b, stampUnix, uint64(s.Wall.UnixNano())) //nolint:gosec // int64 is encoded so
	})
}

func appendVarint(b []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
}

// appendMessage appends a message within a message. Its length is not known before, so it is moved if that takes more than one
// byte.
func appendMessage(b []byte, field protowire.Number, content func([]byte) []byte) []byte {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	at := len(b)
	b = content(b)
	length := uint64(len(b) - at) //nolint:gosec // positive
	if more := protowire.SizeVarint(length) - 1; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[at+more:], b[at:len(b)-more])
	}
	protowire.AppendVarint(b[:at-1], length)
	return b
}
