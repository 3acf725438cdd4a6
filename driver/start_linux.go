// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats"
)

// StartTask starts a task. An error that is worth another try has Recoverable() true: see [IsRecoverable].
func (d *Tacho) StartTask(ctx context.Context, config *TaskConfig) (*TaskHandle, error) {
	if !d.currentConfig().Enabled {
		err := fmt.Errorf("start task %s: %w (enabled = false in its configuration)", config.Name, ErrDisabled)
		return nil, Recoverable(err, false)
	}
	if err := d.reserve(config); err != nil {
		return nil, Recoverable(err, false)
	}
	t, err := d.start(ctx, config)
	d.settle(config.ID, t)
	if err != nil {
		return nil, fmt.Errorf("start task %s: %w", config.Name, err)
	}
	return t.handle()
}

// settle ends a reservation, and follows the task; t is nil where there is no task after all.
func (d *Tacho) settle(id string, t *task) {
	if t != nil {
		t.follow(d.ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.starting[id].settled)
	delete(d.starting, id)
	if t != nil {
		d.tasks[id] = t
	}
}

// handle identifies the task for recovery.
func (t *task) handle() (*TaskHandle, error) {
	state, err := t.state.encode()
	if err != nil {
		return nil, err
	}
	return &TaskHandle{Version: HandleVersion, Config: t.config, State: TaskRunning, DriverState: state}, nil
}

func (d *Tacho) start(ctx context.Context, config *TaskConfig) (*task, error) {
	own := d.currentConfig()
	block, err := config.block()
	if err != nil {
		return nil, Recoverable(err, false)
	}
	if err := checkUser(config.User, own); err != nil {
		return nil, Recoverable(err, false)
	}
	request, err := d.launchRequest(config, block, own)
	if err != nil {
		return nil, Recoverable(err, false)
	}
	failpoint.At("driver.start.begin")
	if err := d.endEarlier(ctx, config); err != nil {
		// Two of them must not run at the same time.
		return nil, Recoverable(err, true)
	}
	c, launched, err := d.launch(ctx, own, config, request)
	if err != nil {
		return nil, err
	}
	state := stateOf(c, launched)
	state.SamplingBudget = request.GetSamplingBudget()
	maps.Copy(state.Attributes, logAttributes(request.GetStdio().GetLogs()))
	if mhz := d.CoreMHz(); mhz > 0 {
		state.Attributes[record.CoreMHzAnnotation] = strconv.FormatFloat(mhz, 'f', 0, 64)
	}
	return d.newTask(config, c, state), nil
}

// stateOf is the state of a task that has been started.
func stateOf(c *client.Client, launched *proto.LaunchResponse) *driverState {
	return &driverState{
		Address:    c.Address(),
		StartedAt:  time.Unix(0, launched.GetStartedAtUnixNs()),
		Attributes: attributesOf(c.Address().Executor, launched),
	}
}

// launch starts an executor with a task.
func (d *Tacho) launch(
	ctx context.Context, own Config, config *TaskConfig, request *proto.LaunchRequest,
) (*client.Client, *proto.LaunchResponse, error) {
	defer d.starts.acquire(ctx)()
	// A host behind a wire opens a stream of each task; one in this process says whether it does.
	counted := config.Sampled || d.hosts != nil
	if counted {
		defer d.loop.Load()()
	}
	c, err := client.Start(ctx, client.Options{
		Waits:  d.waits,
		Binary: d.binary, RuntimeDir: runtimeDir(own), ID: request.GetId(),
		Owner: wire.Owner{AllocID: config.AllocID, Task: config.Name, Persisted: config.Persisted},
	})
	if err != nil {
		// A machine that is out of memory or processes now may have some later.
		return nil, nil, Recoverable(err, true)
	}
	failpoint.At("driver.start.executor")
	if config.Persisted {
		if err := writeConfig(c.Address().Folder, config); err != nil {
			d.log.Warn("task cannot be adopted if the state of its host is lost", "task", config.Name,
				"alloc_id", config.AllocID, "error", err)
		}
	}
	limited, cancel := context.WithTimeoutCause(ctx, d.patience.launch, ErrSilent)
	defer cancel()
	launched, err := d.launchCounted(limited, c, config, request, counted)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("%w: process %d, within %s", ErrSilent, c.Address().Executor.PID, d.patience.launch)
	}
	failpoint.At("driver.start.launched")
	if err == nil && !config.Persisted {
		// Before the host is answered: from then on it may recover the task, whichever process dies.
		err = c.Confirm(ctx)
		failpoint.At("plugin.start.confirmed")
	}
	if err == nil {
		return c, launched, nil
	}
	d.loop.Forget(config.ID)
	if left := c.Abandon(); left != nil {
		d.log.Error("end executor without a task", "error", left)
	}
	return nil, nil, launchError(err)
}

// launchCounted starts the task, and counts its processes and packets from the first one on if that is wanted.
func (d *Tacho) launchCounted(
	ctx context.Context, c *client.Client, config *TaskConfig, request *proto.LaunchRequest, counted bool,
) (*proto.LaunchResponse, error) {
	if !counted {
		return c.Launch(ctx, request)
	}
	return c.LaunchAnnounced(ctx, request, func(cgroup procstats.Cgroup) {
		d.loop.Count(config.ID, cgroup, wire.ToSelection(request.GetSelection()).HasSource(procstats.SourceSkb))
		failpoint.At("driver.start.announced")
	})
}

func (d *Tacho) newTask(config *TaskConfig, c *client.Client, state *driverState) *task {
	return &task{
		config: config, state: state, client: c, loop: d.loop, patience: d.patience,
		events: d.events, passed: make(chan struct{}), done: make(chan struct{}), announced: make(chan struct{}),
		log: d.log.With("task", config.Name, "alloc_id", config.AllocID),
	}
}

// FindRuntimeDir returns the default of a runtime directory, with so many bytes of its path to spare.
func FindRuntimeDir(spare int) (string, error) { return client.FindRuntimeDir("", longestID+spare) }

// runtimeDir returns the directory for executors, empty if there is none. One that is full is not replaced by another:
// what it holds must be found.
func runtimeDir(c Config) string {
	if c.RuntimeDir != "" {
		return c.RuntimeDir
	}
	dir, _ := FindRuntimeDir(0) // a start reports the error
	return dir
}

// launchError is what the executor has against a task. Only a machine short of something is worth another try.
func launchError(err error) error {
	if _, known := IsRecoverable(err); err == nil || known {
		return err
	}
	s, ok := status.FromError(err)
	if !ok || errors.Is(err, client.ErrLost) {
		return Recoverable(err, true)
	}
	text := errors.New(s.Message())
	switch s.Code() {
	case codes.ResourceExhausted, codes.Unavailable:
		return Recoverable(text, true)
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	}
	return Recoverable(text, false)
}

// RecoverTask recovers a task that was started earlier, perhaps by another process. It does nothing for a task that is
// known already. After [ErrUnavailable] the task may be alive, and it is tried again; after any other error the handle
// leads to no task.
func (d *Tacho) RecoverTask(ctx context.Context, handle *TaskHandle) error {
	config := handle.Config
	if t, err := d.find(config.ID); err == nil {
		d.confirm(t)
		return nil
	}
	state, err := decodeState(handle)
	if err != nil {
		return err
	}
	if err := d.reserve(config); err != nil {
		return err
	}
	failpoint.At("driver.recover")
	t, err := d.recover(ctx, config, state)
	d.settle(config.ID, t)
	if err != nil {
		return fmt.Errorf("recover task %s: %w", config.Name, err)
	}
	d.confirm(t)
	return nil
}

func (d *Tacho) recover(ctx context.Context, config *TaskConfig, state *driverState) (*task, error) {
	t, err := d.reattach(ctx, config, state)
	if err != nil || t.client == nil {
		return t, err
	}
	t.recoveredAt = time.Now()
	if hello := t.client.Hello(); hello.GetState() == proto.TaskState_TASK_STATE_RUNNING {
		t.log.Info("recovered", "pid", state.Attributes[attrMain], "executor", state.Address.Executor.PID,
			"version", hello.GetBuild())
	}
	return t, nil
}

// reattach returns a task that an earlier process has started; it has ended if its executor is gone.
func (d *Tacho) reattach(ctx context.Context, config *TaskConfig, state *driverState) (*task, error) {
	c, err := client.Reattach(ctx, state.Address, d.waits)
	if errors.Is(err, client.ErrOwned) && d.hosts != nil { // the host has started this process in place of the owner
		d.log.Warn("kill the plugin that had the task and did not answer its host", "executor", state.Address.ID)
		if err = client.EndOwner(ctx, state.Address); err == nil {
			c, err = client.Reattach(ctx, state.Address, d.waits)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, client.ErrLost) && (state.Address.Main.PID == 0 || wasShutDown(state.Address)):
		// Hosts keep handles of tasks that they have destroyed.
		return nil, fmt.Errorf("its executor was shut down: %s: %w", state.Address.Folder,
			errors.Join(ErrTaskNotFound, client.KillTask(ctx, state.Address)))
	case errors.Is(err, client.ErrLost):
		return d.recoverLost(ctx, config, state), nil
	case errors.Is(err, client.ErrOtherBoot):
		// Signals nothing, since all that was is gone: it only removes the directory.
		return nil, errors.Join(err, client.KillTask(ctx, state.Address))
	default:
		// The executor may be alive, and its task too.
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	t := d.newTask(config, c, state)
	if c.Hello() == nil {
		const text = "recovered: executor process %d is alive and does not respond"
		t.warning = fmt.Sprintf(text, state.Address.Executor.PID)
	}
	return t, nil
}

// wasShutDown reports whether an executor has ended as it should: it takes its directory with it, and one that was
// killed leaves it behind.
func wasShutDown(address wire.Address) bool {
	_, err := os.Lstat(address.Folder)
	return errors.Is(err, fs.ErrNotExist) && !client.Alive(address)
}

// WaitTask returns when the task has ended, to any number of callers and also afterwards. A host that listens to
// events is told of the end when it has those of the task: what comes later it drops.
func (d *Tacho) WaitTask(ctx context.Context, id string) (*ExitResult, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	d.confirm(t)
	failpoint.At("driver.wait")
	select {
	case <-t.announced:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-d.ctx.Done():
		return nil, errClosedWait()
	}
	if t.running() {
		return nil, errClosedWait()
	}
	return new(*t.exit), nil
}

func errClosedWait() error { return fmt.Errorf("wait: driver is closed: %w", ErrUnavailable) }

// StopTask sends a signal (a name such as SIGTERM; SIGINT if empty), waits up to timeout, kills what is left, and
// returns when nothing of the task is left.
func (d *Tacho) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	number := defaultStopSignal
	if signal != "" {
		if number, err = parseSignal(signal); err != nil {
			return err
		}
	}
	failpoint.At("driver.stop")
	return t.stop(ctx, number, timeout)
}

// DestroyTask forgets a task. A running one is [ErrTaskRunning], or killed with force. With force it ends a task
// that this driver does not know as well, if its executor is there.
func (d *Tacho) DestroyTask(ctx context.Context, id string, force bool) error {
	t, err := d.settled(ctx, id)
	if force && errors.Is(err, ErrTaskNotFound) {
		return d.endUnknown(ctx, id)
	}
	if err != nil {
		return err
	}
	t.destroying.Lock()
	defer t.destroying.Unlock()
	if _, err := d.find(id); err != nil {
		return err
	}
	if t.running() {
		if !force {
			return fmt.Errorf("destroy task %s: %w; stop it first, or use force", t.config.Name, ErrTaskRunning)
		}
		kill, cancel := context.WithTimeout(ctx, 2*killTimeout+shutdownTimeout) // which is time for a silent executor too
		defer cancel()
		if err := t.stop(kill, syscall.SIGKILL, 0); err != nil {
			return err
		}
	}
	if d.hosts != nil {
		t.markDestroyed()
	}
	failpoint.At("driver.destroy")
	if err := t.release(ctx); err != nil {
		// The task is gone; what is left are an executor without one, and its directory.
		t.log.Error("release executor", "error", err)
	}
	d.mu.Lock()
	delete(d.tasks, id)
	d.mu.Unlock()
	return nil
}

// InspectTask returns what is known of a task.
func (d *Tacho) InspectTask(_ context.Context, id string) (*TaskStatus, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	s := &TaskStatus{
		ID: t.config.ID, Name: t.config.Name, State: TaskRunning,
		StartedAt: t.state.StartedAt, Attributes: maps.Clone(t.state.Attributes),
	}
	if !t.running() {
		s.State, s.CompletedAt, s.Exit = TaskExited, t.completedAt, new(*t.exit)
	}
	return s, nil
}

// SignalTask sends a signal by name to the task's main process.
func (d *Tacho) SignalTask(ctx context.Context, id, signal string) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	number, err := parseSignal(signal)
	if err != nil {
		return err
	}
	err = ErrTaskNotRunning
	if t.running() {
		if err = t.answers(ctx); err == nil {
			err = t.client.Signal(ctx, number, false)
		}
	}
	if status.Code(err) == codes.NotFound || errors.Is(err, client.ErrLost) {
		err = ErrTaskNotRunning
	}
	if err != nil {
		return fmt.Errorf("signal task %s: %w", t.config.Name, err)
	}
	return nil
}

// FinalRecord returns the final record of an ended task that was not destroyed yet. That of a task whose executor was
// lost has what its cgroup counted; it is nil if the task had none.
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

// Commands returns what the ended processes of a task used, so far if it runs; nil if they are not counted.
func (d *Tacho) Commands(id string) (*record.Commands, error) {
	t, err := d.find(id)
	if err == nil {
		return t.commands(), nil
	}
	if c := d.loop.CommandsSoFar(id, time.Time{}); c != nil { // of a cgroup that is watched
		return c, nil
	}
	return nil, err
}

// commands is what the ended processes of a task used, or why they are not counted: so far if it runs; nil if its
// record is lost.
func (t *task) commands() *record.Commands {
	if t.running() {
		if c := t.loop.CommandsSoFar(t.config.ID, t.state.StartedAt); c != nil {
			return c
		}
		return &record.Commands{Rows: []procstats.Command{}, Reason: t.whyUncounted()}
	}
	if t.final == nil {
		return nil
	}
	return t.final.Commands
}
