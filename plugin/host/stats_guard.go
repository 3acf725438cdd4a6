// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mostStatsDeaths is how many processes of a plugin may end while they were asked for statistics and had sent none.
const mostStatsDeaths = 3

// statsGuard stops asking a plugin for statistics that ends whenever it is asked: without it, it would be started again for good.
type statsGuard struct {
	mu     sync.Mutex // guards following
	deaths int
	// counted is the last process that is in deaths.
	counted *Process
}

// open opens a stream of statistics of a process.
func (g *statsGuard) open(p *Process, open func() (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	g.mu.Lock()
	deaths := g.deaths
	g.mu.Unlock()
	if deaths >= mostStatsDeaths {
		return nil, status.Errorf(codes.Unimplemented, "the plugin exited %d times when it was asked for statistics", deaths)
	}
	stream, err := open()
	if err != nil {
		return nil, err
	}
	return &guardedStream{ClientStream: stream, guard: g, process: p}, nil
}

// guardedStream is a stream of statistics that tells its guard how it ends.
type guardedStream struct {
	grpc.ClientStream
	guard   *statsGuard
	process *Process
	works   bool
}

// RecvMsg implements grpc.ClientStream.
func (s *guardedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == nil && !s.works:
		s.works = true
		s.guard.worked()
	case err != nil && !s.works && status.Code(err) == codes.Unavailable && s.Context().Err() == nil:
		s.guard.died(s.process)
	}
	return err
}

func (g *statsGuard) worked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deaths = 0
}

// died counts a process whose connection broke, once for all its streams.
func (g *statsGuard) died(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.counted != p {
		g.deaths, g.counted = g.deaths+1, p
	}
}
