// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package hook runs one task from its first start to its last end and calls small hooks at every stage.
//
// It is a public package of the module, for any orchestrator in Go, and imports nothing else of it but procstats. It
// knows nothing of drivers, agents and wires: a driver implements [Starter] and [Handle], a state store implements
// [Observer], and each hook implements the stages it needs.
//
//	               Config.Recovered -+
//	                                 v
//	+-> prestart --> start --> poststart --> running --> exited --> policy --> stop --> dead
//	|       +-- failed +---------------------------------------------^ |
//	+------------------------------ delay <----------------------------+
//
//	in every state: ctx of Run is done --> shutdown (the task keeps running)
//
// Prestart, poststart and exited hooks are called for every start, stop hooks once, when the task will not be
// started again. A task that outlived its agent enters at poststart. The errors of one stage's hooks are logged as one,
// a cause a line.
//
// # Stats
//
// [StatsHook] keeps a task's stats stream open as long as the task runs, over closed streams, failed openings,
// silence and restarts of the plugin behind it. It can be used without [Runner]: call Poststart when a task has
// started, Exited when it has ended, and Shutdown at the end (see the example).
//
// Its methods return within their contexts whatever the driver and the updater do. A call that blocks for ever holds
// one goroutine for ever, and never more than one per task; when it returns, the goroutine ends or collects the
// samples of the task's present start. No sample is delivered after a method that ends the stream has returned nil.
//
//	          Poststart                           first sample
//	(no task) ---------> opening -------------------------------> established
//	                      |  ^ ^                                   |
//	  failed: 1,2,4,5,5 s |  | +-------- after one interval -------+ closed, broken or silent
//	                      +--+                                     |
//	    not implemented, unrecoverable: ended       Exited, Shutdown, SetPublish(false): ended
package hook
