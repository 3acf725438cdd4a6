// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// executorDirs are the flags for where to look for executors.
type executorDirs struct {
	runtimeDir, dataDir string
}

func newExecutors() *cobra.Command {
	cmd := cli.Described(help, "executors")
	cmd.GroupID = cli.GroupHost
	var f executorDirs
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.runtimeDir, "runtime-dir", "", "only this runtime `DIR`, such as the runtime_dir of a plugin")
	flags.StringVar(&f.dataDir, "data-dir", datadir.Default, "data `DIR` of the agent")
	_ = cmd.MarkPersistentFlagDirname("runtime-dir") // these fail only for flags that do not exist
	_ = cmd.MarkPersistentFlagDirname("data-dir")
	cli.AddSubcommands(cmd, newExecutorsLs(&f), newExecutorsKill(&f))
	return cmd
}

// runtimeDirs returns the directories that may have executors of any owner.
func (f *executorDirs) runtimeDirs() []string {
	if f.runtimeDir != "" {
		return []string{f.runtimeDir}
	}
	return client.ExistingRuntimeDirs()
}

// list returns all executors, and without --runtime-dir those that run elsewhere.
func (f *executorDirs) list() ([]*listed, error) {
	dirs := datadir.AllExecutors(f.runtimeDirs(), append([]string{f.dataDir}, datadir.AllDev()...))
	if f.runtimeDir == "" {
		dirs = append(dirs, client.RunningDirs(kernel.HostFS())...)
	}
	return lookIn(dirs...)
}

// isAgents reports whether an executor is of the agent with the data directory.
func (f *executorDirs) isAgents(l *listed) bool {
	dir := filepath.Dir(l.Folder)
	return dir == datadir.Executors(f.dataDir) || filepath.Base(dir) == datadir.SharedName(f.dataDir)
}

// refuseAgent returns an error while the agent runs: it would start again what is killed.
func (f *executorDirs) refuseAgent() error {
	connection, err := net.Dial("unix", datadir.Socket(f.dataDir))
	if err != nil {
		return nil //nolint:nilerr // nothing listens
	}
	connection.Close()
	return fmt.Errorf("data directory %s is in use by an agent; stop it first", f.dataDir)
}

func newExecutorsLs(f *executorDirs) *cobra.Command {
	cmd := cli.Described(help, "executors ls")
	format := cli.AddFormat(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := f.list()
		if len(all) == 0 && format.String() == "table" {
			if err == nil {
				cli.PrintError(cmd.ErrOrStderr(), errors.New("no executors"))
			}
			return err
		}
		return errors.Join(err, cli.Print(cmd, format, all, func(p cli.Palette) string {
			t := cli.Table{Leave: []int{4, 5}, Least: map[int]int{6: 14}}
			t.AddTexts("ID", "STATE", "OWNER", "AGE", "EXECUTOR", "MAIN", "COMMAND", "REMEDY")
			for _, l := range all {
				t.AddTexts(l.ID, string(l.State), cli.Printable(l.OwnerText), procstats.AgeText(time.Since(l.Since)),
					fmt.Sprint(l.Executor.PID), fmt.Sprint(l.Main.PID), cli.Printable(strings.Join(l.Command, " ")),
					cmp.Or(l.Remedy, cli.Printable(l.Where)))
			}
			return t.Render(p)
		}))
	}
	return cmd
}

func newExecutorsKill(f *executorDirs) *cobra.Command {
	cmd := cli.Described(help, "executors kill")
	cmd.Args = cli.Arguments("[ID...]")
	orphans := cmd.Flags().Bool("orphans", false, "kill what all orphans left behind")
	agents := cmd.Flags().Bool("agent", false,
		"kill all executors of the agent with that --data-dir, which must not be running")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && !*orphans && !*agents {
			return cli.Usagef("no executor given (tacho executors ls lists them)")
		}
		if *agents {
			if err := f.refuseAgent(); err != nil {
				return err
			}
		}
		all, err := f.list()
		errs := []error{err}
		found := map[string]bool{}
		for _, l := range all {
			found[l.ID] = true
			if slices.Contains(args, l.ID) || *orphans && l.State == stateOrphan || *agents && f.isAgents(l) {
				errs = append(errs, l.kill(cmd.Context()))
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
