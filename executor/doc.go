// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package executor is the out-of-process half: a process that starts one task, watches it, samples it for whoever
// asks, ends it, and keeps its record. It outlives whoever started it; docs/executor-protocol.md says how the two
// talk, docs/architecture.md what it promises.
package executor
