// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package rig is what black-box tests of tacho stand on: the binary, a place of its own for each run, users,
// cgroups that serve as meters, and a look at what was left behind.
//
// The tests are for whole hosts and take minutes, so they run only where TACHO_E2E or TACHO_BIN is set.
// TACHO_BIN is the binary under test, TACHO_WORKLOAD the built e2e/truth/workload; what is not given is built.
package rig
