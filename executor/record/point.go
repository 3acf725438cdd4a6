// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Point is one row of samples.csv: what the task used from one moment to another. At first it is one sample and the
// time since the one before; the longer a run, the more samples share a point.
type Point struct {
	// At is the time of day at To.
	At time.Time
	// From and To are on CLOCK_MONOTONIC, as time since boot. Where From is later than the To of the point before,
	// nothing was measured between them.
	From, To time.Duration
	// Samples counts the readings in the point.
	Samples int64

	// values has one number for each column, NaN where nothing was read.
	values [len(columns)]float64
}

// column is a measurement or headline, and what a point keeps of it.
type column struct {
	id   procstats.ID
	keep procstats.Reduction
}

// columns are those of samples.csv. A counter has its value at the end of the point (last), so that a difference over
// any number of points is as exact as the counter, and the highest rate between two samples (rate). A gauge has its
// extremes.
//
//nolint:gochecknoglobals // constant list
var columns = [...]column{
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

// timeColumns are before the measurements in each row: the time of day at the end of the point, the monotonic clock at
// its beginning and end in seconds since boot, and the number of samples.
//
//nolint:gochecknoglobals // constant list
var timeColumns = [...]string{"time", "from_mono", "to_mono", "samples"}

// String returns the name of the column: that of its measurement for its last value, otherwise with what is kept of it.
func (c column) String() string {
	switch c.keep {
	case procstats.Last:
		return c.id.String()
	case procstats.Rate:
		return c.id.String() + "_highest_rate"
	}
	return c.id.String() + "_" + c.keep.String()
}

// merge returns what is kept of two points that follow each other.
func (c column) merge(earlier, later float64) float64 {
	switch {
	case math.IsNaN(later):
		return earlier
	case math.IsNaN(earlier) || c.keep == procstats.Last:
		return later
	case c.keep == procstats.Min:
		return min(earlier, later)
	}
	return max(earlier, later)
}

// PointOf returns the point of one sample. before is the one before it, or what was read before the start of the
// task; nil if there is none: the point is then a moment without rates.
func PointOf(before, s *procstats.Sample) *Point {
	p := &Point{At: s.Wall, From: s.Mono, To: s.Mono, Samples: 1}
	if before != nil {
		p.From = before.Mono
	}
	headlines := procstats.Headlines(s, procstats.History{})
	for i, c := range columns {
		reading, from := readingOf(s, headlines, c.id)
		if c.keep == procstats.Rate {
			reading = s.Rate(before, from)
		}
		value, ok := reading.Number()
		if !ok {
			value = math.NaN()
		}
		p.values[i] = value
	}
	return p
}

// Point returns a line of usage.jsonl as a point, for the runs of versions that wrote no samples.csv.
func (u *Usage) Point() *Point {
	p := &Point{At: u.To, From: stampOf(u.From, u.FromMono).Mono, To: stampOf(u.To, u.ToMono).Mono, Samples: u.Samples}
	for i, c := range columns {
		h, isHeadline := u.Headline[c.id.String()]
		name := c.id.String()
		if h.Source != "" {
			name = h.Source
		}
		value, ok := u.Measurements[name].Value(c.keep)
		if isHeadline && c.id == procstats.HeadlineMemory && h.Value != nil {
			value, ok = *h.Value, true
		}
		if !ok {
			value = math.NaN()
		}
		p.values[i] = value
	}
	return p
}

// readingOf returns what a sample says of a measurement or headline, and the measurement that it was taken from.
func readingOf(s *procstats.Sample, headlines []procstats.HeadlineValue, id procstats.ID) (reading procstats.Reading, from procstats.ID) {
	for _, h := range headlines {
		if h.ID == id {
			m, _ := procstats.LookupName(h.Source)
			return h.Reading, m.ID
		}
	}
	reading, _ = s.Task.Get(id)
	return reading, id
}

// Value returns a column of the point; ok is false where nothing was read, and for what has no column.
func (p *Point) Value(id procstats.ID, keep procstats.Reduction) (value float64, ok bool) {
	for i, c := range columns {
		if c.id == id && c.keep == keep {
			return p.values[i], !math.IsNaN(p.values[i])
		}
	}
	return 0, false
}

// join adds the point that follows.
func (p *Point) join(later *Point) {
	p.At, p.To = later.At, later.To
	p.Samples += later.Samples
	for i, c := range columns {
		p.values[i] = c.merge(p.values[i], later.values[i])
	}
}

// Follows reports whether a point begins where another one ends: otherwise nothing was measured between them. What is
// shorter than a hundredth of the point before is no gap, as two sources of one sample are not read at the same
// instant.
func (p *Point) Follows(before *Point) bool {
	return p.From-before.To <= time.Millisecond+(before.To-before.From)/100
}

// thin halves the number of points, and keeps gaps: points on both sides of one are joined only if that leaves too
// many.
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
			p.join(points[i])
		}
		joined = append(joined, &p)
	}
	return append(joined, points[last])
}

// Column is a column of samples.csv.
type Column struct{ Name, Help string }

// Columns returns the columns of samples.csv in their order, which are those of Point.Fields.
func Columns() []Column {
	list := []Column{
		{timeColumns[0], "The time of day at the end of the row, UTC."},
		{timeColumns[1], "The beginning of the row in seconds since boot (CLOCK_MONOTONIC); later than to_mono of the row before if nothing was measured between them."},
		{timeColumns[2], "The end of the row in seconds since boot."},
		{timeColumns[3], "How many readings are in the row."},
	}
	kept := map[procstats.Reduction]string{
		procstats.Last: "", procstats.Min: "The lowest reading in the row. ", procstats.Max: "The highest reading in the row. ",
		procstats.Rate: "The highest rate per second between two readings in the row. ",
	}
	for _, c := range columns {
		m, _ := procstats.Lookup(c.id)
		list = append(list, Column{c.String(), kept[c.keep] + m.Help})
	}
	return list
}

// Fields returns the point as the fields of a row of samples.csv; what was not measured is empty.
func (p *Point) Fields() []string { return p.row() }

// header returns the names of all columns.
func header() []string {
	names := append([]string(nil), timeColumns[:]...)
	for _, c := range columns {
		names = append(names, c.String())
	}
	return names
}

// row returns the point as the fields of a line.
func (p *Point) row() []string {
	row := []string{
		p.At.UTC().Format("2006-01-02T15:04:05.000Z"),
		strconv.FormatFloat(p.From.Seconds(), 'f', 3, 64), strconv.FormatFloat(p.To.Seconds(), 'f', 3, 64),
		strconv.FormatInt(p.Samples, 10),
	}
	for _, value := range p.values {
		row = append(row, number(value))
	}
	return row
}

// number writes bytes and counts whole, and what is measured in seconds to a microsecond.
func number(value float64) string {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return ""
	case math.Abs(value) >= 1e6:
		value = math.Round(value)
	default:
		value = math.Round(value*1e6) / 1e6
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}

var errPoint = errors.New("not a row of samples.csv")

// fields say what the fields of a file's rows are, by the names in its header: the file may be of another version.
type fields struct {
	names []string
	known []int // where the names stand in a header of this version, or unknown
}

// In a header of this version timeColumns stand from ofTime on, and columns from ofColumn on.
const (
	ofTime   = 0
	ofColumn = len(timeColumns)
	unknown  = -1
)

// fieldsOf reads a header.
func fieldsOf(names []string) fields {
	ours := header()
	f := fields{names: names}
	for _, name := range names {
		f.known = append(f.known, slices.Index(ours, name))
	}
	return f
}

// point reads a row.
func (f fields) point(row []string) (*Point, error) {
	if len(row) != len(f.names) {
		return nil, errPoint
	}
	p := new(Point)
	for i := range p.values {
		p.values[i] = math.NaN()
	}
	for i, text := range row {
		if text == "" {
			continue
		}
		if err := p.set(f.known[i], text); err != nil {
			return nil, fmt.Errorf("column %s: %q: %w", f.names[i], text, err)
		}
	}
	if p.At.IsZero() || p.To < p.From {
		return nil, errPoint
	}
	return p, nil
}

// set takes one field. One that this version does not know is passed over.
func (p *Point) set(field int, text string) (err error) {
	if field == ofTime {
		p.At, err = time.Parse(time.RFC3339Nano, text)
		return err
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return errPoint
	}
	switch field {
	case unknown:
	case ofTime + 1:
		p.From = time.Duration(value * float64(time.Second))
	case ofTime + 2:
		p.To = time.Duration(value * float64(time.Second))
	case ofTime + 3:
		p.Samples = int64(value)
	default:
		p.values[field-ofColumn] = value
	}
	return nil
}
