// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package allocation holds what is known of allocations: one run of a job's group, and its tasks. The values are
// snapshots: a holder may keep one and must not change it.
package allocation
