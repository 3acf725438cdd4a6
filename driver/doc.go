// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is the task driver: it starts tasks through executors, finds them again, waits for them, stops
// and signals them, runs commands beside them, and tells what they use and what happens to them.
//
// The types of the contract ([TaskConfig], [TaskHandle], [TaskStats] and so on) are those of any task driver;
// [Driver] is its interface. [Tacho] is our own driver. The agent uses it in its own process; package plugin
// serves it to other hosts, and makes other people's driver plugins look like a [Driver].
//
// What a host asks for and what happens here:
//
//	StartTask    one executor process a task, in its own session, never in the task's cgroup
//	RecoverTask  the executor is found by (pid, start time, boot) and reached by its socket
//	TaskStats    the executor's cumulative readings become rates over the time since the reading before
//	lost         whoever holds the executor's pidfd kills the task's cgroup; the exit says executor_lost
package driver
