// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
)

// Source reads one group of kernel files for one task. It is used by one goroutine at a time and starts none.
type Source interface {
	// Describe says which source it is and whether it works here.
	Describe() procstats.SourceDescription
	// Collect puts one reading of each selected measurement of the source into s, a value or a reason, and
	// stamps s.Sources. A read that fails makes its measurements absent; it never fails the sample.
	Collect(s *procstats.Sample)
	// Close closes kept-open files.
	Close() error
}
