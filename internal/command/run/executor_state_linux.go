// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// executorState is the state of an executor, see tacho executors ls.
type executorState string

const (
	stateStarting executorState = "starting"
	stateRunning  executorState = "running"
	stateEnded    executorState = "ended"
	stateOrphan   executorState = "orphan"
	// stateElsewhere is of an executor that cannot be seen from here.
	stateElsewhere executorState = "elsewhere"
)

// listed is an executor in a list.
type listed struct {
	*wire.Address
	State executorState `json:"state"`
	// OwnerText says whose task it is, and Connected whether the owner's process is there.
	OwnerText string `json:"owner"`
	Connected bool   `json:"connected"`
	// Since is when the executor was started.
	Since time.Time `json:"started_at"`
	// Where is where it is if that is elsewhere.
	Where string `json:"where,omitempty"`
	// Remedy is a command to get rid of it; empty if nothing is wrong.
	Remedy string `json:"remedy,omitempty"`
}

// lookIn looks at the executors in runtime directories. Those of other users are skipped.
func lookIn(runtimeDirs ...string) (all []*listed, err error) {
	var errs []error
	for i, dir := range runtimeDirs {
		if slices.Contains(runtimeDirs[:i], dir) {
			continue
		}
		folders, err := client.Folders(dir)
		if !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
		for _, folder := range folders {
			l, err := look(folder)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			all = append(all, l)
		}
	}
	return all, errors.Join(errs...)
}

// look looks at the directory of an executor. One without an address is of an executor that was killed before it could
// write one.
func look(folder string) (*listed, error) {
	address, err := wire.ReadAddress(folder)
	if errors.Is(err, fs.ErrNotExist) {
		address, err = &wire.Address{ID: filepath.Base(folder), Folder: folder}, nil
	}
	if err != nil {
		return nil, err
	}
	l := &listed{Address: address, Connected: client.Owned(*address), OwnerText: "tacho run"}
	// The lock of an executor is never written to.
	if info, err := os.Lstat(filepath.Join(folder, client.LockFile)); err == nil {
		l.Since = info.ModTime()
	}
	if address.AllocID != "" {
		l.OwnerText = fmt.Sprintf("task %s of allocation %.8s", address.Task, address.AllocID)
	}
	if !l.Connected {
		l.OwnerText = "(" + l.OwnerText + ")"
	}
	found := client.Find(*address)
	where, isElsewhere := errors.AsType[kernel.ElsewhereError](found)
	reachable := found == nil && cmp.Or(address.Socket, wire.FindSocket(folder)) != ""
	switch {
	case isElsewhere:
		l.State, l.Where = stateElsewhere, where.Error()
	case !reachable && !l.Connected:
		l.State, l.Remedy = stateOrphan, "tacho executors kill "+address.ID
	case address.Main.PID == 0:
		l.State = stateStarting
	case kernel.Find(kernel.HostFS(), address.Home, address.Main, "") == nil:
		l.State = stateRunning
	default:
		l.State = stateEnded
		if !l.Connected {
			l.Remedy = "start its owner, or tacho executors kill " + address.ID
		}
	}
	return l, nil
}

// kill ends the executor with its task, whatever its state is.
func (l *listed) kill(ctx context.Context) error {
	if l.BootID == "" { // nothing but a directory
		return client.RemoveAbandoned(l.Folder)
	}
	return killExecutor(ctx, *l.Address)
}

const (
	// killLimit bounds how long the end of an executor may take, and killGrace that of its task.
	killLimit = 20 * time.Second
	killGrace = 5 * time.Second
)

// killExecutor stops the task of an executor and then the executor, or kills what a dead executor left.
func killExecutor(ctx context.Context, address wire.Address) error {
	ctx, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	var reported error
	if errors.Is(client.Find(address), client.ErrLost) {
		reported = killReported(address) // the rest is killed all the same
	}
	if err := client.End(ctx, address, 0, killGrace); err != nil || address.RecordDir == "" {
		return errors.Join(reported, err)
	}
	failpoint.At("run.orphan.killed")
	// An executor that ended normally has completed its record. A record that could not be read is an error already.
	if err := markLost(address.RecordDir, time.Time{}); reported == nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return reported
}

// visit connects to the executor of a run.
func visit(ctx context.Context, entry record.Entry) (*client.Client, error) {
	address, err := addressOf(entry)
	if err != nil {
		return nil, err
	}
	return client.Visit(ctx, *address)
}

// addressOf finds the address of the executor in a record, which a dead executor leaves behind; otherwise
// client.ErrLost. It does not compare the directory of the record, which may have been moved since.
func addressOf(entry record.Entry) (*wire.Address, error) {
	r := entry.Record
	if r.Executor == nil {
		return nil, fmt.Errorf("run %s: %w", entry.Name, client.ErrLost)
	}
	// The socket is in none of our runtime directories if XDG_RUNTIME_DIR or TMPDIR has changed since.
	dirs := client.ExistingRuntimeDirs(filepath.Dir(filepath.Dir(r.Socket)))
	all, err := lookIn(dirs...)
	who := procstats.ProcessID{PID: r.Executor.PID, Start: r.Executor.StartTicks}
	for _, l := range all {
		if l.Executor == who && l.BootID == r.BootID {
			return l.Address, nil
		}
	}
	why := fmt.Errorf("run %s: %w", entry.Name, client.ErrLost)
	rundir.UpdateState(r, kernel.HostFS())
	switch {
	case r.Where != "":
		why = fmt.Errorf("run %s is %s", entry.Name, r.Where)
	case r.State == record.Running && r.Socket == "":
		why = fmt.Errorf("run %s is a watch of what runs already, or about to start; Ctrl-C, or kill -INT %d, ends it",
			entry.Name, who.PID)
	case r.State == record.Running:
		why = fmt.Errorf("run %s is running, but its executor (process %d) is not in %s; it may belong to another user",
			entry.Name, who.PID, cli.OrList(dirs))
	}
	return nil, errors.Join(why, err)
}
