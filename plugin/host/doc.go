// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package host runs the drivers of others: task-driver plugins as Nomad starts them. [Start] and [Reattach] make a
// [driver.Driver] of a plugin executable. [Host] supervises one: it is started again when it dies, and recovers its tasks.
//
//	dies    calls fail with driver.ErrUnavailable; started again; RecoverTask for every task
//
// Whatever exists only for drivers that are not ours is here, and in the lines of agent/registry and agent/state that
// start plugins and persist their addresses. Our own driver runs in the agent's process and needs none of it.
package host
