// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package remote has the commands that are clients of an agent: job, alloc, top and events, and advise, which may be.
package remote

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{newAdvise(), newAlloc(), newEvents(), newJob(), newTop(), newUI()}
}
