// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package kernel reads the files of procfs and cgroupfs: one Go file for each of the kernel's, named after it
// (proc_stat.go is /proc/PID/stat), or for each format that several of them share (flat_keyed.go, pids.go).
//
// It knows formats and no measurements: a parser fills fields, and package source says what they mean. A [File] is
// kept open and read again and again. [FindCgroup] and [CgroupMounts] say where the cgroups of a process are,
// [Identify] who a process is. Everything is read below the root that an [FS] gives.
package kernel
