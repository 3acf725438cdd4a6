// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package exposition writes metric families for Prometheus, OpenMetrics and in the JSON of Nomad's /v1/metrics, and
// names the metrics of measurements. The agent's page and the driver's own endpoint use it.
//
// It replaces the Prometheus client library, which is linked for tests only: their linter and parsers check the pages.
// With 500 tasks the library needed 45 to 250 ms for a page, and its initialisation 0.5 ms and 200 KiB in every
// executor, which is the same binary.
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

// Prefix begins the names of all metrics of a task.
const Prefix = "tacho_task_"

// Type is what a metric is, in the word of the exposition formats; empty is Gauge.
type Type string

const (
	// Gauge goes up and down.
	Gauge Type = "gauge"
	// Counter only grows, from 0 at the start of what it counts.
	Counter Type = "counter"
)

// Family is all samples of one metric.
type Family struct {
	Name string
	Help string
	Type Type
	// Samples may be empty: nothing was measured then.
	Samples []Sample
}

// FamilyOf returns the empty family of a measurement: its name is tacho_task_ and that in the table. For pressure the
// kernel's words are replaced by those of node_exporter and the kubelet: some is waiting, full is stalled. ok is false
// for texts and for measurements of a process, which are not metrics.
func FamilyOf(m procstats.Measurement) (f Family, ok bool) {
	f = Family{Name: Prefix + m.Name, Help: m.Help, Type: Type(m.Kind.String())}
	if m.Source == procstats.SourcePSI {
		f.Name = strings.NewReplacer("_some_", "_waiting_", "_full_", "_stalled_").Replace(f.Name)
	}
	return f, m.Scope != procstats.ProcessScope && (m.Kind == procstats.Gauge || m.Kind == procstats.Counter)
}

// Sample is one number.
type Sample struct {
	Labels *Labels
	Value  float64
}

// Add appends one number.
func (f *Family) Add(labels *Labels, value float64) {
	f.Samples = append(f.Samples, Sample{labels, value})
}

// AbsentFamily is the empty family of the measurements that a task selects and that are absent.
func AbsentFamily() Family {
	return Family{
		Name: Prefix + "absent_info", Type: Gauge,
		Help: "A measurement that is selected in addition to the default ones and has no value, with the reason as a " +
			"label, always 1.",
	}
}

// AddAbsent adds the absent measurements of a sample to the family, except those of the default selection: many of them
// cannot be present, such as a limit that is not set.
func (f *Family) AddAbsent(labels *Labels, s *procstats.Sample, usual procstats.Selection) {
	for _, r := range s.Task {
		if m, known := procstats.Lookup(r.ID()); known && !r.Present() && !usual.Has(r.ID()) {
			f.Add(labels.With("measurement", m.Name, "reason", r.Cause()), 1)
		}
	}
}

// Labels are the labels of a sample, which many samples share.
type Labels struct {
	// pairs are names, each followed by its value.
	pairs []string
	// text is the exposition form, braces included; empty without labels.
	text string
}

// NewLabels returns labels of names, each followed by its value, in the given order.
func NewLabels(pairs ...string) *Labels { return (&Labels{}).With(pairs...) }

// Text returns the labels as they are on a page, braces included; empty without labels.
func (l *Labels) Text() string { return l.text }

// With returns the labels with more of them at the end. In Prometheus an empty label is no label.
func (l *Labels) With(pairs ...string) *Labels {
	size := len(l.text) + len("{}")
	for _, p := range pairs {
		size += len(p) + len(`,="`)
	}
	text := append(make([]byte, 0, size), strings.TrimSuffix(l.text, "}")...)
	more := &Labels{pairs: append(make([]string, 0, len(l.pairs)+len(pairs)), l.pairs...)}
	for i := 0; i < len(pairs); i += 2 {
		name, value := pairs[i], strings.ToValidUTF8(pairs[i+1], "\uFFFD")
		if value == "" {
			continue
		}
		text = append(text, "{,"[min(len(more.pairs), 1)])
		text = append(append(text, name...), `="`...)
		text = append(append(text, escape(value)...), '"')
		more.pairs = append(more.pairs, name, value)
	}
	if len(more.pairs) > 0 {
		text = append(text, '}')
	}
	more.text = string(text)
	return more
}

// escape quotes a label value; both exposition formats agree on it.
func escape(s string) string {
	if !strings.ContainsAny(s, "\\\"\n") {
		return s
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

// Format is a text format, named by its content type.
type Format string

const (
	// Text is the Prometheus text format.
	Text Format = "text/plain; version=0.0.4; charset=utf-8"
	// OpenMetrics is version 1.0 of that format. Its counters have names that end in _total.
	OpenMetrics Format = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// Chunk is the size of one write: a page of many tasks has megabytes, which are not needed at once.
const Chunk = 32 << 10

// Write writes families.
func (f Format) Write(w io.Writer, families []Family) error {
	b, err := f.Append(w, make([]byte, 0, 2*Chunk), families)
	if err == nil {
		_, err = w.Write(append(b, f.End()...))
	}
	return err
}

// End returns what a page ends with.
func (f Format) End() string {
	if f == OpenMetrics {
		return "# EOF\n"
	}
	return ""
}

// describe returns what the head of a family says.
func (f Format) describe(of *Family) (name, kind, help string) {
	kind = string(cmp.Or(of.Type, Gauge))
	if f == Text {
		return of.Name, kind, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(of.Help)
	}
	name, total := strings.CutSuffix(of.Name, "_total")
	switch {
	case of.Type != Counter:
		name = of.Name
	case !total:
		kind = "unknown"
	}
	return name, kind, escape(of.Help)
}

// Append appends the families that have samples to b, and writes and empties b whenever it is full.
func (f Format) Append(w io.Writer, b []byte, families []Family) (_ []byte, err error) {
	for i := range families {
		of := &families[i]
		if len(of.Samples) == 0 {
			continue
		}
		name, kind, help := f.describe(of)
		for _, part := range []string{"# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"} {
			b = append(b, part...)
		}
		if b, err = appendSamples(w, b, of); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendSamples does so with the samples of a family.
func appendSamples(w io.Writer, b []byte, f *Family) ([]byte, error) {
	for _, s := range f.Samples {
		b = append(append(b, f.Name...), s.Labels.text...)
		b = procstats.AppendNumber(append(b, ' '), s.Value)
		b = append(b, '\n')
		if len(b) < Chunk {
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
	out := bufio.NewWriterSize(w, Chunk) // its Flush returns the error of any write
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
