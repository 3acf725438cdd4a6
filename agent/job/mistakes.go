// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/errlist"
)

// maxMistakes is how many mistakes are reported of one file.
const maxMistakes = 100

// Mistakes is an error that names what diagnostics say is wrong with a file, each mistake once: an expression may be
// evaluated in a loop.
func Mistakes(diags hcl.Diagnostics) error {
	var errs []error
	seen := make(map[string]bool)
	for i, err := range diags.Errs() {
		if len(errs) == maxMistakes {
			errs = append(errs, fmt.Errorf("and %d more", len(diags)-i))
			break
		}
		if text := err.Error(); !seen[text] {
			seen[text] = true
			errs = append(errs, err)
		}
	}
	return errlist.Join(errs...)
}
