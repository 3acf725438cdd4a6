// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
)

// FinalRecord returns the final record of an ended task that was not destroyed yet; nil where its executor was lost.
func (d *Tacho) FinalRecord(id string) (*record.Record, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	if t.running() {
		return nil, ErrTaskRunning
	}
	return t.final, nil
}

// KillStrays kills every task in the runtime folder that this driver does not know, with its executor, and returns
// their names. It is for a host that has the folder for itself and was killed between the start of a task and
// keeping its handle; it is called when all tasks are recovered and before one is started.
func (d *Tacho) KillStrays(ctx context.Context) (killed []string, err error) {
	addresses, err := d.listStrays(ctx)
	errs := []error{err}
	known := make(map[string]bool)
	for _, t := range d.list() {
		known[t.state.Address.Folder] = true
	}
	for _, address := range addresses {
		if known[address.Folder] {
			continue
		}
		if err := killStray(ctx, *address); err != nil {
			errs = append(errs, fmt.Errorf("kill stray %s: %w", address.ID, err))
			continue
		}
		killed = append(killed, address.ID)
	}
	return killed, errors.Join(errs...)
}

// listStrays lists the runtime folder once no executor in it is about to launch its task: one whose caller was killed
// meanwhile has a moment to end by itself.
func (d *Tacho) listStrays(ctx context.Context) ([]*wire.Address, error) {
	const patience, interval = 5 * time.Second, 20 * time.Millisecond
	dir := runtimeDir(d.currentConfig())
	for began := time.Now(); ; pause(ctx, interval) {
		addresses, err := client.List(dir)
		folders, readErr := os.ReadDir(dir)
		if errors.Is(readErr, fs.ErrNotExist) {
			readErr = nil
		}
		if err = errors.Join(err, readErr); err != nil || ctx.Err() != nil {
			return addresses, err
		}
		if len(addresses) == len(folders) {
			return addresses, nil
		}
		if time.Since(began) > patience {
			return addresses, sweep(dir, folders, addresses)
		}
	}
}

// sweep removes the folders of executors that have no address and do not answer.
func sweep(dir string, folders []os.DirEntry, addresses []*wire.Address) error {
	var errs []error
	for _, folder := range folders {
		path := filepath.Join(dir, folder.Name())
		if slices.ContainsFunc(addresses, func(a *wire.Address) bool { return a.Folder == path }) || answers(path) {
			continue
		}
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// answers reports whether a process listens on a socket in an executor's folder.
func answers(folder string) bool {
	sockets, err := filepath.Glob(filepath.Join(folder, "plugin*"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(sockets, func(path string) bool {
		conn, err := net.DialTimeout("unix", path, time.Second)
		return err == nil && conn.Close() == nil
	})
}

func killStray(ctx context.Context, address wire.Address) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	c, err := client.Reattach(ctx, address)
	switch {
	case errors.Is(err, client.ErrLost), errors.Is(err, client.ErrOtherBoot):
		return client.KillTask(ctx, address)
	case err != nil:
		return err
	}
	// Stop fails where the task has ended, and Shutdown where it has not.
	if err := errors.Join(c.Stop(ctx, syscall.SIGKILL, 0), c.Shutdown(ctx)); err != nil && client.Alive(address) {
		return errors.Join(err, c.Close())
	}
	return errors.Join(c.Close(), os.RemoveAll(address.Folder))
}
