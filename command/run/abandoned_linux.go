// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
)

// clearStrays kills what dead executors left whose callers are gone as well. What somebody still owns is theirs.
func clearStrays(ctx context.Context) error {
	all, err := client.List(client.DefaultRuntimeDir())
	errs := []error{err}
	for _, address := range all {
		if client.Alive(*address) || client.Owned(*address) {
			continue
		}
		errs = append(errs, killExecutor(ctx, *address))
	}
	return errors.Join(append(errs, sweep(client.DefaultRuntimeDir(), time.Now()))...)
}

// unlaunchedAge is how old the folder of an executor without a task is when it is taken for abandoned: by itself none
// waits as long for one.
const unlaunchedAge = time.Minute

// sweep removes the folders of executors whose callers were killed before there was a task.
func sweep(runtimeDir string, now time.Time) error {
	folders, err := client.Folders(runtimeDir)
	errs := []error{err}
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err != nil || now.Sub(info.ModTime()) < unlaunchedAge {
			continue
		}
		if _, err := wire.ReadAddress(folder); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := client.RemoveAbandoned(folder); !errors.Is(err, client.ErrOwned) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
