// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats/kernel"
)

// killOrphans kills what dead executors left if their owners are dead, too.
func killOrphans(ctx context.Context) error {
	all, err := client.List(client.DefaultRuntimeDir())
	errs := []error{err}
	for _, address := range all {
		if client.Alive(*address) || client.Owned(*address) {
			continue
		}
		errs = append(errs, killExecutor(ctx, *address))
	}
	return errors.Join(append(errs, removeUnlaunched(client.DefaultRuntimeDir()))...)
}

// endLimit bounds how long a command is held up by what is left of earlier runs.
const endLimit = 5 * time.Second

// EndOrphans ends what is left of a run whose tacho run and executor were both killed, and says so. A driver's tasks are
// those of its host, and some commands are there to see to orphans themselves.
func EndOrphans(cmd *cobra.Command) {
	for c := cmd; c != nil; c = c.Parent() {
		if slices.Contains([]string{"executors", "stop", "prune", "completion", "help"}, c.Name()) {
			return
		}
	}
	all, _ := client.List(client.DefaultRuntimeDir()) // what cannot be read is for tacho executors ls
	for _, address := range all {
		if address.AllocID != "" || client.Elsewhere(*address) || !isOrphan(cmd.Context(), address) {
			continue
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), endLimit)
		err := killExecutor(ctx, *address)
		cancel()
		if err == nil {
			err = lostExecutor(address.ID)
		}
		cli.PrintError(cmd.ErrOrStderr(), err)
	}
}

// isOrphan reports whether an executor and its owner are dead. One that is dying, or whose owner may be, is waited for: they
// were killed a moment ago.
func isOrphan(ctx context.Context, address *wire.Address) bool {
	const interval, limit = 10 * time.Millisecond, 300 * time.Millisecond
	for began := time.Now(); ; {
		alive := client.Alive(*address)
		switch {
		case alive && process.StateOf(kernel.HostFS(), address.Executor) == process.Alive:
			return false
		case !alive && !client.Owned(*address):
			// One that has ended as it should, since it was listed, has removed its folder before.
			left, err := wire.ReadAddress(address.Folder)
			return err == nil && left.Executor == address.Executor
		case time.Since(began) > limit:
			return false
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return false
		}
	}
}

// lostExecutor says what was done about a run.
func lostExecutor(run string) error {
	return fmt.Errorf("run %s had lost its executor; killed what was left of it", run)
}

// removeUnlaunched removes the directories of executors whose owners were killed before there was an executor. One that is
// about to write its address there fails.
func removeUnlaunched(runtimeDir string) error {
	dirs, err := client.Folders(runtimeDir)
	errs := []error{err}
	for _, dir := range dirs {
		if _, err := wire.ReadAddress(dir); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := client.RemoveAbandoned(dir); !errors.Is(err, client.ErrOwned) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
