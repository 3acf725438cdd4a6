// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
)

// Address is how the executor is found again. It is complete after Launch.
func (c *Client) Address() wire.Address {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.address
}

// Hello returns what the executor said of itself when this client connected; nil if it did not answer.
func (c *Client) Hello() *proto.HelloResponse { return c.hello }

// Wait returns how the task ended and its final record. The error wraps ErrLost if the executor is gone.
func (c *Client) Wait(ctx context.Context) (*proto.Exit, *record.Record, error) {
	exit, encoded, err := c.WaitEncoded(ctx)
	if err != nil {
		return nil, nil, err
	}
	final, err := DecodeFinal(encoded)
	return exit, final, err
}

// DecodeFinal returns the record that WaitEncoded has returned.
func DecodeFinal(encoded []byte) (*record.Record, error) {
	final, err := record.Decode(encoded)
	if err != nil {
		return nil, fmt.Errorf("final record: %w", err)
	}
	return final, nil
}

// WaitEncoded is Wait with the record as JSON: to decode it takes longer than all that the executor does afterwards.
func (c *Client) WaitEncoded(ctx context.Context) (*proto.Exit, []byte, error) {
	response, err := c.rpc.Wait(ctx, &proto.WaitRequest{})
	return response.GetExit(), response.GetRecord(), err
}

// Progress is how far a task is.
type Progress struct {
	Ended bool
	// Events is the sequence of its last event; 0 from an executor of an older build.
	Events uint64
}

// Progress asks how far the task is. The error wraps ErrLost if the executor is gone.
func (c *Client) Progress(ctx context.Context) (Progress, error) {
	response, err := c.sayHello(ctx)
	if err != nil {
		return Progress{}, err
	}
	c.child.confirmed()
	return Progress{Ended: response.GetState() == proto.TaskState_TASK_STATE_EXITED, Events: response.GetEvents()}, nil
}

// Changed returns a channel that is closed when the task has ended or has had an event since the call, or nil if only
// Wait and Events can say so: the executor is of an older build, or gone, or the client has no set to wait in. It is
// for the owner of a launched task, before Close.
func (c *Client) Changed() <-chan struct{} {
	if c.waits == nil {
		return nil
	}
	c.notify.Do(func() { c.notifications = openNotifications(c.address.Folder, c.waits) })
	return c.notifications.next()
}

// Signal sends a signal to the main process, or to its process group as a terminal would.
func (c *Client) Signal(ctx context.Context, signal syscall.Signal, group bool) error {
	_, err := c.rpc.Signal(ctx, &proto.SignalRequest{Signal: int32(signal), Group: group})
	return err
}

// Stop asks the task to end with a signal (0: the one of Launch), kills what is left after the grace, and returns
// when nothing is.
func (c *Client) Stop(ctx context.Context, signal syscall.Signal, grace time.Duration) error {
	_, err := c.rpc.Stop(ctx, &proto.StopRequest{Signal: int32(signal), GraceNs: int64(grace)})
	return err
}

// Sample returns a sample that is at most maxAge old.
func (c *Client) Sample(ctx context.Context, maxAge time.Duration, rows bool) (*procstats.Sample, error) {
	response, err := c.rpc.Sample(ctx, &proto.SampleRequest{MaxAgeNs: int64(maxAge), Rows: rows})
	if err != nil {
		return nil, err
	}
	return wire.ToSample(response.GetSample()), nil
}

// Exec opens a stream that runs another command in the task.
func (c *Client) Exec(ctx context.Context) (grpc.BidiStreamingClient[proto.ExecRequest, proto.ExecResponse], error) {
	return c.rpc.Exec(ctx)
}

// Confirm tells the executor that its task is known: until the first call after Launch it ends with its caller.
func (c *Client) Confirm(ctx context.Context) error {
	_, err := c.Progress(ctx)
	return err
}

func (c *Client) sayHello(ctx context.Context) (*proto.HelloResponse, error) {
	return c.rpc.Hello(ctx, &proto.HelloRequest{
		ProtocolMin: wire.ProtocolMin, ProtocolMax: wire.ProtocolMax, Build: "client",
	})
}

// Shutdown ends an executor whose task is gone, and returns when its process is.
func (c *Client) Shutdown(ctx context.Context) error {
	if _, err := c.rpc.Shutdown(ctx, &proto.ShutdownRequest{}); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	return c.AwaitExit(ctx)
}

// AwaitExit waits for the end of the executor's process.
func (c *Client) AwaitExit(ctx context.Context) error {
	select {
	case <-c.Lost():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for executor of %s to exit: %w", c.address.ID, context.Cause(ctx))
	}
}

// Close gives up the connection and the ownership; the executor and its task go on.
func (c *Client) Close() error {
	return errors.Join(c.conn.close(), c.notifications.close(), c.process.close(), c.disown())
}

// Lost is closed when the executor's process is gone, for whatever reason.
func (c *Client) Lost() <-chan struct{} { return c.process.gone }

// explain tells a lost executor from other faults.
func (c *Client) explain(err error) error {
	if c.process == nil || status.Code(err) != codes.Unavailable { // it is being started, or reached
		return err
	}
	// The connection can break a moment before the kernel reports the process's end, and an executor that ends as it
	// should has more to do after it has removed its socket.
	limit := lostGrace
	if _, err := os.Lstat(c.Address().Socket); errors.Is(err, fs.ErrNotExist) {
		limit = abandonLimit
	}
	select {
	case <-c.Lost():
		return fmt.Errorf("%w: %w", ErrLost, err)
	case <-time.After(limit):
		return err
	}
}

const lostGrace = 500 * time.Millisecond

// StatsStream is a running stream of samples; it ends with the context it was opened with.
type StatsStream struct {
	stream grpc.ServerStreamingClient[proto.SampleResponse]
}

// Stats opens a stream: the first sample at once, then one per interval. An executor that refuses says so at the
// first Recv.
func (c *Client) Stats(ctx context.Context, interval time.Duration, rows bool) (*StatsStream, error) {
	stream, err := c.rpc.Stats(ctx, &proto.StatsRequest{IntervalNs: int64(interval), Rows: rows})
	if err != nil {
		return nil, err
	}
	return &StatsStream{stream}, nil
}

// Recv returns the next sample; io.EOF after the end of the task.
func (s *StatsStream) Recv() (*procstats.Sample, error) {
	response, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	return wire.ToSample(response.GetSample()), nil
}

// Target returns what a reader of the task's cgroup must know besides its files, or no more of it than what the
// executor has reaped. The status of the error is Unimplemented if the executor is of an older build.
func (c *Client) Target(ctx context.Context, reapedOnly bool) (*proto.TargetResponse, error) {
	return c.rpc.Target(ctx, &proto.TargetRequest{ReapedOnly: reapedOnly})
}

// Events opens a stream of what happened so far and of everything as it happens; it ends with io.EOF after the last
// event of an ended task.
func (c *Client) Events(ctx context.Context) (grpc.ServerStreamingClient[proto.Event], error) {
	return c.rpc.Events(ctx, &proto.EventsRequest{})
}

// Launch starts the task. A gRPC status of NotFound means there is no such command, PermissionDenied that it cannot
// be executed, InvalidArgument and FailedPrecondition that the request is not supported here. If the executor
// dies over it the error wraps ErrLost, and what it had started is killed.
func (c *Client) Launch(ctx context.Context, request *proto.LaunchRequest) (*proto.LaunchResponse, error) {
	return c.launch(ctx, request, func() (*proto.LaunchResponse, error) { return c.rpc.Launch(ctx, request) })
}

// LaunchAnnounced is Launch that calls announce with the task's cgroup before a process is in it.
func (c *Client) LaunchAnnounced(
	ctx context.Context, request *proto.LaunchRequest, announce func(procstats.Cgroup),
) (*proto.LaunchResponse, error) {
	return c.launch(ctx, request, func() (*proto.LaunchResponse, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // of a stream that was not read to its end
		stream, err := c.rpc.LaunchAnnounced(ctx)
		if err != nil {
			return nil, err
		}
		err = stream.Send(&proto.LaunchAnnouncedRequest{Launch: request})
		if err != nil && !errors.Is(err, io.EOF) { // Recv has the cause of an EOF
			return nil, err
		}
		announced, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		announce(cgroupOf(announced.GetCgroup()))
		if err := stream.CloseSend(); err != nil {
			return nil, err
		}
		launched, err := stream.Recv()
		return launched.GetLaunched(), err
	})
}

// launch calls the executor to start the task, and completes the address.
func (c *Client) launch(
	ctx context.Context, request *proto.LaunchRequest, call func() (*proto.LaunchResponse, error),
) (*proto.LaunchResponse, error) {
	launched, err := call()
	if err != nil {
		if errors.Is(err, ErrLost) {
			// It may have started the task, and no other process knows.
			kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonLimit)
			defer cancel()
			err = errors.Join(err, c.KillTask(kill))
		}
		return nil, err
	}
	c.launched(launched)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address.RecordDir = request.GetRecord().GetDir()
	return launched, nil
}

// launched completes the address.
func (c *Client) launched(launched *proto.LaunchResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address.Main = wire.ToProcessID(launched.GetMain())
	c.address.Cgroup = cgroupOf(launched.GetCgroup())
	c.address.Owned = launched.GetCgroup().GetOwned()
}

func cgroupOf(c *proto.Cgroup) procstats.Cgroup {
	return procstats.Cgroup{V2: c.GetV2(), V1: c.GetV1(), Shared: c.GetShared()}
}

// AwaitLaunch returns what Launch has returned to another caller, perhaps one that is gone, once it has. The error
// wraps ErrLost if the executor ends before.
func (c *Client) AwaitLaunch(ctx context.Context) (*proto.LaunchResponse, error) {
	const interval = 10 * time.Millisecond
	for {
		hello, err := c.sayHello(ctx)
		if launched := hello.GetLaunched(); launched != nil {
			c.launched(launched)
			return launched, nil
		}
		select {
		case <-c.Lost():
			return nil, fmt.Errorf("wait for start of task: %w", ErrLost)
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for start of task: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(interval):
		}
	}
}

// restAfter is how long a connection stays open without a call: most calls come in groups.
const restAfter = 250 * time.Millisecond

// connection is a connection to an executor that is open only while there are calls. An open one holds six goroutines
// and some 60 KiB in this process, for each task, and a host has hundreds without news for hours.
type connection struct {
	dial    func() (*grpc.ClientConn, error)
	explain func(error) error // tells a lost executor from other faults

	mu     sync.Mutex       // guards following
	open   *grpc.ClientConn // nil without calls
	calls  int
	timer  *time.Timer // closes the connection after the last call
	closed bool
}

// acquire returns the open connection for one more call.
func (c *connection) acquire() (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, status.Error(codes.Canceled, "the connection to the executor was closed")
	}
	if c.open == nil {
		open, err := c.dial()
		if err != nil {
			return nil, err
		}
		c.open = open
	}
	c.calls++
	return c.open, nil
}

// release ends one call.
func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls--; c.calls > 0 || c.closed {
		return
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(restAfter, c.rest)
	} else {
		c.timer.Reset(restAfter)
	}
}

// rest closes the connection if there is no call.
func (c *connection) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 && c.open != nil {
		_ = c.open.Close() // it says only that it was closed before
		c.open = nil
	}
}

// close ends all calls.
func (c *connection) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.open == nil {
		return nil
	}
	open := c.open
	c.open = nil
	return open.Close()
}

// Invoke implements grpc.ClientConnInterface.
func (c *connection) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	open, err := c.acquire()
	if err != nil {
		return err
	}
	defer c.release()
	return c.explain(open.Invoke(ctx, method, args, reply, options...))
}

// NewStream implements grpc.ClientConnInterface. The stream ends with its context, or when it is received from until
// an error.
func (c *connection) NewStream(
	ctx context.Context, d *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	open, err := c.acquire()
	if err != nil {
		return nil, err
	}
	stream, err := open.NewStream(ctx, d, method, options...)
	if err != nil {
		c.release()
		return nil, c.explain(err)
	}
	ended := sync.OnceFunc(c.release)
	return &countedStream{ClientStream: stream, connection: c, ended: ended, unwatch: context.AfterFunc(ctx, ended)}, nil
}

// countedStream is a stream that counts as a call until its end.
type countedStream struct {
	grpc.ClientStream
	connection *connection
	ended      func()
	unwatch    func() bool
}

// RecvMsg implements grpc.ClientStream.
func (s *countedStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err != nil {
		s.unwatch()
		s.ended()
	}
	return s.connection.explain(err)
}
