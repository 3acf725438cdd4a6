// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"maps"
	"slices"

	"github.com/tachograph/tacho/procstats"
)

// SetNetwork adds to the record of an ended task the packets that another process has counted, in a sample of nothing else;
// nil if none has.
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
