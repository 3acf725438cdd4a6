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

	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/internal/command"
	"github.com/tachograph/tacho/internal/version"
	"github.com/tachograph/tacho/plugin"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(version.String()))
	}
	// A host starts its plugins without arguments.
	if len(os.Args) == 1 && plugin.Requested() {
		os.Exit(plugin.Main(version.String()))
	}
	os.Exit(command.Execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
