// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package skew holds that callers and executors of different builds understand each other: executors outlive upgrades
// and rollbacks of the binary. The other build is the one that the tag protocol-1 names, built from this repository.
package skew
