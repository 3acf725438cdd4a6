// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exposition

import (
	"strings"
)

// Type is what a metric is.
type Type uint8

const (
	// Gauge goes up and down.
	Gauge Type = iota
	// Counter only grows, from 0 at the start of what it counts.
	Counter
)

// String returns the type's word in the exposition formats.
func (t Type) String() string {
	if t == Counter {
		return "counter"
	}
	return "gauge"
}

// Family is all samples of one metric.
type Family struct {
	Name string
	Help string
	Type Type
	// Samples may be empty: nothing was measured then.
	Samples []Sample
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

// Label is a name with its value.
type Label struct {
	Name, Value string
}

// Labels are the labels of a sample, which many samples share.
type Labels struct {
	// Pairs have no empty value.
	Pairs []Label
	// text is the exposition form, braces included; empty without labels.
	text string
}

// NewLabels returns labels of the pairs that have a value, in the given order.
func NewLabels(pairs ...Label) *Labels { return (&Labels{}).With(pairs...) }

// Text is the labels as they stand in a page, braces included; empty without labels.
func (l *Labels) Text() string { return l.text }

// With returns the labels with more behind them.
func (l *Labels) With(pairs ...Label) *Labels {
	size := len(l.text) + len("{}")
	for _, p := range pairs {
		size += len(p.Name) + len(p.Value) + len(`,=""`)
	}
	text := append(make([]byte, 0, size), strings.TrimSuffix(l.text, "}")...)
	more := &Labels{Pairs: append(make([]Label, 0, len(l.Pairs)+len(pairs)), l.Pairs...)}
	for _, p := range pairs {
		if p.Value == "" {
			continue // in Prometheus an empty label is no label
		}
		p.Value = strings.ToValidUTF8(p.Value, "\uFFFD")
		more.Pairs = append(more.Pairs, p)
		text = append(text, "{,"[min(len(more.Pairs)-1, 1)])
		text = append(append(text, p.Name...), `="`...)
		text = append(append(text, escape(p.Value)...), '"')
	}
	if len(more.Pairs) > 0 {
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
