// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package oom tests what tacho says of tasks that run out of memory, wait or are killed: whose limit it was, who was
// killed, how soon it was told. It has nothing but tests; they run on a host and, by go test -exec with e2e/guest,
// under other kernels and layouts of cgroups.
package oom
