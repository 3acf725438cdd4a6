// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"strings"

	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/exposition"
)

// filter is telemetry { prefix_filter filter_default }: the longest prefix of a name decides, and of two equal ones
// the one that keeps out.
type filter struct {
	allowed, blocked []string
	byDefault        bool
}

// newFilter reads a filter. Dots stand for underscores, so that filters for Nomad's dotted names work.
func newFilter(t config.Telemetry) filter {
	f := filter{byDefault: t.FilterDefault}
	for _, rule := range t.PrefixFilter {
		rule = strings.ReplaceAll(rule, ".", "_")
		if prefix, ok := strings.CutPrefix(rule, "+"); ok {
			f.allowed = append(f.allowed, prefix)
		} else if prefix, ok := strings.CutPrefix(rule, "-"); ok {
			f.blocked = append(f.blocked, prefix)
		}
	}
	return f
}

func (f filter) apply(families []exposition.Family) []exposition.Family {
	if f.byDefault && len(f.blocked) == 0 {
		return families
	}
	kept := families[:0]
	for _, family := range families {
		if f.allows(family.Name) {
			kept = append(kept, family)
		}
	}
	return kept
}

func (f filter) allows(name string) bool {
	allowed, blocked := longest(f.allowed, name), longest(f.blocked, name)
	if allowed == blocked {
		return f.byDefault && blocked < 0
	}
	return allowed > blocked
}

// longest is the length of the longest prefix of name; -1 if there is none.
func longest(prefixes []string, name string) int {
	n := -1
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			n = max(n, len(p))
		}
	}
	return n
}
