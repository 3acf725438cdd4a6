// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package storage holds what is said of a task's writes to what the kernel counted at the disk below: in guests, which
// have a disk to spare, with a file system on it and a device-mapper device over it.
package storage
