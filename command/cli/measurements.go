// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"github.com/spf13/cobra"

	"maps"
	"slices"

	"github.com/tachograph/tacho/procstats"
)

// Optional writes a value, or the dash where it was not measured.
func Optional(unit procstats.Unit, value *float64) string {
	if value == nil {
		return procstats.NoValue
	}
	return unit.Text(*value)
}

func OrDash(text string) string {
	if text == "" {
		return procstats.NoValue
	}
	return text
}

// GuaranteeText is a guarantee in people's words.
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

// TableOrder lists the keys in the order of the table, and after them those a later version added.
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

// MeasurementCompletions lists every name of the table with its help, each after a prefix.
func MeasurementCompletions(prefix string) []cobra.Completion {
	var completions []cobra.Completion
	for _, m := range procstats.Table() {
		completions = append(completions, cobra.CompletionWithDesc(prefix+m.Name, m.Help))
	}
	return completions
}
