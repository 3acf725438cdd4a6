// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exposition

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Content types of the two formats.
const (
	TextType        = "text/plain; version=0.0.4; charset=utf-8"
	OpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// chunk is the size of one write: a page of many tasks has megabytes, which are not needed at once.
const chunk = 64 << 10

// WriteText writes families in the Prometheus text format 0.0.4.
func WriteText(w io.Writer, families []Family) error {
	escapes := strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	return write(w, families, "", func(f *Family) (name, kind, help string) {
		return f.Name, string(cmp.Or(f.Type, Gauge)), escapes.Replace(f.Help)
	})
}

// WriteOpenMetrics writes families in OpenMetrics 1.0. Its counters have names that end in _total.
func WriteOpenMetrics(w io.Writer, families []Family) error {
	return write(w, families, "# EOF\n", func(f *Family) (name, kind, help string) {
		name, total := strings.CutSuffix(f.Name, "_total")
		switch {
		case f.Type != Counter:
			return f.Name, string(Gauge), escape(f.Help)
		case !total:
			return f.Name, "unknown", escape(f.Help)
		}
		return name, string(Counter), escape(f.Help)
	})
}

// write writes the families that have samples, each after the head that describe returns, and an end.
func write(w io.Writer, families []Family, end string, describe func(*Family) (name, kind, help string)) error {
	b := make([]byte, 0, chunk+chunk/8)
	var err error
	for i := range families {
		f := &families[i]
		if len(f.Samples) == 0 {
			continue
		}
		name, kind, help := describe(f)
		for _, part := range []string{"# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"} {
			b = append(b, part...)
		}
		if b, err = writeSamples(w, b, f); err != nil {
			return err
		}
	}
	_, err = w.Write(append(b, end...))
	return err
}

// writeSamples appends the samples of a family to b, and writes and empties b whenever it is full.
func writeSamples(w io.Writer, b []byte, f *Family) ([]byte, error) {
	for _, s := range f.Samples {
		b = append(append(b, f.Name...), s.Labels.text...)
		b = procstats.AppendNumber(append(b, ' '), s.Value)
		b = append(b, '\n')
		if len(b) < chunk {
			continue
		}
		if _, err := w.Write(b); err != nil {
			return nil, err
		}
		b = b[:0]
	}
	return b, nil
}

// number has the form of the text formats.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) { return procstats.AppendNumber(nil, float64(n)), nil }

type jsonGauge struct {
	Name   string
	Value  number
	Labels map[string]string
}

// jsonCounter is a sum over the last interval in Nomad; here its Sum is the total, and Count is 1.
type jsonCounter struct {
	Name                string
	Count, Rate, Stddev int
	Sum, Min, Max, Mean number
	Labels              map[string]string
}

// WriteJSON writes families as one JSON object with the keys of Nomad's /v1/metrics.
func WriteJSON(w io.Writer, families []Family, at time.Time) error {
	out := bufio.NewWriterSize(w, chunk) // its Flush returns the error of any write
	fmt.Fprintf(out, `{"Timestamp":%q,"Gauges":[`, at.UTC().Format("2006-01-02 15:04:05 -0700 MST"))
	err := writeRows(out, families, false)
	_, _ = out.WriteString(`],"Counters":[`)
	err = errors.Join(err, writeRows(out, families, true))
	_, _ = out.WriteString("],\"Points\":[],\"Samples\":[]}\n")
	return errors.Join(err, out.Flush())
}

// writeRows writes counters or all others, one after the other: thousands of tasks have a hundred thousand.
func writeRows(out *bufio.Writer, families []Family, counters bool) error {
	separator := ""
	for i := range families {
		f := &families[i]
		if (f.Type == Counter) != counters {
			continue
		}
		for _, s := range f.Samples {
			labels := make(map[string]string, len(s.Labels.pairs)/2)
			for pair := range slices.Chunk(s.Labels.pairs, 2) {
				labels[pair[0]] = pair[1]
			}
			v := number(s.Value)
			var row any = jsonGauge{f.Name, v, labels}
			if counters {
				row = jsonCounter{Name: f.Name, Count: 1, Sum: v, Min: v, Max: v, Mean: v, Labels: labels}
			}
			text, err := json.Marshal(row)
			if err != nil {
				return err
			}
			_, _ = out.WriteString(separator)
			if _, err := out.Write(text); err != nil { // the client has gone
				return err
			}
			separator = ","
		}
	}
	return nil
}
