// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

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

// Knowledge is what is shown: the agent now, and what is too much for a snapshot.
type Knowledge interface {
	Snapshot(only ...string) *snapshot.Agent
	NodeStats(ctx context.Context) (*node.Stats, error)
	Cost() snapshot.Cost
	Past
}

// Past is what tasks used.
type Past interface {
	History(allocID, task string, q series.Query) ([]series.Point, error)
	Record(allocID, task string) (*record.Record, error)
	Commands(allocID, task string) (*record.Commands, error)
}

// Jobs runs and stops jobs.
type Jobs interface {
	Validate(ctx context.Context, source job.Source) (*job.Job, error)
	RunJob(ctx context.Context, source job.Source, check func(index uint64) error) (status *snapshot.Job, changed bool, err error)
	ScaleJob(ctx context.Context, id, group string, count int) (status *snapshot.Job, changed bool, err error)
	PlanJob(ctx context.Context, source job.Source) (*snapshot.Plan, error)
	StopJob(id string, purge bool, check func(index uint64) error) error
}

// Allocations acts on allocations.
type Allocations interface {
	ReplaceAlloc(id string) error
	RestartAlloc(id, task string) error
	SignalAlloc(ctx context.Context, id, task, signal string) error
	ExecTask(ctx context.Context, id, task string, o driver.ExecOptions) (driver.ExecStream, error)
	CollectGarbage() (removed int, err error)
}

// Agent is all that is served; *agent.Agent is one.
type Agent interface {
	Knowledge
	Jobs
	Allocations
	// Feed has what happens.
	Feed() *feed.Feed
	// Health returns why the agent is not healthy; nil if it is.
	Health() error
}

// Options say who may do what. The zero value trusts nobody on TCP.
type Options struct {
	// Logger takes what goes wrong in the agent; nil is none.
	Logger hclog.Logger
	// Token returns the secret that is asked for in X-Nomad-Token or Authorization: Bearer, which can change; empty
	// if there is none, as is nil.
	Token func() string
	// Hosts are names by which clients reach the agent over TCP, besides localhost and the bind address.
	Hosts []string
	// Page answers everything outside /v1 and /metrics; nil is 404. It may ask Trusted.
	Page http.Handler
	// Metrics is what /v1/metrics shows; nil makes one. Whoever sends to statsd too shares it.
	Metrics *metrics.Collector
	// Streams is the room for logs, event streams, blocking queries and commands in tasks; nil makes one.
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
	// blockFor is how long a blocking query waits unless it says so, heartbeat the time between signs of life of
	// a stream, poll the time between looks at a growing log, stall how long one write of a stream may take, patience
	// the same for trusted requests.
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
	// writeStall is how long one write of a stream may take before the client is dropped, writePatience that of a
	// trusted one: somebody may read a log page by page.
	writeStall    = 10 * time.Second
	writePatience = 10 * time.Minute
)

// New returns a server that listens nowhere.
func New(a Agent, o Options) *Server {
	s := &Server{
		agent: a, options: o, log: o.Logger, metrics: o.Metrics, mux: http.NewServeMux(),
		blockFor: 5 * time.Minute, heartbeat: 10 * time.Second, poll: 250 * time.Millisecond, stall: writeStall, patience: writePatience, now: time.Now,
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
	if s.metrics == nil {
		s.metrics = metrics.New(a, s.options.Streams)
	}
	s.hosts = hostsOf(a.Snapshot().Config.BindAddr, o.Hosts)
	s.routes()
	return s
}

// Handler serves requests. local says that they come over the unix socket, whose mode has checked who asks: they are
// trusted, and their Host header means nothing.
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
				s.fail(w, r, &problem{http.StatusMisdirectedRequest, "unknown Host header: ask for localhost or the address the agent listens on"})
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

// endingKey is under which a request's context has the context that ends when the server shuts down.
type endingKey struct{}
