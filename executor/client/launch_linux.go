// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
)

// Launch starts the task. A gRPC status of NotFound means there is no such command, PermissionDenied that it cannot
// be executed, InvalidArgument and FailedPrecondition that the request is not supported here. If the executor
// dies over it the error wraps ErrLost, and what it had started is killed.
func (c *Client) Launch(ctx context.Context, request *proto.LaunchRequest) (*proto.LaunchResponse, error) {
	return c.launch(ctx, request, c.rpc.Launch)
}

// LaunchAnnounced is Launch that calls announce with the task's cgroup before a process is in it.
func (c *Client) LaunchAnnounced(ctx context.Context, request *proto.LaunchRequest, announce func(procstats.Cgroup)) (*proto.LaunchResponse, error) {
	return c.launch(ctx, request, func(ctx context.Context, request *proto.LaunchRequest, _ ...grpc.CallOption) (*proto.LaunchResponse, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // of a stream that was not read to its end
		stream, err := c.rpc.LaunchAnnounced(ctx)
		if err != nil {
			return nil, err
		}
		if err := stream.Send(&proto.LaunchAnnouncedRequest{Launch: request}); err != nil && !errors.Is(err, io.EOF) { // of which Recv has the cause
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

type launchCall func(context.Context, *proto.LaunchRequest, ...grpc.CallOption) (*proto.LaunchResponse, error)

func (c *Client) launch(ctx context.Context, request *proto.LaunchRequest, call launchCall) (*proto.LaunchResponse, error) {
	launched, err := call(ctx, request)
	if err != nil {
		if err = c.explain(err); errors.Is(err, ErrLost) {
			err = errors.Join(err, c.killUnanswered(ctx))
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

// AwaitLaunch returns what Launch has returned to another caller, perhaps one that is gone, once it has. The error wraps
// ErrLost if the executor ends before.
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

// killUnanswered kills the task of an executor that died in Launch: it may have started it, and no other process knows.
func (c *Client) killUnanswered(ctx context.Context) error {
	address, err := wire.ReadAddress(c.Address().Folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it had not come to that
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.address = *address
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unansweredLimit)
	defer cancel()
	return KillTask(ctx, *address)
}

// unansweredLimit bounds how long the end of a killed task is waited for.
const unansweredLimit = 10 * time.Second
