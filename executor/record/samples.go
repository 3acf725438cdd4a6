// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
)

// mostPoints bounds the points of a run, however long it is: about 100 KB.
const mostPoints = 500

// samples appends points to samples.csv. When the file has too many, pairs of points are joined, and from then on
// twice as many samples to one point. Only the file holds the points: an executor keeps none in memory.
type samples struct {
	file    *os.File // nil before the first row
	rows    int
	each    int64  // samples in a point
	pending *Point // being gathered; nil if there is none
}

// AddSample adds the point of one sample to samples.csv. It may be written later, together with those that follow.
func (s *Store) AddSample(p *Point) error {
	pending := s.samples.pending
	if pending != nil && !p.Follows(pending) {
		if err := s.flushSamples(); err != nil {
			return err
		}
		pending = nil
	}
	if pending == nil {
		s.samples.pending = p
	} else {
		pending.join(p)
	}
	if s.samples.pending.Samples < s.samples.each {
		return nil
	}
	return s.flushSamples()
}

// flushSamples writes the point that is being gathered.
func (s *Store) flushSamples() (err error) {
	w := &s.samples
	if w.pending == nil {
		return nil
	}
	p := w.pending
	w.pending = nil
	if w.file == nil {
		err = s.replaceSamples([]*Point{p})
	} else {
		err = appendRow(w.file, p)
		w.rows++
	}
	if err == nil && w.rows >= mostPoints {
		err = s.thinSamples()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", s.path(SamplesFile), err)
	}
	return nil
}

func (s *Store) thinSamples() error {
	content, err := s.root.ReadFile(SamplesFile)
	if err != nil {
		return err
	}
	var points []*Point
	for p, err := range decodePoints(content, s.path(SamplesFile)) {
		if err == nil { // a damaged row is a gap
			points = append(points, p)
		}
	}
	if err := s.replaceSamples(thin(points)); err != nil {
		return err
	}
	s.samples.each = max(2, 2*s.samples.each)
	return nil
}

// replaceSamples writes samples.csv anew: a reader sees the old rows or the new ones.
func (s *Store) replaceSamples(points []*Point) error {
	const temporary = "." + SamplesFile
	file, err := s.root.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	err = w.Write(header())
	for _, p := range points {
		err = errors.Join(err, w.Write(p.row()))
	}
	w.Flush()
	if err = errors.Join(err, w.Error()); err == nil {
		err = s.root.Rename(temporary, SamplesFile)
	}
	if err != nil {
		return errors.Join(err, file.Close(), s.root.Remove(temporary))
	}
	if s.samples.file != nil {
		err = s.samples.file.Close()
	}
	s.samples.file, s.samples.rows = file, len(points)
	return err
}

// appendRow adds one row, whole or not at all: half a row on a full disk would spoil the next one.
func appendRow(file *os.File, p *Point) error {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	if err := w.Write(p.row()); err != nil {
		return err
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return errors.Join(err, file.Truncate(size))
	}
	return nil
}

// closeSamples writes what is pending. A run that was never sampled has no file.
func (s *Store) closeSamples() error {
	err := s.flushSamples()
	if s.samples.file != nil {
		err = errors.Join(err, s.samples.file.Close())
	}
	return err
}

// ReadPoints yields the rows of a run's samples.csv in order. A row that cannot be read yields an error with file and
// line, and reading goes on behind it; a last row without its newline is still being written, and is passed over. The
// error for a run without such a file wraps fs.ErrNotExist.
func ReadPoints(dir string) iter.Seq2[*Point, error] {
	path := filepath.Join(dir, SamplesFile)
	return func(yield func(*Point, error) bool) {
		content, err := os.ReadFile(path)
		if err != nil {
			yield(nil, fmt.Errorf("read samples: %w", err))
			return
		}
		decodePoints(content, path)(yield)
	}
}

func decodePoints(content []byte, path string) iter.Seq2[*Point, error] {
	return func(yield func(*Point, error) bool) {
		reader := csv.NewReader(bytes.NewReader(content[:bytes.LastIndexByte(content, '\n')+1]))
		reader.FieldsPerRecord = -1
		names, err := reader.Read()
		fields := fieldsOf(names)
		for line := 2; err == nil; line++ {
			var row []string
			if row, err = reader.Read(); err != nil {
				break
			}
			p, fault := fields.point(row)
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
