// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tachograph/tacho/errlist"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
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
	return errlist.Join(append(errs, removeUnlaunched(client.DefaultRuntimeDir(), time.Now()))...)
}

// unlaunchedAge is the age at which the directory of an executor without a task counts as abandoned. An executor exits
// long before if nobody launches a task.
const unlaunchedAge = time.Minute

// removeUnlaunched removes the directories of executors whose owners were killed before they launched a task.
func removeUnlaunched(runtimeDir string, now time.Time) error {
	dirs, err := client.Folders(runtimeDir)
	errs := []error{err}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || now.Sub(info.ModTime()) < unlaunchedAge {
			continue
		}
		if _, err := wire.ReadAddress(dir); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := client.RemoveAbandoned(dir); !errors.Is(err, client.ErrOwned) {
			errs = append(errs, err)
		}
	}
	return errlist.Join(errs...)
}
