// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

// RetryReason says why another start may end better; empty unless the diagnosis is retryable.
func (d *Diagnosis) RetryReason() string {
	if !d.Retryable {
		return ""
	}
	return (&Kill{Scope: d.OOM.Scope}).cause()
}
