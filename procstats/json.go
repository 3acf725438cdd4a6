// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"bytes"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends a sample, and headlines where there are any, to b as one JSON object on one line:
//
//	{"at": RFC 3339, "mono_seconds": CLOCK_MONOTONIC, "measurements": {NAME: value}, "absent": {NAME: reason},
//	 "as_of": {SOURCE: RFC 3339},
//	 "processes": {"at": RFC 3339, "rows": [{"pid", "start", "ppid", "command", "measurements", "absent"}],
//	               "exited": {"cpu_seconds_total", "processes"}, "unattributed": {"cpu_seconds"},
//	               "total": {"cpu_seconds"}, "omitted"},
//	 "headline": {NAME: {"value", "source", "guarantee", "notes": [Note]}}}
//
// as_of has the sources that are read on a slow clock of their own, and when their numbers were read; tree and io if
// that was before the sample. processes.at is when the processes were read: rows, exited and unattributed add up to
// the total of then. Names are those of the table, unknown_ID where a newer build's reading passes through. What is
// not known is null in fixed places and under "absent" elsewhere, never 0. Bytes of a command that are not UTF-8
// become U+FFFD.
func AppendJSON(b []byte, s *Sample, headlines []HeadlineValue) []byte {
	b = append(b, `{"at":`...)
	b = appendTime(b, s.Wall)
	b = append(b, `,"mono_seconds":`...)
	if s.Zero() {
		b = append(b, "null"...)
	} else {
		b = AppendNumber(b, s.Mono.Seconds())
	}
	b, _ = appendMeasurements(append(b, ','), s.Task)
	b = appendAbsent(b, s.Task)
	b = appendAsOf(b, s)
	b = appendProcesses(append(b, `,"processes":`...), s)
	if len(headlines) > 0 {
		b = AppendHeadlinesJSON(append(b, `,"headline":`...), headlines)
	}
	return append(b, '}')
}

// AppendHeadlinesJSON appends headlines as a JSON object: a value with its source, guarantee and, if other readings
// contradicted it, notes; or null with the reason.
func AppendHeadlinesJSON(b []byte, headlines []HeadlineValue) []byte {
	b = append(b, '{')
	for _, h := range headlines {
		b = appendKey(b, nameOf(h.ID))
		b = append(b, `{"value":`...)
		b = appendValue(b, h.Reading)
		if h.Reading.Present() {
			b = appendString(append(b, `,"source":`...), h.Source)
			b = appendString(append(b, `,"guarantee":`...), string(h.Guarantee))
			b = appendNotes(b, h.Notes)
		} else {
			b = appendString(append(b, `,"reason":`...), h.Reading.Reason())
		}
		b = append(b, "},"...)
	}
	return closeWith(b, '}')
}

// closeWith ends a list each of whose elements ends in a comma.
func closeWith(b []byte, end byte) []byte { return append(bytes.TrimSuffix(b, []byte{','}), end) }

func appendNotes(b []byte, notes []Note) []byte {
	if len(notes) == 0 {
		return b
	}
	b = append(b, `,"notes":[`...)
	for _, n := range notes {
		b = appendString(append(b, `{"rule":`...), n.Rule)
		b = appendString(append(b, `,"source":`...), n.Source)
		b = AppendNumber(append(b, `,"value":`...), n.Value)
		b = appendString(append(b, `,"other_source":`...), n.OtherSource)
		b = AppendNumber(append(b, `,"other_value":`...), n.OtherValue)
		b = appendString(append(b, `,"cause":`...), n.Cause)
		b = appendString(append(b, `,"text":`...), n.Text)
		b = append(b, "},"...)
	}
	return closeWith(b, ']')
}

// nameOf is the name of a measurement in every format, for unknown numbers too.
func nameOf(id ID) string {
	if m := rowOf(id); m != nil {
		return m.Name
	}
	return "unknown_" + strconv.Itoa(int(id))
}

// appendMeasurements appends the member "measurements"; gaps says whether any reading has no value.
func appendMeasurements(b []byte, readings Readings) (out []byte, gaps bool) {
	b = append(b, `"measurements":{`...)
	for _, r := range readings {
		if !r.present {
			gaps = true
			continue
		}
		b = append(appendValue(appendKey(b, nameOf(r.id)), r), ',')
	}
	return closeWith(b, '}'), gaps
}

// appendAbsent appends the member "absent".
func appendAbsent(b []byte, readings Readings) []byte {
	b = append(b, `,"absent":{`...)
	for _, r := range readings {
		if !r.present {
			b = append(appendString(appendKey(b, nameOf(r.id)), r.text), ',')
		}
	}
	return closeWith(b, '}')
}

// appendAsOf appends the member "as_of" where a slow source was read.
func appendAsOf(b []byte, s *Sample) []byte {
	begin := len(b)
	b = append(b, `,"as_of":{`...)
	empty := len(b)
	for _, source := range [...]SourceID{SourceTree, SourceIO, SourceSmaps, SourceDisk} {
		stamp := s.Sources.At(source)
		if slow := source == SourceSmaps || source == SourceDisk; !stamp.Zero() && (slow || stamp.Mono < s.Mono) {
			b = append(appendTime(appendKey(b, source.String()), stamp.Wall), ',')
		}
	}
	if len(b) == empty {
		return b[:begin]
	}
	return closeWith(b, '}')
}

func appendProcesses(b []byte, s *Sample) []byte {
	b = append(b, `{"at":`...)
	set, _ := s.RowsAt()
	b = appendTime(b, set.Wall)
	b = append(b, `,"rows":[`...)
	for i := range s.Processes {
		b = append(appendProcess(b, &s.Processes[i]), ',')
	}
	b = append(closeWith(b, ']'), `,"exited":{"cpu_seconds_total":`...)
	b = appendTaskValue(b, s, TreeCPUExited)
	b = appendTaskValue(append(b, `,"processes":`...), s, TreeProcessesExited)
	b = appendTaskValue(append(b, `},"unattributed":{"cpu_seconds":`...), s, TreeCPUUnattributed)
	b = appendTaskValue(append(b, `},"total":{"cpu_seconds":`...), s, TreeCPUAtRows)
	b = strconv.AppendInt(append(b, `},"omitted":`...), int64(s.Omitted), 10)
	return append(b, '}')
}

func appendProcess(b []byte, p *ProcessRow) []byte {
	b = strconv.AppendInt(append(b, `{"pid":`...), int64(p.PID), 10)
	b = strconv.AppendUint(append(b, `,"start":`...), p.Start, 10)
	b = strconv.AppendInt(append(b, `,"ppid":`...), int64(p.PPID), 10)
	b = appendString(append(b, `,"command":`...), p.Command)
	b, gaps := appendMeasurements(append(b, ','), p.Readings)
	if gaps {
		b = appendAbsent(b, p.Readings)
	}
	return append(b, '}')
}

func appendTaskValue(b []byte, s *Sample, id ID) []byte {
	r, _ := s.Task.Get(id)
	return appendValue(b, r)
}

func appendKey(b []byte, key string) []byte { return append(appendString(b, key), ':') }

// appendValue appends a number, a text, or null.
func appendValue(b []byte, r Reading) []byte {
	switch {
	case !r.present:
		return append(b, "null"...)
	case r.isText:
		return appendString(b, r.text)
	}
	return AppendNumber(b, r.number)
}

// AppendNumber appends a finite number as people write it: integers as integers, else at most nine digits
// after the point, which are nanoseconds and below what any source resolves.
func AppendNumber(b []byte, value float64) []byte {
	const exact = 1 << 53 // whole numbers below it are floats
	if whole := int64(value); -exact < value && value < exact && float64(whole) == value {
		return strconv.AppendInt(b, whole, 10) // the same digits in a fraction of the time
	}
	nanos := math.Round(value * 1e9)
	if -nanosExact < nanos && nanos < nanosExact {
		return appendNanos(b, int64(nanos)) // the same digits again
	}
	if rounded := nanos / 1e9; !math.IsInf(rounded, 0) {
		value = rounded
	}
	if value == 0 {
		value = 0 // rounded, and not the negative one
	}
	return strconv.AppendFloat(b, value, 'f', -1, 64)
}

// nanosExact is below 2^22 s, where floats lie closer than a nanosecond: each of these has digits of its own.
const nanosExact = 4e15

// appendNanos appends a number of billionths without the zeros behind it.
func appendNanos(b []byte, nanos int64) []byte {
	if nanos < 0 {
		b, nanos = append(b, '-'), -nanos
	}
	b = strconv.AppendInt(b, nanos/1e9, 10)
	point := len(b)
	b = strconv.AppendInt(b, 1e9+nanos%1e9, 10) // whose 1 is where the point goes
	b[point] = '.'
	return bytes.TrimRight(bytes.TrimRight(b, "0"), ".")
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = t.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano)
	return append(b, '"')
}

// appendString appends a JSON string (RFC 8259, section 7) of any bytes.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
