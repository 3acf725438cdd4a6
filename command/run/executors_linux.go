// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	agentclient "github.com/tachograph/tacho/agent/client"
	"github.com/tachograph/tacho/agent/registry"
	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
)

// executorFolders are the flags that say where executors are looked for.
type executorFolders struct {
	runtimeDir, dataDir string
}

func newExecutors() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "executors",
		Short: "List and kill executors on this machine, strays included",
		Long: `List and kill the executors of this user on this machine: those of tacho run, of the driver plugin, of the agent and of
development agents. What a dead executor left behind is a stray.`,
		GroupID: cli.GroupHost,
		Args:    cli.KnownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f executorFolders
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.runtimeDir, "runtime-dir", client.DefaultRuntimeDir(), "look in this `FOLDER`, a plugin's runtime_dir")
	flags.StringVar(&f.dataDir, "data-dir", agentclient.DefaultDataDir, "look in the agent's data `FOLDER`")
	_ = cmd.MarkPersistentFlagDirname("runtime-dir") // these fail only for flags that do not exist
	_ = cmd.MarkPersistentFlagDirname("data-dir")
	cmd.AddCommand(newExecutorsLs(&f), newExecutorsKill(&f))
	return cmd
}

// list returns the addresses of all executors that are found. Folders of another user are passed over.
func (f *executorFolders) list() ([]*wire.Address, error) {
	dataDirs := append([]string{f.dataDir}, agentclient.DevDataDirs()...)
	dirs := append([]string{f.runtimeDir}, registry.RuntimeDirs(f.runtimeDir, dataDirs...)...)
	var all []*wire.Address
	var errs []error
	for _, dir := range slices.Compact(dirs) {
		addresses, err := client.List(dir)
		all = append(all, addresses...)
		if !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

func newExecutorsLs(f *executorFolders) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List executors: id, state, processes, command",
		Example: `  tacho executors ls`,
		Args:    cli.Arguments(),
	}
	format := cli.AddFormat(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := f.list()
		if format.String() == "json" {
			return errors.Join(err, cli.PrintJSON(cmd.OutOrStdout(), all))
		}
		t := cli.Table{}
		t.AddTexts("ID", "STATE", "EXECUTOR", "MAIN", "COMMAND")
		for _, address := range all {
			state := "alive"
			if !client.Alive(*address) {
				state = "stray: its executor is gone"
			}
			t.AddTexts(address.ID, state, fmt.Sprint(address.Executor.PID), fmt.Sprint(address.Main.PID),
				cli.Printable(strings.Join(address.Command, " ")))
		}
		_, writeErr := io.WriteString(cmd.OutOrStdout(), t.Render(cli.PaletteFor(cmd, cmd.OutOrStdout())))
		return errors.Join(err, writeErr)
	}
	return cmd
}

func newExecutorsKill(f *executorFolders) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kill ID...",
		Short: "Stop the task of an executor and the executor, or what a dead executor left behind",
		Example: `  tacho executors kill 20260304T050607-4711
  tacho executors kill --all-strays`,
	}
	strays := cmd.Flags().Bool("all-strays", false, "kill what every dead executor left behind")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && !*strays {
			return cli.Usagef("which executor? tacho executors ls lists them")
		}
		all, err := f.list()
		errs := []error{err}
		found := map[string]bool{}
		for _, address := range all {
			named := false
			for _, id := range args {
				if address.ID == id {
					named, found[id] = true, true
				}
			}
			if named || (*strays && !client.Alive(*address)) {
				errs = append(errs, killExecutor(cmd.Context(), *address))
			}
		}
		for _, id := range args {
			if !found[id] {
				errs = append(errs, fmt.Errorf("no executor %q (tacho executors ls lists them)", id))
			}
		}
		return errors.Join(errs...)
	}
	return cmd
}

// killExecutor stops a live executor's task and then the executor, or kills what a dead one left.
func killExecutor(ctx context.Context, address wire.Address) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if !client.Alive(address) {
		err := client.KillTask(ctx, address)
		if address.RecordDir != "" {
			if markErr := markLost(address.RecordDir, time.Time{}); !errors.Is(markErr, os.ErrNotExist) {
				err = errors.Join(err, markErr)
			}
		}
		return err
	}
	c, err := client.Visit(ctx, address)
	if err != nil {
		return err
	}
	err = c.Stop(ctx, 0, 5*time.Second)
	if err == nil {
		err = c.Shutdown(ctx)
	}
	if errors.Is(err, client.ErrLost) {
		err = nil
	}
	return errors.Join(err, c.Close())
}
