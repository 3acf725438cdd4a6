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

	"github.com/tachograph/tacho/agent/datadir"
	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/errlist"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
)

// executorDirs are the flags for where to look for executors.
type executorDirs struct {
	runtimeDir, dataDir string
}

func newExecutors() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "executors",
		Short: "List and kill the executors on this machine, including orphans",
		Long: `List and kill the executors of this user on this machine: those of tacho run, the driver plugin, the agent and
development agents. An orphan is what a dead executor left behind.`,
		GroupID: cli.GroupHost,
	}
	var f executorDirs
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.runtimeDir, "runtime-dir", client.DefaultRuntimeDir(), "runtime `DIR`, the runtime_dir of a plugin")
	flags.StringVar(&f.dataDir, "data-dir", datadir.Default, "data `DIR` of the agent")
	_ = cmd.MarkPersistentFlagDirname("runtime-dir") // these fail only for flags that do not exist
	_ = cmd.MarkPersistentFlagDirname("data-dir")
	cli.AddSubcommands(cmd, newExecutorsLs(&f), newExecutorsKill(&f))
	return cmd
}

// list returns the addresses of all executors. Directories of other users are skipped.
func (f *executorDirs) list() ([]*wire.Address, error) {
	dataDirs := append([]string{f.dataDir}, datadir.AllDev()...)
	dirs := append([]string{f.runtimeDir}, datadir.AllExecutors(f.runtimeDir, dataDirs...)...)
	var all []*wire.Address
	var errs []error
	for _, dir := range slices.Compact(dirs) {
		addresses, err := client.List(dir)
		all = append(all, addresses...)
		if !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
	}
	return all, errlist.Join(errs...)
}

func newExecutorsLs(f *executorDirs) *cobra.Command {
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
				state = "orphan: executor is dead"
			}
			t.AddTexts(address.ID, state, fmt.Sprint(address.Executor.PID), fmt.Sprint(address.Main.PID),
				cli.Printable(strings.Join(address.Command, " ")))
		}
		_, writeErr := io.WriteString(cmd.OutOrStdout(), t.Render(cli.PaletteFor(cmd, cmd.OutOrStdout())))
		return errors.Join(err, writeErr)
	}
	return cmd
}

func newExecutorsKill(f *executorDirs) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kill ID...",
		Short: "Stop an executor and its task, or kill what a dead executor left behind",
		Example: `  tacho executors kill 20260304T050607-4711
  tacho executors kill --orphans`,
	}
	orphans := cmd.Flags().Bool("orphans", false, "kill what all dead executors left behind")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && !*orphans {
			return cli.Usagef("no executor given (tacho executors ls lists them)")
		}
		all, err := f.list()
		errs := []error{err}
		found := map[string]bool{}
		for _, address := range all {
			found[address.ID] = true
			if slices.Contains(args, address.ID) || (*orphans && !client.Alive(*address)) {
				errs = append(errs, killExecutor(cmd.Context(), *address))
			}
		}
		for _, id := range args {
			if !found[id] {
				errs = append(errs, fmt.Errorf("no executor %q (tacho executors ls lists them)", id))
			}
		}
		return errlist.Join(errs...)
	}
	return cmd
}

// killExecutor stops the task of an executor and then the executor, or kills what a dead executor left.
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
