// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package source makes samples of kernel files.
//
// A [Source] reads one group of files for one task, the [Target]; a [Collector] all sources that a selection needs,
// into a procstats.Sample; a [Cache] shares samples among readers. A file that does not exist here, or cannot be read,
// makes its measurements absent with the reason; it never fails the sample.
//
// The package starts no goroutine and reads only below the roots that a Target gives it.
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
