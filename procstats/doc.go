// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package procstats is the vocabulary of measurements: what each one is, what was read, and what that means over time.
// It reads no file. It is one of the public packages of the module, with hook: other programs may import it.
//
// One table lists every measurement there is: name, unit, kind, scope, source, help, and what the number guarantees.
// A [Selection] is a part of it. A [Sample] holds readings, each a value or the reason for its absence. A [Window]
// reduces samples over time, and [Headlines] chooses the few numbers that people look at first. The types that name
// things are here too: [ProcessID] and [Cgroup].
//
// Three rules hold everywhere. A number that was not read is absent, never 0 and never the old one. A rate is the
// growth of a counter over the time between the reads of its own source, on the monotonic clock. What a name means
// never changes: another method is another name, with another permanent number.
//
// The package procstats/kernel parses the kernel's files, and procstats/source makes samples of them. None of the
// three starts a goroutine or keeps global state.
package procstats

//go:generate go test -run ^TestMeasurementsPage$ . -update
