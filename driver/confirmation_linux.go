// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
)

// confirmedFile, in the executor's folder, says that a host behind a wire knows of the task.
const confirmedFile = "confirmed"

// confirm notes that the host knows of a task: it recovers it, or waits for its end, which it does once it has persisted
// the handle.
func (d *Tacho) confirm(t *task) {
	if d.watch == nil || t.confirmed.Swap(true) {
		return
	}
	err := os.WriteFile(filepath.Join(t.state.Address.Folder, confirmedFile), nil, 0o600)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.log.Warn("confirm start of task", "error", err)
	}
}

func isConfirmed(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, confirmedFile))
	return err == nil
}

// endUnconfirmed ends the tasks that were started before a time and that no host knows of.
func (d *Tacho) endUnconfirmed(ctx context.Context, before time.Time) {
	known := make(map[string]bool)
	for _, t := range d.list() {
		known[t.state.Address.Folder] = true
		if t.confirmed.Load() || t.state.StartedAt.After(before) {
			continue
		}
		t.log.Warn("task is killed: its host has connected again and does not know of it", "executor", t.state.Address.ID)
		if err := d.DestroyTask(ctx, t.config.ID, true); err != nil {
			t.log.Error("end unconfirmed task", "error", err)
		}
	}
	folders, err := client.Folders(runtimeDir(d.currentConfig()))
	if err != nil {
		d.log.Error("list executors", "error", err)
	}
	for _, folder := range folders {
		info, err := os.Lstat(filepath.Join(folder, client.LockFile))
		if err != nil || !info.ModTime().Before(before) || known[folder] {
			continue
		}
		if err := d.endIfUnconfirmed(ctx, folder); err != nil {
			d.log.Error("end unconfirmed task", "directory", folder, "error", err)
		}
	}
}

// endIfUnconfirmed ends an executor whose driver is gone, and of whose task no host ever knew. Those of tacho run have no
// allocation, and those of an agent were persisted.
func (d *Tacho) endIfUnconfirmed(ctx context.Context, folder string) error {
	address, err := wire.ReadAddress(folder)
	if errors.Is(err, os.ErrNotExist) { // its driver was killed before there was an executor
		return sweep([]string{folder})
	}
	if err != nil || address.AllocID == "" || address.Persisted || isConfirmed(folder) || client.Owned(*address) {
		return err
	}
	d.log.Warn("task is killed: its host has connected again and has not recovered it", "after", confirmLimit, "executor", address.ID,
		"alloc_id", address.AllocID, "task", address.Task)
	return endExecutor(ctx, *address)
}
