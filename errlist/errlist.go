// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package errlist makes one error of several that one operation has found: all that is wrong with a file, all that
// could not be closed. Two errors that meet by chance are for errors.Join.
package errlist

import (
	"strings"

	"github.com/hashicorp/go-multierror"
)

// Join returns the errors that are not nil as a *multierror.Error, which prints each on a line of its own; nil if there
// is none.
func Join(errs ...error) error {
	list := &multierror.Error{ErrorFormat: lines}
	for _, err := range errs {
		if err != nil {
			list = multierror.Append(list, err)
		}
	}
	return list.ErrorOrNil()
}

// Each returns an error with each cause of it changed: wrapped with what all of them have in common. The cause of an error
// that is no list is the error itself.
func Each(err error, change func(cause error) error) error {
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
	return Join(changed...)
}

func lines(errs []error) string {
	texts := make([]string, 0, len(errs))
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "\n")
}
