// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tachograph/tacho/procstats"
)

// maxMistakes is how many mistakes are reported of one file.
const maxMistakes = 100

// Mistakes returns the diagnostics of a file as an error, each once: an expression may be evaluated in a loop.
func Mistakes(diags hcl.Diagnostics) error {
	var errs []error
	seen := make(map[string]bool)
	for i, err := range explained(diags).Errs() {
		if len(errs) == maxMistakes {
			errs = append(errs, fmt.Errorf("and %d more", len(diags)-i))
			break
		}
		if text := err.Error(); !seen[text] {
			seen[text] = true
			errs = append(errs, err)
		}
	}
	return JoinMistakes(errs...)
}

// elsewhereFunctions returns the functions of Nomad's job files that read files of the caller, that return another
// value each time, or that need what is not linked here. nomad job run evaluates them before it sends a job.
func elsewhereFunctions() []string {
	return []string{
		"abspath", "bcrypt", "cidrhost", "cidrnetmask", "cidrsubnet", "cidrsubnets", "file", "fileexists", "fileset",
		"pathexpand", "rsadecrypt", "timestamp", "uuidv4", "uuidv5", "yamldecode", "yamlencode",
	}
}

// explained returns diagnostics in which a call of one of the elsewhereFunctions is not reported as misspelled, and a
// word without quotes not as a variable.
func explained(diags hcl.Diagnostics) hcl.Diagnostics {
	all := slices.Clone(diags)
	for i, d := range diags {
		one := *d
		unknown, call := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](d)
		if call && slices.Contains(elsewhereFunctions(), unknown.CalledFunctionName()) {
			one.Summary = "Not supported"
			one.Detail = unknown.CalledFunctionName() +
				" is not supported by the agent: nomad job run evaluates it; use a variable"
		} else if word := bareWord(d); word != "" {
			one.Summary = "Invalid value"
			one.Detail = fmt.Sprintf("%s is not a value: a bool is true or false, a text is in quotes: %[1]q", word)
		}
		all[i] = &one
	}
	return all
}

// bareWord returns the word that an expression consists of, if it is not a value; empty otherwise.
func bareWord(d *hcl.Diagnostic) string {
	if d.Expression == nil || d.Summary != "Variables not allowed" && d.Summary != "Unknown variable" {
		return ""
	}
	return hcl.ExprAsKeyword(d.Expression)
}

// nearest returns the name that a misspelled one most probably means; empty if none is near.
func nearest(name string, names []string) string {
	if len(name) > maxName {
		return "" // to compare takes the time of all letters by all letters
	}
	best, found := max(2, len(name)/3), ""
	for _, candidate := range names {
		n := procstats.EditDistance(name, candidate)
		if n < len(name) && (n < best || n == best && (found == "" || candidate < found)) {
			best, found = n, candidate
		}
	}
	return found
}
