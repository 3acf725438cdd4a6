// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"math"
	"strconv"

	"github.com/tachograph/tacho/procstats"
)

// runColumns are the columns of samples.csv. A counter has its value at the end of the point (last), so that a
// difference over any number of points is exact, and the highest rate between two samples. A gauge has its extremes.
//
//nolint:gochecknoglobals // constant list
var runColumns = [...]Column{
	{procstats.HeadlineCPU, procstats.Last},
	{procstats.HeadlineCPU, procstats.Rate},
	{procstats.CgroupCPUUser, procstats.Last},
	{procstats.CgroupCPUSystem, procstats.Last},
	{procstats.CgroupCPUThrottled, procstats.Last},
	{procstats.HeadlineMemory, procstats.Last},
	{procstats.HeadlineMemory, procstats.Min},
	{procstats.HeadlineMemory, procstats.Max},
	{procstats.HeadlineMemoryCharged, procstats.Max},
	{procstats.CgroupMemoryAnon, procstats.Max},
	{procstats.CgroupMemoryFile, procstats.Max},
	{procstats.CgroupMemoryKernel, procstats.Max},
	{procstats.CgroupMemoryEventsOOMKill, procstats.Last},
	{procstats.HeadlineIORead, procstats.Last},
	{procstats.HeadlineIORead, procstats.Rate},
	{procstats.HeadlineIOWrite, procstats.Last},
	{procstats.HeadlineIOWrite, procstats.Rate},
	{procstats.HeadlineIOHanded, procstats.Last},
	{procstats.HeadlineIOHanded, procstats.Rate},
	{procstats.HeadlineIOPending, procstats.Max},
	{procstats.PSICPUSome, procstats.Last},
	{procstats.PSICPUSome, procstats.Rate},
	{procstats.PSIMemorySome, procstats.Last},
	{procstats.PSIMemorySome, procstats.Rate},
	{procstats.PSIMemoryFull, procstats.Last},
	{procstats.PSIIOSome, procstats.Last},
	{procstats.PSIIOSome, procstats.Rate},
	{procstats.PSIIOFull, procstats.Last},
	{procstats.TreeProcesses, procstats.Max},
	{procstats.HeadlineNetworkReceived, procstats.Last},
	{procstats.HeadlineNetworkReceived, procstats.Rate},
	{procstats.HeadlineNetworkSent, procstats.Last},
	{procstats.HeadlineNetworkSent, procstats.Rate},
}

// timeColumns precede the measurements in each row.
//
//nolint:gochecknoglobals // constant list
var timeColumns = [...]NamedColumn{
	{"time", "The time of day at the end of the row, UTC."},
	{
		"from_mono", "The beginning of the row in seconds since boot (CLOCK_MONOTONIC); later than to_mono of the row " +
			"before if nothing was measured between them.",
	},
	{"to_mono", "The end of the row in seconds since boot."},
	{"samples", "How many readings are in the row."},
}

// NamedColumn is a column of samples.csv.
type NamedColumn struct{ Name, Help string }

// RunColumns returns the columns of samples.csv in the order of Point.Fields.
func RunColumns() []NamedColumn {
	list := append([]NamedColumn(nil), timeColumns[:]...)
	kept := map[procstats.Reduction]string{
		procstats.Last: "", procstats.Min: "The lowest reading in the row. ",
		procstats.Max:  "The highest reading in the row. ",
		procstats.Rate: "The highest rate per second between two readings in the row. ",
	}
	for _, c := range runColumns {
		m, _ := procstats.Lookup(c.ID)
		list = append(list, NamedColumn{c.String(), kept[c.Keep] + m.Help})
	}
	return list
}

// PointOf returns the point of one sample of a run. before is the sample before it, or the reading before the start of
// the task; without one, the point has no rates and no duration.
func PointOf(before, s *procstats.Sample) *Point {
	headlines := procstats.Headlines(s, procstats.History{})
	from := s.Mono
	if before != nil {
		from = before.Mono
	}
	p := newPoint()
	p.Stamp, p.From, p.Samples = s.Stamp, from, 1
	for _, c := range runColumns {
		reading, id := readingOf(s, headlines, c.ID)
		if c.Keep == procstats.Rate {
			reading = s.Rate(before, id)
		}
		if value, ok := reading.Number(); ok {
			p.set(c, value)
		}
	}
	return p
}

// readingOf returns a measurement or headline of a sample, and the measurement that it was taken from.
func readingOf(
	s *procstats.Sample, headlines []procstats.HeadlineValue, id procstats.ID,
) (reading procstats.Reading, from procstats.ID) {
	for _, h := range headlines {
		if h.ID == id {
			m, _ := procstats.LookupName(h.Source)
			return h.Reading, m.ID
		}
	}
	reading, _ = s.Task.Get(id)
	return reading, id
}

// Fields returns the point as the fields of a row of samples.csv; what was not measured is empty.
func (p *Point) Fields() []string {
	row := []string{
		p.Wall.UTC().Format("2006-01-02T15:04:05.000Z"),
		strconv.FormatFloat(p.From.Seconds(), 'f', 3, 64), strconv.FormatFloat(p.Mono.Seconds(), 'f', 3, 64),
		strconv.FormatInt(p.Samples, 10),
	}
	for _, c := range runColumns {
		text := ""
		if value, ok := p.Value(c.ID, c.Keep); ok {
			text = number(value)
		}
		row = append(row, text)
	}
	return row
}

// number writes bytes and counts whole, and seconds to a microsecond.
func number(value float64) string {
	switch {
	case math.IsInf(value, 0):
		return ""
	case math.Abs(value) >= 1e6:
		value = math.Round(value)
	default:
		value = math.Round(value*1e6) / 1e6
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}
