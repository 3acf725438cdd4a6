// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package source

import (
	"github.com/tachograph/tacho/procstats"
)

// openPortable returns a source that says that Linux has readers of its own. The build tag portable puts the real
// one in its place, for tests that compare the two.
func openPortable(_ Target, sel procstats.Selection) Source {
	return newAbsentSource(procstats.SourcePortable, sel, "Linux has readers of its own: see the tree source")
}
