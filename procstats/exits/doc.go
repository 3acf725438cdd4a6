// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package exits counts what processes used that have ended, however short they lived: the kernel writes its final account of
// every thread that ends in a watched cgroup, and a [Watch] adds them up by command.
//
// BPF programs of some dozens of instructions do that, since Linux 5.8, on the raw tracepoints sched_switch and sched_process_exec;
// those on sched_process_fork and sched_process_exit count what has left the cgroup, and which records are outstanding. They are assembled here for the running kernel, whose own description of its types says where the fields are. They
// need CAP_BPF and CAP_PERFMON.
package exits
