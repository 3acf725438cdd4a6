// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux || portable

package main

import "github.com/tachograph/tacho/internal/command/run"

// serve leads the process group of a command, if this process was started for that: executors and plugins need Linux.
func serve(args []string) (code int, done bool) { return 0, run.Guard(args) }
