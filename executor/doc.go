// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package executor is the out-of-process half: a process that starts one task, supervises it, samples it on request,
// ends it, and writes its record. It outlives the process that started it; docs/executor-protocol.md says how the two
// talk, docs/architecture.md what it promises.
package executor
