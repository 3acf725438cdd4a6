// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
)

// StatsStream is a running stream of samples; it ends with the context it was opened with.
type StatsStream struct {
	client *Client
	stream grpc.ServerStreamingClient[proto.SampleResponse]
	reader wire.Reader
}

// Stats opens a stream: the first sample at once, then one per interval. An executor that refuses says so at the
// first Recv.
func (c *Client) Stats(ctx context.Context, interval time.Duration, rows bool) (*StatsStream, error) {
	stream, err := c.rpc.Stats(ctx, &proto.StatsRequest{IntervalNs: int64(interval), Rows: rows, Changes: true})
	if err != nil {
		return nil, c.explain(err)
	}
	return &StatsStream{client: c, stream: stream}, nil
}

// Recv returns the next sample; io.EOF after the end of the task.
func (s *StatsStream) Recv() (*procstats.Sample, error) {
	response, err := s.stream.Recv()
	if err != nil {
		return nil, s.client.explain(err)
	}
	return s.reader.Read(response), nil
}

// Target returns what a reader of the task's cgroup must know besides its files, or no more of it than what the executor has
// reaped. The status of the error is Unimplemented if the executor is of an older build.
func (c *Client) Target(ctx context.Context, reapedOnly bool) (*proto.TargetResponse, error) {
	response, err := c.rpc.Target(ctx, &proto.TargetRequest{ReapedOnly: reapedOnly})
	return response, c.explain(err)
}

// EventStream is a running stream of events; it ends with the context it was opened with.
type EventStream struct {
	client *Client
	stream grpc.ServerStreamingClient[proto.Event]
}

// Events opens a stream of what happened so far and of everything as it happens.
func (c *Client) Events(ctx context.Context) (*EventStream, error) {
	stream, err := c.rpc.Events(ctx, &proto.EventsRequest{})
	if err != nil {
		return nil, c.explain(err)
	}
	return &EventStream{client: c, stream: stream}, nil
}

// Recv returns the next event; io.EOF after the last one of an ended task.
func (s *EventStream) Recv() (*proto.Event, error) {
	event, err := s.stream.Recv()
	return event, s.client.explain(err)
}
