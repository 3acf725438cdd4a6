// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package process holds processes, and is the only place that sends signals: a PID is not an identity, and a signal to
// a bare number can reach whatever process has the number by then.
//
// There are three proofs that a PID still belongs to the process that was meant:
//
//   - Process is one held by pidfd, since Linux 5.3, and checked after that.
//   - Child is a child of this process that has not been reaped: until then the kernel does not reuse its PID.
//   - A Pin stands in for a pidfd where pidfd_open(2) is missing or denied: what the caller knows that keeps the
//     process from ending, or its number from being used again, while the signal is sent.
//
// Without any of them no signal is sent.
package process
