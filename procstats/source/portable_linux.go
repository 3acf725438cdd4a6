// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package source

import (
	"errors"

	"github.com/tachograph/tacho/procstats"
)

// startOf is not called: Linux has /proc.
func startOf(int) (uint64, error) { return 0, errors.ErrUnsupported }

// openPortable returns a source that says that Linux has readers of its own. The build tag portable puts the real
// one in its place, for tests that compare the two.
func openPortable(_ Target, sel procstats.Selection) Source {
	return newAbsentSource(procstats.SourcePortable, sel, "Linux has readers of its own: see the tree source")
}
