// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package skew holds that callers and executors of different builds understand each other: executors outlive upgrades
// and rollbacks of the binary. The other build is one of the first that speak protocol 1, built from this
// repository's history.
package skew
