// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exposition

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Content types of the two formats.
const (
	TextType        = "text/plain; version=0.0.4; charset=utf-8"
	OpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// chunk is how much is written at a time: a page of many tasks has megabytes, which nobody needs at once.
const chunk = 64 << 10

// WriteText writes families in the Prometheus text format 0.0.4.
func WriteText(w io.Writer, families []Family) error {
	escapes := strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	b := make([]byte, 0, chunk+chunk/8)
	var err error
	for i := range families {
		f := &families[i]
		if len(f.Samples) == 0 {
			continue
		}
		b = appendHead(b, f.Name, f.Type.String(), escapes.Replace(f.Help))
		if b, err = writeSamples(w, b, f); err != nil {
			return err
		}
	}
	_, err = w.Write(b)
	return err
}

// WriteOpenMetrics writes families in OpenMetrics 1.0. A counter whose name does not end in _total is none there.
func WriteOpenMetrics(w io.Writer, families []Family) error {
	b := make([]byte, 0, chunk+chunk/8)
	var err error
	for i := range families {
		f := &families[i]
		if len(f.Samples) == 0 {
			continue
		}
		name, kind := f.Name, f.Type.String()
		if f.Type == Counter {
			var ok bool
			if name, ok = strings.CutSuffix(f.Name, "_total"); !ok {
				kind = "unknown"
			}
		}
		b = appendHead(b, name, kind, escape(f.Help))
		if b, err = writeSamples(w, b, f); err != nil {
			return err
		}
	}
	_, err = w.Write(append(b, "# EOF\n"...))
	return err
}

func appendHead(b []byte, name, kind, help string) []byte {
	b = append(append(b, "# HELP "...), name...)
	b = append(append(append(b, ' '), help...), "\n# TYPE "...)
	b = append(append(append(b, name...), ' '), kind...)
	return append(b, '\n')
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

// AppendJSON appends families as one JSON object with the keys of Nomad's /v1/metrics. There every counter is a
// sum over the last interval; here its Sum is the total, and Count is 1.
func AppendJSON(b []byte, families []Family, at time.Time) []byte {
	b = append(b, `{"Timestamp":`...)
	b = strconv.AppendQuote(b, at.UTC().Format("2006-01-02 15:04:05 -0700 MST"))
	b = appendJSONSamples(append(b, `,"Gauges":[`...), families, Gauge)
	b = appendJSONSamples(append(b, `],"Counters":[`...), families, Counter)
	return append(b, `],"Points":[],"Samples":[]}`...)
}

func appendJSONSamples(b []byte, families []Family, kind Type) []byte {
	comma := false
	for i := range families {
		f := &families[i]
		if f.Type != kind {
			continue
		}
		for _, s := range f.Samples {
			if comma {
				b = append(b, ',')
			}
			comma = true
			b = append(append(append(b, `{"Name":"`...), f.Name...), `",`...)
			if kind == Gauge {
				b = procstats.AppendNumber(append(b, `"Value":`...), s.Value)
			} else {
				b = append(b, `"Count":1,"Rate":0,"Stddev":0`...)
				for _, key := range [...]string{"Sum", "Min", "Max", "Mean"} {
					b = append(append(append(b, `,"`...), key...), `":`...)
					b = procstats.AppendNumber(b, s.Value)
				}
			}
			b = appendJSONLabels(append(b, `,"Labels":{`...), s.Labels)
			b = append(b, "}}"...)
		}
	}
	return b
}

func appendJSONLabels(b []byte, labels *Labels) []byte {
	for i, p := range labels.Pairs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, p.Name), ':')
		b = appendJSONString(b, p.Value)
	}
	return b
}

// appendJSONString appends a string of valid UTF-8; strconv.Quote has escapes that JSON does not know.
func appendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
