// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Hello implements proto.ExecutorServer.
func (e *Executor) Hello(_ context.Context, request *proto.HelloRequest) (*proto.HelloResponse, error) {
	if request.GetProtocolMax() < wire.ProtocolMin || request.GetProtocolMin() > wire.ProtocolMax {
		return nil, status.Errorf(codes.FailedPrecondition,
			"no common protocol version: this executor (%s) speaks %d to %d, its caller (%s) %d to %d",
			e.build, wire.ProtocolMin, wire.ProtocolMax, request.GetBuild(), request.GetProtocolMin(), request.GetProtocolMax())
	}
	e.on(onCall)
	response := &proto.HelloResponse{
		ProtocolMin: wire.ProtocolMin, ProtocolMax: wire.ProtocolMax, Build: e.build, BootId: e.home.BootID,
		Executor: wire.FromProcessID(e.self), State: proto.TaskState_TASK_STATE_PENDING,
	}
	if t := e.current(); t != nil {
		response.Launched, response.State, response.Events = t.launched, proto.TaskState_TASK_STATE_RUNNING, e.journal.Last()
		select {
		case <-t.gone:
			response.State = proto.TaskState_TASK_STATE_EXITED
		default:
		}
	}
	return response, nil
}

// Launch implements proto.ExecutorServer.
func (e *Executor) Launch(ctx context.Context, request *proto.LaunchRequest) (*proto.LaunchResponse, error) {
	return e.launchTask(ctx, request, func(*task) {})
}

// LaunchAnnounced implements proto.ExecutorServer.
func (e *Executor) LaunchAnnounced(
	stream grpc.BidiStreamingServer[proto.LaunchAnnouncedRequest, proto.LaunchAnnouncedResponse],
) error {
	request, err := stream.Recv()
	if err != nil {
		return err
	}
	launched, err := e.launchTask(stream.Context(), request.GetLaunch(), func(t *task) {
		// A caller that is gone is seen by the context, and one that comes back finds the task started.
		if stream.Send(&proto.LaunchAnnouncedResponse{Cgroup: t.cgroup()}) == nil {
			_, _ = stream.Recv()
		}
	})
	if err != nil {
		return err
	}
	return stream.Send(&proto.LaunchAnnouncedResponse{Launched: launched})
}

// launchTask starts the task. announce is called when it has its cgroup and no process yet.
func (e *Executor) launchTask(
	ctx context.Context, request *proto.LaunchRequest, announce func(*task),
) (*proto.LaunchResponse, error) {
	switch now, ok := e.on(onLaunch); {
	case ok:
	case now == ending:
		return nil, status.Error(codes.Unavailable, "this executor exits")
	default:
		return nil, status.Error(codes.FailedPrecondition, "Launch was called before; an executor accepts it once")
	}
	defer close(e.decided)
	// A caller that gives up does not know of the task.
	defer context.AfterFunc(ctx, e.callerIsGone)()
	t, c, err := e.prepare(request)
	if err == nil {
		err = e.startTask(t, c, announce)
	}
	if err != nil {
		e.on(onFailed)
		return nil, err
	}
	_ = unix.Chdir("/") // what the task has inherited is not held longer than by the task
	e.mu.Lock()
	e.task, e.withTask = t, request.GetExitWithTask()
	e.mu.Unlock()
	now, _ := e.on(onStarted)
	e.work.Go(func() {
		if t.recorder.interval > 0 {
			defer e.gc.streaming()()
		}
		t.run(e.life)
		e.on(onTaskGone)
		close(t.released)
	})
	if now == killing {
		stopUnconfirmed(t)
	}
	if fd := request.GetLeashFd(); fd > 0 {
		e.holdLeash(int(fd), t)
	}
	if e.folder != "" { // after the start, whose files replace each other: each removal of a file is a signal
		if err := e.watchFolder(); err != nil {
			e.log.Debug("an executor whose directory is removed stays", "error", err)
		}
		// Of a directory without room for it, the task takes precedence.
		if err := e.notifier.open(e.folder); err != nil {
			e.log.Warn("owner has to stay connected", "error", err)
		}
	}
	e.gc.launched()
	e.work.Go(func() { e.settle(e.life) })
	failpoint.At("executor.launch.done")
	return t.launched, nil
}

// holdLeash stops the task when the caller's end of the pipe is closed, which the kernel does however it died, and
// ends the executor with it.
func (e *Executor) holdLeash(fd int, t *task) {
	// A blocking descriptor would hold a thread; the runtime's poller wakes us instead.
	if err := unix.SetNonblock(fd, true); err != nil {
		e.log.Error("hold the leash", "error", err)
	}
	// The one File of the descriptor: another would close it when it is collected.
	leash := os.NewFile(uintptr(fd), "leash")
	e.work.Go(func() {
		<-e.ctx.Done()
		_ = leash.Close() // only ends the read below
	})
	e.work.Go(func() {
		buffer := make([]byte, 1)
		for {
			if _, err := leash.Read(buffer); err != nil {
				break
			}
		}
		e.endWith(onEnd, t.killGrace(), func(t *task) {
			t.stop(record.Stopped, "the process that started it is gone", 0, t.killGrace())
		})
	})
}

// writeTask writes where later callers find a task: its main process, zero before the fork, and its cgroup.
func (e *Executor) writeTask(q *proto.LaunchRequest, main procstats.ProcessID, c procstats.Cgroup, owned bool) error {
	return e.writeAddress(&wire.Address{
		ID: q.GetId(), Socket: e.listensAt, Main: main, Cgroup: c, Owned: owned,
		RecordDir: q.GetRecord().GetDir(), Command: procstats.EscapeNames(q.GetCommandLine()),
	})
}

// writeAddress writes an address with what is known of this executor, unless that is what it has written last: the
// start of a task calls it at each step.
func (e *Executor) writeAddress(a *wire.Address) error {
	if e.folder == "" {
		return nil
	}
	a.Owner, a.Folder = e.owner, e.folder
	a.Home, a.Executor, a.Session = e.home, e.self, e.session
	if a.AllocID != "" { // an agent and its handles are of one machine
		a.Machine = kernel.MachineID()
	}
	if reflect.DeepEqual(*a, e.address) {
		return nil
	}
	err := a.Write()
	if err == nil {
		e.address = *a
	}
	return err
}

// Wait implements proto.ExecutorServer.
func (e *Executor) Wait(ctx context.Context, _ *proto.WaitRequest) (*proto.WaitResponse, error) {
	t, err := e.live()
	if err != nil {
		return nil, err
	}
	if err := await(ctx, t.gone); err != nil {
		return nil, err
	}
	text, err := json.Marshal(t.final)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "encode the record: %v", err)
	}
	return &proto.WaitResponse{Exit: t.exit, Record: text}, nil
}

// Signal implements proto.ExecutorServer.
func (e *Executor) Signal(_ context.Context, request *proto.SignalRequest) (*proto.SignalResponse, error) {
	t, err := e.live()
	if err != nil {
		return nil, err
	}
	signal := unix.Signal(request.GetSignal())
	if signal <= 0 || signal > 64 {
		return nil, status.Errorf(codes.InvalidArgument, "signal %d: not a signal number", request.GetSignal())
	}
	if err := t.forward(signal, request.GetGroup()); err != nil {
		if errors.Is(err, process.ErrGone) {
			return nil, status.Error(codes.NotFound, err.Error())
		}
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &proto.SignalResponse{}, nil
}

// Stop implements proto.ExecutorServer.
func (e *Executor) Stop(ctx context.Context, request *proto.StopRequest) (*proto.StopResponse, error) {
	if now, _ := e.on(onStop); now == launching || now == canceled {
		if err := await(ctx, e.decided); err != nil { // the start is given up, or its task is stopped
			return nil, err
		}
	}
	t, err := e.live()
	if err != nil {
		return nil, err
	}
	select {
	case <-t.gone:
		return &proto.StopResponse{}, nil
	default:
	}
	t.stop(record.Stopped, "", unix.Signal(request.GetSignal()), time.Duration(max(0, request.GetGraceNs())))
	if err := await(ctx, t.gone); err != nil {
		return nil, err
	}
	return &proto.StopResponse{}, nil
}

// await waits for a channel to be closed; the error is the status of a call that ended before.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// Events implements proto.ExecutorServer.
func (e *Executor) Events(_ *proto.EventsRequest, stream grpc.ServerStreamingServer[proto.Event]) error {
	e.on(onCall)
	for events := e.journal.Follow(0); ; {
		event, changed, err := events.Poll()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case changed == nil:
			if err := stream.Send(event); err != nil {
				return err
			}
			continue
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-e.ctx.Done():
			return nil
		}
	}
}

// Shutdown implements proto.ExecutorServer.
func (e *Executor) Shutdown(ctx context.Context, _ *proto.ShutdownRequest) (*proto.ShutdownResponse, error) {
	if err := e.awaitRelease(ctx); err != nil {
		return nil, err
	}
	switch now, ok := e.on(onShutdown); {
	case ok:
		failpoint.At("executor.shutdown")
		return &proto.ShutdownResponse{}, nil // which leaves before the process ends, see stopServing
	case now == launching:
		return nil, status.Error(codes.FailedPrecondition, "the task is being started: stop it first")
	default:
		return nil, status.Error(codes.FailedPrecondition, "the task is running: stop it first")
	}
}

// awaitRelease waits until a task whose end was reported is released: a caller that was told of the end may call
// Shutdown at once.
func (e *Executor) awaitRelease(ctx context.Context) error {
	t := e.current()
	if t == nil {
		return nil
	}
	select {
	case <-t.gone:
	default:
		return nil // it runs
	}
	return await(ctx, t.released)
}
