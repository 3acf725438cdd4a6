// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exposition

import (
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// AbsentFamily is the empty family that says which measurements of a task were selected and are absent.
func AbsentFamily() Family {
	return Family{
		Name: Prefix + "absent_info",
		Help: "A measurement that is selected in addition to the default ones and has no value, with the reason as a label, always 1.",
	}
}

// AddAbsent adds what is absent from a sample to the family. Of usual, what everybody measures by default, nothing is said: much
// of it cannot be there, such as a limit that is not set.
func (f *Family) AddAbsent(labels *Labels, s *procstats.Sample, usual procstats.Selection) {
	for _, r := range s.Task {
		if r.Present() || usual.Has(r.ID()) {
			continue
		}
		if m, known := procstats.Lookup(r.ID()); known {
			f.Add(labels.With("measurement", m.Name, "reason", withoutCounts(r.Reason())), 1)
		}
	}
}

// withoutCounts returns a reason without how many things it is about: "3 of 37 processes were skipped: 1 larger than 8 GiB, and 2 more"
// would be another series each time. What follows no punctuation, such as a limit, stays.
func withoutCounts(reason string) string {
	words := strings.Fields(reason)
	at := func(i int) string {
		if i < 0 || i >= len(words) {
			return ""
		}
		return words[i]
	}
	isNumber := func(i int) bool { return at(i) != "" && strings.Trim(at(i), "0123456789") == "" }
	var kept []string
	for i := 0; i < len(words); i++ {
		begins := i == 0 || strings.ContainsAny(at(i - 1)[len(at(i-1))-1:], ":,") || at(i-1) == "and"
		switch {
		case isNumber(i) && begins && at(i+1) == "of" && isNumber(i+2):
			i += 2
		case isNumber(i) && begins:
		default:
			kept = append(kept, words[i])
		}
	}
	return strings.Join(kept, " ")
}
