// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package cost measures what the recorder itself takes: an agent with many tasks, an idle executor's wake-ups and
// reads, and its memory with and without readers. It prints its figures; "make cost" shows them.
//
// The tests are long, so TACHO_E2E or TACHO_BIN asks for them (see e2e/rig). TACHO_COST_TIME is how long readers
// stream in the test of memory, one minute where it is not set; TACHO_COST_TASKS is how many tasks the agent is
// measured with, "50,200,500" for three such tests and their growth, 50 where it is not set; TACHO_COST_WORKERS is
// how many tasks work a little all the time, 20 where it is not set. TACHO_COST_ROUNDS asks for what counting packets
// and exits takes from a task, with and without it in turns, and is how many turns there are.
package cost
