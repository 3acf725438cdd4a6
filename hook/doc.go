// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package hook runs one task through its life and calls small hooks on the way.
//
// It knows nothing of drivers, agents and wires: a driver is plugged in through [Starter] and [Handle], whoever
// keeps the task's state through [Observer], and each hook implements the phases it cares about.
//
//	               Config.Recovered ─┐
//	                                 ▼
//	┌─► prestart ──► start ──► poststart ──► running ──► exited ──► policy ──► stop ──► dead
//	│       └── failed ┴─────────────────────────────────────────────▲ │
//	└────────────────────────────── delay ◄────────────────────────────┘
//
//	in every state: ctx of Run is done ──► shutdown (the task runs on)
//
// Prestart, poststart and exited hooks are called for every start, stop hooks once, when the task will not be
// started again. A task that outlived its agent enters at poststart.
//
// # Stats
//
// [StatsHook] keeps a task's stats stream open for as long as the task runs, over closed streams, failed openings,
// silence and restarts of the plugin behind it. It can be used without [Runner]: call Poststart when a task has
// started, Exited when it has ended, and Shutdown at the end (see the example).
//
//	          Poststart                           first sample
//	(no task) ─────────► opening ───────────────────────────────► established
//	                      │  ▲ ▲                                   │
//	  failed: 1,2,4,5,5 s │  │ └──────── after one interval ───────┤ closed, broken or silent
//	                      └──┘                                     │
//	    not implemented, unrecoverable: ended       Exited, Shutdown, SetPublish(false): ended
package hook
