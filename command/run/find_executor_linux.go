// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tachograph/tacho/command/rundir"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
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

// isGone reports whether an error of visit says that the executor is not there any more.
func isGone(err error) bool {
	return errors.Is(err, client.ErrLost) || errors.Is(err, client.ErrOtherBoot)
}

// addressOf finds the executor that a record names, or what it left behind; client.ErrLost where there is neither. The
// folder of the record says nothing: it has other paths too, and may have been moved.
func addressOf(entry record.Entry) (*wire.Address, error) {
	r := entry.Record
	if r.Executor == nil {
		return nil, fmt.Errorf("run %s: %w", entry.Name, client.ErrLost)
	}
	all, err := client.List(client.DefaultRuntimeDir())
	if address := keptAddress(r.Socket); address != nil {
		all = append(all, address)
	}
	who := procstats.ProcessID{PID: r.Executor.PID, Start: r.Executor.StartTicks}
	for _, address := range all {
		if address.Executor == who && address.BootID == r.BootID {
			return address, nil
		}
	}
	if rundir.StateOf(r, kernel.HostFS()) == record.Running {
		return nil, errors.Join(fmt.Errorf("run %s is running, but its executor, process %d, is not found in %s: is it another user's?",
			entry.Name, who.PID, client.DefaultRuntimeDir()), err)
	}
	return nil, errors.Join(fmt.Errorf("run %s: %w", entry.Name, client.ErrLost), err)
}

// keptAddress reads the address beside a socket, which is not in our runtime folder where XDG_RUNTIME_DIR or TMPDIR was
// another one then. It is nil where there is none, or not in a folder of our own.
func keptAddress(socket string) *wire.Address {
	folder := filepath.Dir(socket)
	if folders, err := client.Folders(filepath.Dir(folder)); err != nil || !slices.Contains(folders, folder) {
		return nil
	}
	address, err := wire.ReadAddress(folder)
	if err != nil {
		return nil
	}
	return address
}
