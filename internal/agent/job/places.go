// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"errors"
	"fmt"
	"maps"

	"github.com/hashicorp/go-multierror"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Places are the positions of values by key, such as "telemetry.collection_interval". The zero value is empty.
type Places map[string]hcl.Range

// With adds the positions of a body, which replace earlier ones. It skips blocks with labels.
func (p Places) With(body hcl.Body) Places {
	all := maps.Clone(p)
	if all == nil {
		all = Places{}
	}
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
