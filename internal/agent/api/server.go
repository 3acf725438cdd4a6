// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package api serves the agent over HTTP: Nomad's paths and JSON keys, so that its command line and other clients can
// use them, and what Nomad has no place for in an object Tacho or at a path of its own.
//
//	request ─► Host header ─► token ─► bounds ─► routes ─► agent ─► JSON, redacted for untrusted callers
//
// Without a token, TCP has numbers, names and states: no logs, job files, command lines, environments or messages, and
// nothing is started or stopped. The unix socket and holders of the token are trusted with everything.
package api

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/feed"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/metrics"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/series"
)

// Agent is what is served; *agent.Agent is one.
type Agent interface {
	// Snapshot returns the agent now, with the allocations of some ids only; History, Record and Commands are too
	// much for it.
	Snapshot(only ...string) *snapshot.Agent
	History(allocID, task string, q series.Query) ([]series.Point, error)
	Record(allocID, task string) (*record.Record, error)
	Commands(allocID, task string) (*record.Commands, error)
	NodeStats(ctx context.Context) (*node.Stats, error)
	Cost() snapshot.Cost
	// Health returns why the agent is not healthy; nil if it is.
	Health() error
	Feed() *feed.Feed

	Validate(ctx context.Context, source job.Source) (*job.Job, error)
	RunJob(ctx context.Context, source job.Source, check func(index uint64) error) (*snapshot.Job, bool, error)
	ScaleJob(ctx context.Context, id, group string, count int) (status *snapshot.Job, changed bool, err error)
	PlanJob(ctx context.Context, source job.Source) (*snapshot.Plan, error)
	StopJob(id string, purge bool, check func(index uint64) error) error

	ReplaceAlloc(id string) error
	RestartAlloc(id, task string) error
	SignalAlloc(ctx context.Context, id, task, signal string) error
	ExecTask(ctx context.Context, id, task string, o driver.ExecOptions) (driver.ExecStream, error)
	CollectGarbage() (removed int, err error)
}

// Options say who may do what. The zero value trusts no caller on TCP.
type Options struct {
	// Logger takes faults of the agent; nil discards them.
	Logger hclog.Logger
	// Token returns the secret in X-Nomad-Token or Authorization: Bearer, which can change; nil and empty mean none.
	Token func() string
	// Hosts are names by which clients reach the agent over TCP, besides localhost and the bind address.
	Hosts []string
	// Page serves everything outside /v1 and /metrics; nil is 404. It may call Trusted.
	Page http.Handler
	// Streams bounds logs, event streams, blocking queries and commands in tasks; nil makes one.
	Streams *streams.Room
}

// Server answers requests. Its methods may be called concurrently.
type Server struct {
	agent   Agent
	options Options
	log     hclog.Logger
	metrics *metrics.Collector
	hosts   map[string]bool
	mux     *http.ServeMux
	// blockFor is the default wait of a blocking query, heartbeat the time between signs of life of a stream, poll
	// the time between reads of a growing log, stall the longest time for one write of a stream, patience that of
	// trusted callers.
	blockFor, heartbeat, poll, stall, patience time.Duration
	now                                        func() time.Time
}

// Bounds on a request. Streams extend the time to write with every write.
const (
	maxHeader    = 32 << 10
	maxBody      = 2 * job.MaxSource
	readHeader   = 5 * time.Second
	readTimeout  = 30 * time.Second
	writeTimeout = 60 * time.Second
	idleTimeout  = 2 * time.Minute
	// writeStall is the time for one write of a stream before the client is dropped, writePatience that of a trusted
	// caller, who may page through a log.
	writeStall    = 10 * time.Second
	writePatience = 10 * time.Minute
)

// New returns a server that listens nowhere.
func New(a Agent, o Options) *Server {
	s := &Server{
		agent: a, options: o, log: o.Logger, mux: http.NewServeMux(), now: time.Now,
		blockFor: 5 * time.Minute, heartbeat: 10 * time.Second, poll: 250 * time.Millisecond,
		stall: writeStall, patience: writePatience,
	}
	if s.options.Token == nil {
		s.options.Token = func() string { return "" }
	}
	if s.log == nil {
		s.log = hclog.NewNullLogger()
	}
	if s.options.Streams == nil {
		s.options.Streams = streams.New(streams.DefaultLimits())
	}
	s.metrics = metrics.New(a, s.options.Streams)
	s.hosts = hostsOf(a.Snapshot().Config.BindAddr, o.Hosts)
	s.register()
	return s
}

// Handler serves requests. Local ones come over the unix socket, whose mode has checked the caller: they are trusted,
// and their Host header means nothing.
func (s *Server) Handler(local bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if err := s.checkOrigin(r); err != nil {
			s.fail(w, r, err)
			return
		}
		trusted := local
		if !local {
			if !s.knownHost(r.Host) {
				s.fail(w, r, errUnknownHost)
				return
			}
			var err error
			if trusted, err = s.checkToken(r); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		r = r.WithContext(context.WithValue(context.WithValue(r.Context(), trustKey{}, trusted), localKey{}, local))
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		s.mux.ServeHTTP(w, r)
	})
}

// HTTPServer returns a server for one listener, with bounds on time and size. Its Shutdown ends streams.
func (s *Server) HTTPServer(local bool) *http.Server {
	ending, end := context.WithCancel(context.Background())
	handler := s.Handler(local)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), endingKey{}, ending)))
		}),
		ReadHeaderTimeout: readHeader,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	server.RegisterOnShutdown(end)
	return server
}
