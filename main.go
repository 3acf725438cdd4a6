// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Tacho measures what a task really uses, what it waits for, and why it ends.
package main

import (
	"context"
	"os"

	"github.com/tachograph/tacho/command"
)

func main() {
	os.Exit(command.Execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
