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
