// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats/kernel"
)

// adoptLimit is how long a start that was under way when its host died may take until it has succeeded or failed.
const adoptLimit = 10 * time.Second

// AdoptTask makes a task known whose start was [TaskConfig.Persisted] and whose handle was not, and returns the handle.
// The error wraps [ErrTaskNotFound] if the task was not started; nothing of the start is left then.
func (d *Tacho) AdoptTask(ctx context.Context, config *TaskConfig) (*TaskHandle, error) {
	if err := d.reserve(config); err != nil {
		return nil, err
	}
	t, err := d.adopt(ctx, config)
	d.settle(config.ID, t)
	if err != nil {
		return nil, fmt.Errorf("adopt task %s: %w", config.Name, err)
	}
	return t.handle()
}

// configFile has what a task was started with, in its executor's directory.
const configFile = "task.json"

// writeConfig writes what a task is started with, which may have secrets, into the directory that is its user's alone.
func writeConfig(folder string, config *TaskConfig) error {
	text, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, configFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("persist configuration of task: %w", err)
	}
	return nil
}

// StartedTasks returns what the tasks were started with whose executors are there, for a host that has lost its own
// record.
func (d *Tacho) StartedTasks() ([]*TaskConfig, error) {
	folders, err := client.Folders(runtimeDir(d.currentConfig()))
	errs := []error{err}
	var all []*TaskConfig
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join(folder, configFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue // of another host, or not started yet
		}
		var config TaskConfig
		if err == nil {
			err = json.Unmarshal(text, &config)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read configuration of task: %w", err))
			continue
		}
		all = append(all, &config)
	}
	return all, errors.Join(errs...)
}

func (d *Tacho) adopt(ctx context.Context, config *TaskConfig) (*task, error) {
	ctx, cancel := context.WithTimeout(ctx, adoptLimit)
	defer cancel()
	address, err := findExecutor(ctx, filepath.Join(runtimeDir(d.currentConfig()), executorID(config)))
	if err != nil {
		return nil, err
	}
	t, err := d.reattach(ctx, config, stateAt(address))
	if errors.Is(err, client.ErrOtherBoot) {
		err = errors.Join(ErrTaskNotFound, err)
	}
	if err != nil || t.client == nil || t.client.Hello() == nil && address.Main.PID != 0 {
		return t, err
	}
	launched, err := t.client.AwaitLaunch(ctx)
	if err != nil {
		t.log.Warn("executor has not started its task; it is ended", "error", err)
		return nil, errors.Join(ErrTaskNotFound, t.client.Abandon())
	}
	t.state = stateOf(t.client, launched)
	t.warning = fmt.Sprintf("adopted: the executor process %d had started process %d", address.Executor.PID,
		launched.GetMain().GetPid())
	return t, nil
}

// stateAt is the state of a started task whose executor reports nothing more.
func stateAt(address *wire.Address) *driverState {
	return &driverState{Address: *address, Attributes: map[string]string{
		attrMain: strconv.Itoa(address.Main.PID), attrExecutor: strconv.Itoa(address.Executor.PID),
	}}
}

// findExecutor returns the address in an executor's directory. An executor that has just been started writes it soon,
// and one whose caller is gone removes the directory.
func findExecutor(ctx context.Context, folder string) (*wire.Address, error) {
	const interval = 10 * time.Millisecond
	for {
		address, err := wire.ReadAddress(folder)
		switch {
		case err == nil && (wire.FindSocket(folder) != "" || !client.Alive(*address)):
			return address, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: %w", ErrTaskNotFound, err)
		case wasShutDown(wire.Address{Folder: folder}):
			return nil, ErrTaskNotFound
		case ctx.Err() != nil:
			return nil, errors.Join(ErrTaskNotFound, sweep(folder))
		}
		pause(ctx, interval)
	}
}

// endEarlier ends what an earlier start of a task has left, such as one whose handle its host did not get to persist: a
// task is never adopted under another configuration, and never runs twice.
func (d *Tacho) endEarlier(ctx context.Context, config *TaskConfig) error {
	d.mu.Lock()
	earlier := d.starting[config.ID].earlier
	d.mu.Unlock()
	if err := await(ctx, "an earlier start", earlier...); err != nil {
		return err
	}
	folders, err := client.Folders(runtimeDir(d.currentConfig()))
	errs := []error{err}
	for _, folder := range folders {
		if !strings.HasPrefix(filepath.Base(folder), executorPrefix(config)) {
			continue
		}
		address, err := addressIn(folder)
		if address != nil && address.AllocID == config.AllocID && address.Task == config.Name {
			err = d.endTask(ctx, *address)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// endTask ends a task by its address: one that is known, and has ended, is its host's to destroy.
func (d *Tacho) endTask(ctx context.Context, address wire.Address) error {
	t := d.taskIn(address.Folder)
	switch {
	case t == nil:
		d.log.Warn("killed an earlier start of a task, whose host did not know of it", "executor", address.ID,
			"alloc_id", address.AllocID, "task", address.Task)
		return endExecutor(ctx, address)
	case d.hosts != nil && !t.confirmed.Load(): // the host does not know of it, and destroys it never
		t.log.Warn("killed an earlier start of a task, whose host did not know of it", "executor", address.ID)
		return d.DestroyTask(ctx, t.config.ID, true)
	case !t.running():
		return nil
	}
	t.log.Warn("task is started again while it runs; it is killed first", "executor", address.ID)
	kill, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	return t.stop(kill, syscall.SIGKILL, 0)
}

// KillOrphans kills every task in the runtime directory that this driver does not know, with its executor, and returns
// their names. It is for a host that has the directory for itself and was killed between the start of a task and
// keeping its handle; it is called when all tasks are recovered and before one is started. Those of the spared handles
// are left alone: the host could not recover them and may later.
func (d *Tacho) KillOrphans(ctx context.Context, spared ...*TaskHandle) (killed []string, err error) {
	addresses, err := d.listOrphans(ctx)
	errs := []error{err}
	known := make(map[string]bool)
	for _, handle := range spared {
		if state, err := decodeState(handle); err == nil { // others are of another driver, or of a start without a handle
			known[state.Address.Folder] = true
		} else if handle.DriverState == nil {
			known[filepath.Join(runtimeDir(d.currentConfig()), executorID(handle.Config))] = true
		}
	}
	for _, address := range addresses {
		if known[address.Folder] || d.taskIn(address.Folder) != nil {
			continue
		}
		if err := endExecutor(ctx, *address); err != nil {
			errs = append(errs, fmt.Errorf("kill orphan: %w", err))
			continue
		}
		killed = append(killed, address.ID)
	}
	return killed, errors.Join(errs...)
}

// endExecutor kills a task and ends its executor.
func endExecutor(ctx context.Context, address wire.Address) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	return client.End(ctx, address, syscall.SIGKILL, 0)
}

// endUnknown ends the executor of a task that this driver does not know: its host does not know either how the start
// went, since one of their processes died over it.
func (d *Tacho) endUnknown(ctx context.Context, id string) error {
	folders, err := client.Folders(runtimeDir(d.currentConfig()))
	i := slices.IndexFunc(folders, func(folder string) bool { return strings.HasSuffix(folder, executorSuffix(id)) })
	if i < 0 {
		return errors.Join(ErrTaskNotFound, err)
	}
	address, err := addressIn(folders[i])
	if address == nil {
		return err
	}
	d.log.Info("ended a task of which only its host knew", "executor", address.ID, "alloc_id", address.AllocID,
		"task", address.Task)
	return endExecutor(ctx, *address)
}

// listOrphans lists the runtime directory once no executor in it is about to launch its task: one whose caller was
// killed meanwhile has a moment to end by itself.
func (d *Tacho) listOrphans(ctx context.Context) ([]*wire.Address, error) {
	const patience, interval = 5 * time.Second, 20 * time.Millisecond
	for began := time.Now(); ; pause(ctx, interval) {
		overdue := time.Since(began) > patience
		folders, err := client.Folders(runtimeDir(d.currentConfig()))
		var addresses []*wire.Address
		errs, silent := []error{err}, false
		for _, folder := range folders {
			address, err := wire.ReadAddress(folder)
			switch {
			case err == nil:
				addresses = append(addresses, address)
			case !errors.Is(err, os.ErrNotExist):
				errs = append(errs, err)
			case overdue:
				errs = append(errs, sweep(folder))
			default:
				silent = true
			}
		}
		if err := errors.Join(errs...); err != nil || !silent || ctx.Err() != nil {
			return addresses, err
		}
	}
}

// addressIn returns the address in an executor's directory. It is nil if there is none: the start did not get so far,
// and the directory is removed.
func addressIn(folder string) (*wire.Address, error) {
	address, err := wire.ReadAddress(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, sweep(folder)
	}
	return address, err
}

// taskIn returns the task whose executor has a directory; nil if this driver knows none.
func (d *Tacho) taskIn(folder string) *task {
	all := d.list()
	if i := slices.IndexFunc(all, func(t *task) bool { return t.state.Address.Folder == folder }); i >= 0 {
		return all[i]
	}
	return nil
}

// sweep removes the directory of an executor without an address, unless it answers or has an owner.
func sweep(folder string) error {
	if kernel.Connect(wire.FindSocket(folder)) == nil {
		return nil
	}
	if err := client.RemoveAbandoned(folder); !errors.Is(err, client.ErrOwned) {
		return err
	}
	return nil
}

// confirmedFile, in the executor's directory, says that a host behind a wire knows of the task. It contains the path of
// the allocation's directory; earlier builds wrote nothing.
const confirmedFile = "confirmed"

// confirm notes that the host knows of a task: it recovers it, or waits for its end, which it does once it has
// persisted the handle.
func (d *Tacho) confirm(t *task) {
	if d.hosts == nil || t.confirmed.Swap(true) {
		return
	}
	if err := t.note(confirmedFile, []byte(t.config.AllocDir), "plugin.confirm"); err != nil {
		t.log.Warn("confirm start of task", "error", err)
	}
}

// note writes a file into the executor's directory; that of an executor that is gone needs none.
func (t *task) note(file string, text []byte, point string) error {
	err := failpoint.Err(point)
	if err == nil {
		err = os.WriteFile(filepath.Join(t.state.Address.Folder, file), text, 0o600)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// destroyedFile, in the executor's directory, says that the host has asked for the end of a task, and needs to know
// nothing of it any more.
const destroyedFile = "destroyed"

// markDestroyed is for a driver that dies before the executor is gone: its host may not ask again.
func (t *task) markDestroyed() {
	if err := t.note(destroyedFile, nil, "plugin.destroy"); err != nil {
		t.log.Warn("mark destroyed task", "error", err)
	}
}

func hasFile(folder, name string) bool {
	_, err := os.Lstat(filepath.Join(folder, name))
	return err == nil
}

// isRemoved reports whether a host has removed an allocation: its directory is gone, and the one above is there.
func isRemoved(allocDir string) bool {
	if allocDir == "" {
		return false
	}
	_, err := os.Lstat(allocDir)
	_, above := os.Lstat(filepath.Dir(allocDir))
	return errors.Is(err, fs.ErrNotExist) && above == nil
}

// endUnconfirmed ends the tasks that were started before a time and that no host knows of, or whose allocation the host
// has removed; with forget also the executors of ended tasks that a host knew of and has not asked for. It reports
// whether tasks run that a host knew of and has not recovered.
func (d *Tacho) endUnconfirmed(ctx context.Context, before time.Time, forget bool) (unclaimed bool) {
	// The wall clock may have been set since: the kernel counts the starts of processes from the boot.
	const tick = 10 * time.Millisecond
	newest := kernel.SinceBoot() - time.Since(before) - tick
	for _, t := range d.list() {
		if t.confirmed.Load() || kernel.Ticks(t.state.Address.Executor.Start) > newest {
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
		if isYounger(folder, newest) || d.taskIn(folder) != nil {
			continue
		}
		runs, err := d.endIfUnconfirmed(ctx, folder, before, forget)
		if err != nil {
			d.log.Error("end unconfirmed task", "directory", folder, "error", err)
		}
		unclaimed = unclaimed || runs
	}
	return unclaimed
}

// isYounger reports whether an executor was started later than a time since the boot. A directory without an address
// is young for a minute.
func isYounger(folder string, than time.Duration) bool {
	if address, err := wire.ReadAddress(folder); err == nil {
		return kernel.Ticks(address.Executor.Start) > than
	}
	info, err := os.Lstat(filepath.Join(folder, client.LockFile))
	return err != nil || time.Since(info.ModTime()).Abs() < confirmLimit
}

// endIfUnconfirmed ends an executor whose driver is gone, and of whose task no host ever knew, or whose host has
// removed the allocation, or whose driver died while it destroyed the task; with forget also if the task has ended.
// Those of tacho run have no allocation, and those of an agent were persisted. It reports whether the task is left
// running.
func (d *Tacho) endIfUnconfirmed(
	ctx context.Context, folder string, before time.Time, forget bool,
) (unclaimed bool, err error) {
	address, err := addressIn(folder)
	if address == nil || address.AllocID == "" || address.Persisted || client.Owned(*address) {
		return false, err
	}
	if found := client.Find(*address); found != nil && !client.IsGone(found) {
		return false, nil
	}
	running := kernel.Find(kernel.HostFS(), address.Home, address.Main, "") == nil
	ended := !running && (forget || hasFile(folder, destroyedFile))
	allocDir, err := os.ReadFile(filepath.Join(folder, confirmedFile))
	removed := isRemoved(string(allocDir))
	log := d.log.With("executor", address.ID, "alloc_id", address.AllocID, "task", address.Task)
	if !errors.Is(err, fs.ErrNotExist) && !ended && !removed {
		if running && time.Since(before) < 2*confirmLimit { // once a connection
			log.Warn("task runs although its host has connected again and has not recovered it; " +
				"it is killed when its allocation is removed")
		}
		return running, nil
	}
	log.Warn("task is killed: its host has connected again and has not recovered it", "allocation_removed", removed)
	return false, endExecutor(ctx, *address)
}
