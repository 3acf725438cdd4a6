// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// The runtime looks for changed CPU limits with a timer; an executor without callers must not wake up.
//go:debug updatemaxprocs=0

// Tacho measures what a task really uses, what it waits for, and why it ends. This file only decides which of its
// faces a process is.
package main

import (
	"context"
	"os"

	"github.com/tachograph/tacho/internal/command"
)

func main() {
	if code, done := serve(os.Args[1:]); done {
		os.Exit(code)
	}
	os.Exit(command.Execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
