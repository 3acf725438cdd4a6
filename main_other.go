// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package main

// serve does nothing: executors and plugins need Linux.
func serve([]string) (code int, done bool) { return 0, false }
