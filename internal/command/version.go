// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/version"
)

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of tacho",
		Args:    cli.Arguments(),
		GroupID: cli.GroupHost,
		Example: `  tacho version
  tacho version --format json`,
	}
	format := cli.AddFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format.String() == "json" {
			return cli.PrintJSON(cmd.OutOrStdout(), map[string]string{
				"version": version.String(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				"schema_version": record.SchemaVersion,
			})
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "tacho %s\n%s %s/%s, record schema %s\n",
			version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH, record.SchemaVersion)
		return err
	}
	return cmd
}
