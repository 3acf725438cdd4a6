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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
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
