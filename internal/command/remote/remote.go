// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package remote has the commands that are clients of an agent: job, alloc, top and events, and advise, which may be.
package remote

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command/cli"
)

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{newAdvise(), newAlloc(), newEvents(), newJob(), newTop(), newUI()}
}

func newUI() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Print a link that signs a browser in to the agent's page",
		Long: `Print a link that signs a browser in to the agent's web page. It works once, within a minute. The ` +
			`session lasts 12 hours, or
until the agent ends, and may see command lines and output, and restart and stop tasks.`,
		Example: "  tacho ui",
		GroupID: cli.GroupAgent,
	}
	return withAgent(cmd, nil, func(c *call) error {
		link, err := c.SignInLink(c.ctx)
		if err != nil {
			return err
		}
		base := link.URL
		if address := c.Address(); !strings.HasPrefix(address, "unix:") {
			base = strings.TrimSuffix(address, "/")
		}
		if base == "" {
			return errors.New("the agent does not listen on TCP (ports { http = -1 }), so no browser reaches its page")
		}
		_, err = fmt.Fprintln(c.out, base+link.Path)
		return err
	})
}
