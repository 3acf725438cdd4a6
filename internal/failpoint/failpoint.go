// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !failpoint

// Package failpoint names the steps at which tests let a process die, hang, or get an error from the kernel. It does
// something only in programs that are built with the tag failpoint: see "make chaos".
package failpoint

// At is a step at which the process may die or hang.
func At(string) {}

// Err is a step at which the process may die or hang, and which may fail.
func Err(string) error { return nil }
