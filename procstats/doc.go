// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package procstats says what a measurement is and how one is read.
//
// One table lists every measurement there is: name, unit, kind, scope, source, help, and what the number
// guarantees. A [Selection] is a part of it. A [Source] reads one group of kernel files for one task, a
// [Collector] all sources that a selection needs, into a [Sample]: readings, each a value or the reason why there
// is none. A [Cache] shares samples among readers, a [Window] reduces them over time, and [Headlines] chooses the
// few numbers that people look at first.
//
// Three rules hold everywhere. A number that was not read is absent, never 0 and never the old one. A rate is the
// growth of a counter over the time between the reads of its own source, on the monotonic clock. What a name means
// never changes: another method is another name, with another permanent number.
//
// The package starts no goroutine, keeps no global state, and reads only below the roots that a [Target] gives it.
package procstats

//go:generate go test -run ^TestMeasurementsPage$ . -update
