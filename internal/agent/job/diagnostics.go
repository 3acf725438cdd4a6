// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/go-multierror"
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

// Places are the positions of values by key, such as "telemetry.collection_interval". The zero value is empty.
type Places map[string]hcl.Range

// With adds the positions of a body, which replace earlier ones. It skips blocks with labels.
func (p Places) With(body hcl.Body) Places {
	all := Places{}
	maps.Copy(all, p)
	if native, ok := body.(*hclsyntax.Body); ok {
		all.add("", native)
	}
	return all
}

func (p Places) add(prefix string, body *hclsyntax.Body) {
	for name, attribute := range body.Attributes {
		p[prefix+name] = attribute.Expr.Range()
	}
	for _, block := range body.Blocks {
		if len(block.Labels) == 0 {
			p[prefix+block.Type] = block.DefRange()
			p.add(prefix+block.Type+".", block.Body)
		}
	}
}

// Said returns the first of the keys that a file sets, or else the first key.
func (p Places) Said(keys ...string) string {
	for _, key := range keys {
		if _, ok := p[key]; ok {
			return key
		}
	}
	return keys[0]
}

// Fault returns the error of a value, with the value's position before each cause if a file sets it.
func (p Places) Fault(key string, err error) error {
	at, said := p[key]
	return EachMistake(err, func(cause error) error {
		if said {
			return fmt.Errorf("%s: Invalid value; %s: %w", at, key, cause)
		}
		return fmt.Errorf("%s: %w", key, cause)
	})
}

// Invalid returns the mistake in a value, with its position if a file sets it.
func (p Places) Invalid(key, format string, args ...any) error {
	detail := key + " " + fmt.Sprintf(format, args...)
	if at, said := p[key]; said {
		return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid value", Detail: detail, Subject: &at}
	}
	return fmt.Errorf("configuration: %s", detail)
}

// JoinMistakes returns the errors that are not nil as a *multierror.Error, which prints each on a line of its own, or
// nil. It is for all mistakes in a file: EachMistake and Fault give every cause its own position.
func JoinMistakes(errs ...error) error {
	list := &multierror.Error{ErrorFormat: func(errs []error) string { return errors.Join(errs...).Error() }}
	for _, err := range errs {
		if err != nil {
			list = multierror.Append(list, err)
		}
	}
	return list.ErrorOrNil()
}

// EachMistake changes every cause of an error that is a list, and the error itself if it is not a list.
func EachMistake(err error, change func(cause error) error) error {
	list, ok := err.(*multierror.Error) //nolint:errorlint // what wraps a list is one cause
	if !ok {
		if err == nil {
			return nil
		}
		return change(err)
	}
	changed := make([]error, 0, len(list.Errors))
	for _, cause := range list.Errors {
		changed = append(changed, change(cause))
	}
	return JoinMistakes(changed...)
}
