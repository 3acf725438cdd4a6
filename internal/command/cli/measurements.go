// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/procstats"
)

// Optional returns a value as text, or procstats.NoValue if it was not measured.
func Optional(unit procstats.Unit, value *float64) string {
	if value == nil {
		return procstats.NoValue
	}
	return unit.Text(*value)
}

// OrDash returns text, or procstats.NoValue if it is empty.
func OrDash(text string) string {
	if text == "" {
		return procstats.NoValue
	}
	return text
}

// GuaranteeText returns the words for a guarantee.
func GuaranteeText(g procstats.Guarantee) string {
	switch g {
	case procstats.LowerBound:
		return "at least"
	case procstats.UpperBound:
		return "at most"
	case procstats.Exact, procstats.Sampled:
	}
	return string(g)
}

// TableOrder returns the names of measurements in the order of the table, followed by those that only a later version
// of tacho knows.
func TableOrder[V any](values map[string]V) []string {
	var names []string
	for _, m := range procstats.Table() {
		if _, given := values[m.Name]; given {
			names = append(names, m.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, known := procstats.LookupName(name); !known {
			names = append(names, Printable(name))
		}
	}
	return names
}

// MeasurementCompletions returns every name of the table, each after prefix, with its help.
func MeasurementCompletions(prefix string) []cobra.Completion {
	var completions []cobra.Completion
	for _, m := range procstats.Table() {
		completions = append(completions, cobra.CompletionWithDesc(prefix+m.Name, m.Help))
	}
	return completions
}
