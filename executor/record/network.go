// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"maps"
	"slices"
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// NotSampled is why neither packets nor exits were counted of a task whose caller does that while it samples.
const NotSampled = notPublished + ", or over before the first sample)"

// notPublished begins what executors say, of older builds too.
const notPublished = "not counted (publishing off"

// SetUncounted says why the caller of a task's executor has counted neither packets nor exits: it has not sampled the
// task.
func (r *Record) SetUncounted(reason string) {
	if r.Commands == nil {
		r.SetCommands(&Commands{Rows: []procstats.Command{}, Reason: reason})
	}
	var s procstats.Sample
	for name, text := range r.Absent {
		if m, _ := procstats.LookupName(name); m.Source == procstats.SourceSkb && strings.HasPrefix(text, notPublished) {
			s.SetAbsent(m.ID, reason)
		}
	}
	r.SetNetwork(&s, procstats.SourceDescription{ID: procstats.SourceSkb, Reason: reason})
}

// SetNetwork adds to the record of an ended task the packets that another process has counted, in a sample of nothing
// else; nil if none has.
func (r *Record) SetNetwork(s *procstats.Sample, source procstats.SourceDescription) {
	if s == nil || len(s.Task) == 0 {
		return
	}
	present, absent := Values(s.Task)
	for name, value := range present {
		r.Measurements[name] = value
		delete(r.Absent, name)
	}
	for name := range absent {
		delete(r.Measurements, name)
	}
	maps.Copy(r.Absent, absent)
	maps.Copy(r.Headline, Headlines(procstats.NetworkHeadlines(s)))
	r.Sources = slices.DeleteFunc(r.Sources, func(other Source) bool { return other.Name == source.ID.String() })
	r.Sources = append(r.Sources, SourcesOf([]procstats.SourceDescription{source})...)
}
