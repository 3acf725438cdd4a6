// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package series

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

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

// mostRows bounds the rows of a file, however long the run is: about 100 KB.
const mostRows = 500

// CSV appends points to a file, in which the header names the columns. When the file has too many rows, pairs of points
// are joined, and from then on twice as many samples form a point. Only the file holds the points.
type CSV struct {
	root    *os.Root
	name    string
	file    *os.File // nil before the first row
	rows    int
	each    int64  // samples in a point
	pending *Point // being gathered, or nil
}

// NewCSV returns a file of a directory. The first row creates it.
func NewCSV(root *os.Root, name string) *CSV { return &CSV{root: root, name: name} }

// Add adds a point. It may be written later, together with those that follow.
func (w *CSV) Add(p *Point) error {
	if w.pending != nil && !p.Follows(w.pending) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.pending == nil {
		w.pending = p
	} else {
		w.pending.join(p)
	}
	if w.pending.Samples < w.each {
		return nil
	}
	return w.flush()
}

// flush writes the point that is being gathered.
func (w *CSV) flush() (err error) {
	p := w.pending
	if p == nil {
		return nil
	}
	w.pending = nil
	if w.file == nil {
		err = w.replace([]*Point{p})
	} else {
		err = w.append(p)
		w.rows++
	}
	if err == nil && w.rows >= mostRows {
		err = w.thin()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(w.root.Name(), w.name), err)
	}
	return nil
}

func (w *CSV) thin() error {
	content, err := w.root.ReadFile(w.name)
	if err != nil {
		return err
	}
	var points []*Point
	for p, err := range decodeCSV(content, w.name) {
		if err == nil { // a damaged row is a gap
			points = append(points, p)
		}
	}
	w.each = max(2, 2*w.each)
	return w.replace(thin(points))
}

// replace writes the file again: a reader sees the old rows or the new ones.
func (w *CSV) replace(points []*Point) error {
	temporary := "." + w.name
	file, err := w.root.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	rows := [][]string{header()}
	for _, p := range points {
		rows = append(rows, p.Fields())
	}
	if err = csv.NewWriter(file).WriteAll(rows); err == nil {
		err = w.root.Rename(temporary, w.name)
	}
	if err != nil {
		return errors.Join(err, file.Close(), w.root.Remove(temporary))
	}
	if w.file != nil {
		err = w.file.Close()
	}
	w.file, w.rows = file, len(points)
	return err
}

// append adds one row, whole or not at all: half a row on a full disk would spoil the next one.
func (w *CSV) append(p *Point) error {
	size, err := w.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := csv.NewWriter(w.file).WriteAll([][]string{p.Fields()}); err != nil {
		return errors.Join(err, w.file.Truncate(size))
	}
	return nil
}

// Close writes what is pending. A run that was never sampled has no file.
func (w *CSV) Close() error {
	err := w.flush()
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
	}
	return err
}

// ReadCSV yields the rows of a file in order. A row that cannot be read yields an error with file and line, and reading
// continues behind it; a last row without its newline is still being written and is ignored. The error for a missing
// file wraps fs.ErrNotExist.
func ReadCSV(path string) iter.Seq2[*Point, error] {
	return func(yield func(*Point, error) bool) {
		content, err := os.ReadFile(path)
		if err != nil {
			yield(nil, fmt.Errorf("read samples: %w", err))
			return
		}
		decodeCSV(content, path)(yield)
	}
}

func decodeCSV(content []byte, path string) iter.Seq2[*Point, error] {
	return func(yield func(*Point, error) bool) {
		reader := csv.NewReader(bytes.NewReader(content[:bytes.LastIndexByte(content, '\n')+1]))
		reader.FieldsPerRecord = -1
		names, err := reader.Read()
		for line := 2; err == nil; line++ {
			var row []string
			if row, err = reader.Read(); err != nil {
				break
			}
			p, fault := decodeRow(names, row)
			if fault != nil {
				fault = fmt.Errorf("read %s: line %d: %w", path, line, fault)
			}
			if !yield(p, fault) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, fmt.Errorf("read %s: %w", path, err)) // it names the line
		}
	}
}

// header returns the names of all columns.
func header() (names []string) {
	for _, c := range RunColumns() {
		names = append(names, c.Name)
	}
	return names
}

// runColumnNames are the columns of this version by their names in a header.
//
//nolint:gochecknoglobals // a constant table, made when a file is read
var runColumnNames = sync.OnceValue(func() map[string]Column {
	names := make(map[string]Column)
	for _, c := range runColumns {
		names[c.String()] = c
	}
	return names
})

var errRow = errors.New("not a row of samples.csv")

// decodeRow reads a row by the names in the header of its file, which may be of another version: columns that this
// version does not know are ignored.
func decodeRow(names, row []string) (*Point, error) {
	if len(row) != len(names) {
		return nil, errRow
	}
	p := newPoint()
	for i, text := range row {
		if text == "" {
			continue
		}
		if err := p.decode(names[i], text); err != nil {
			return nil, fmt.Errorf("column %s: %q: %w", names[i], text, err)
		}
	}
	if p.Wall.IsZero() || p.Mono < p.From {
		return nil, errRow
	}
	return p, nil
}

// decode reads one field.
func (p *Point) decode(name, text string) (err error) {
	if name == timeColumns[0].Name {
		p.Wall, err = time.Parse(time.RFC3339Nano, text)
		return err
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return errRow
	}
	switch name {
	case timeColumns[1].Name:
		p.From = time.Duration(value * float64(time.Second))
	case timeColumns[2].Name:
		p.Mono = time.Duration(value * float64(time.Second))
	case timeColumns[3].Name:
		p.Samples = int64(value)
	default:
		if c, known := runColumnNames()[name]; known {
			p.set(c, value)
		}
	}
	return nil
}
