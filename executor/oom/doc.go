// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package oom notices OOM kills of a task's processes and says whose limit it was and who was killed.
//
// A [Monitor] puts together what the kernel has in three places. Its notifications and counters: on cgroup version 2
// memory.events of the task and memory.events.local of the groups above it are polled, on version 1 eventfds are
// registered with cgroup.event_control; while nothing happens nothing runs, no thread and no timer. The kernel's log,
// if it may be read, which names the victim. And the processes of the last sample that are being killed.
package oom
