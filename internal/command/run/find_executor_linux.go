// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// visit connects to the executor of a run.
func visit(ctx context.Context, entry record.Entry) (*client.Client, error) {
	address, err := addressOf(entry)
	if err != nil {
		return nil, err
	}
	return client.Visit(ctx, *address)
}

// isGone reports whether err of visit means that the executor does not exist any more.
func isGone(err error) bool {
	return errors.Is(err, client.ErrLost) || errors.Is(err, client.ErrOtherBoot)
}

// addressOf finds the address of the executor in a record, which a dead executor leaves behind; client.ErrLost if there
// is none. It does not compare the directory of the record, which may have been moved since.
func addressOf(entry record.Entry) (*wire.Address, error) {
	r := entry.Record
	if r.Executor == nil {
		return nil, fmt.Errorf("run %s: %w", entry.Name, client.ErrLost)
	}
	all, err := client.List(client.DefaultRuntimeDir())
	if address := addressBeside(r.Socket); address != nil {
		all = append(all, address)
	}
	who := procstats.ProcessID{PID: r.Executor.PID, Start: r.Executor.StartTicks}
	for _, address := range all {
		if address.Executor == who && address.BootID == r.BootID {
			return address, nil
		}
	}
	if rundir.CurrentState(r, kernel.HostFS()) == record.Running {
		return nil, errors.Join(fmt.Errorf("run %s is running, but its executor (process %d) is not in %s; it may belong to another user",
			entry.Name, who.PID, client.DefaultRuntimeDir()), err)
	}
	return nil, errors.Join(fmt.Errorf("run %s: %w", entry.Name, client.ErrLost), err)
}

// addressBeside reads the address in the directory of a socket. That is not our runtime directory if XDG_RUNTIME_DIR or
// TMPDIR has changed since. It returns nil if there is none, or if the directory is not our own.
func addressBeside(socket string) *wire.Address {
	dir := filepath.Dir(socket)
	if dirs, err := client.Folders(filepath.Dir(dir)); err != nil || !slices.Contains(dirs, dir) {
		return nil
	}
	address, err := wire.ReadAddress(dir)
	if err != nil {
		return nil
	}
	return address
}
