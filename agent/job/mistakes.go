// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Mistakes are what is wrong with a file. As an error they are all told, a line each, where hcl.Diagnostics, which
// errors.As finds, tells the first.
type Mistakes hcl.Diagnostics

// Error implements error.
func (m Mistakes) Error() string {
	lines := make([]string, 0, len(m))
	for _, diagnostic := range m {
		if diagnostic.Severity == hcl.DiagError {
			lines = append(lines, diagnostic.Error())
		}
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the diagnostics.
func (m Mistakes) Unwrap() error { return hcl.Diagnostics(m) }
