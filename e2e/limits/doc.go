// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package limits holds tasks to limits, on whatever layout of cgroups there is, and what is said of them to what
// happened.
package limits
