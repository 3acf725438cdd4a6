// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"encoding/csv"
	"io"
	"time"
)

// CSV writes samples as comma-separated values, RFC 4180: a header with the names of the table, then one line
// a sample. The columns are the time, the headlines, and the selected measurements of the task as a whole; a
// value that is absent is an empty field. Process rows have no place in it.
type CSV struct {
	out    *csv.Writer
	ids    []ID
	record []string
	number []byte
}

// NewCSV returns a writer of the selected columns. The header is written with the first sample.
func NewCSV(w io.Writer, sel Selection) *CSV {
	c := &CSV{out: csv.NewWriter(w)}
	for _, id := range sel.IDs() {
		if rowOf(id).Scope == TaskScope {
			c.ids = append(c.ids, id)
		}
	}
	return c
}

// Write writes one sample and its headlines, which may be nil, and flushes the line.
func (c *CSV) Write(s *Sample, headlines []HeadlineValue) error {
	if c.record == nil {
		if err := c.out.Write(c.header()); err != nil {
			return err
		}
	}
	c.record = append(c.record[:0], csvTime(s.Wall))
	for i := range headlineRows {
		c.record = append(c.record, c.headline(headlines, headlineRows[i].ID))
	}
	for _, id := range c.ids {
		r, _ := s.Task.Get(id)
		c.record = append(c.record, c.field(r))
	}
	if err := c.out.Write(c.record); err != nil {
		return err
	}
	c.out.Flush()
	return c.out.Error()
}

func (c *CSV) header() []string {
	header := []string{"at"}
	for i := range headlineRows {
		header = append(header, headlineRows[i].Name)
	}
	for _, id := range c.ids {
		header = append(header, nameOf(id))
	}
	return header
}

func (c *CSV) headline(headlines []HeadlineValue, id ID) string {
	for _, h := range headlines {
		if h.ID == id {
			return c.field(h.Reading)
		}
	}
	return ""
}

func (c *CSV) field(r Reading) string {
	if !r.present {
		return ""
	}
	if r.isText {
		return r.text
	}
	c.number = AppendNumber(c.number[:0], r.number)
	return string(c.number)
}

func csvTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
