// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package cost measures what the recorder itself takes: an idle executor's wake-ups and reads, and its memory with
// and without readers. It prints its figures; "make cost" shows them.
//
// The tests are long, so TACHO_E2E or TACHO_BIN asks for them (see e2e/rig). TACHO_COST_TIME is how long readers
// stream in the test of memory, one minute where it is not set.
package cost
