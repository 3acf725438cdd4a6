// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package api serves the agent over HTTP: Nomad's paths and JSON keys, so that its command line and other clients can
// use them, and what Nomad has no place for in an object Tacho or at a path of its own.
//
//	request ─► Host header ─► token ─► bounds ─► routes ─► agent ─► JSON, perhaps redacted
//
// Without a token, TCP has numbers, names and states: no logs, job files, command lines, environments or messages, and
// nothing is started or stopped. The unix socket and holders of the token are trusted with everything.
package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/metrics"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/series"
)

// The keys of a request's context: whether it is trusted, whether it came over the unix socket, and the context that
// ends when the server shuts down.
type (
	trustKey  struct{}
	localKey  struct{}
	endingKey struct{}
)

// Trusted reports whether a request came over the unix socket or with the token.
func Trusted(ctx context.Context) bool {
	trusted, _ := ctx.Value(trustKey{}).(bool)
	return trusted
}

func isLocal(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// checkToken reports whether the request has the token. An invalid one is an error: a caller that believes to be
// trusted must not take redacted values for absent ones.
func (s *Server) checkToken(r *http.Request) (trusted bool, err error) {
	given := r.Header.Get("X-Nomad-Token")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); given == "" && ok {
		given = strings.TrimSpace(bearer)
	}
	token := s.options.Token()
	if given == "" || token == "" {
		return false, nil
	}
	// Hashes have one length, so that the time of the comparison reveals nothing.
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		s.denials.deny(s, r)
		return false, &problem{http.StatusForbidden, "invalid token"}
	}
	return true, nil
}

// denials slow down callers who try tokens.
type denials struct {
	// longest is how long a wrong token takes at most.
	longest time.Duration

	mu      sync.Mutex     // guards following
	callers map[string]int // wrong tokens by IP address, within this minute
	minute  time.Time
}

// Bounds of denials: how long the first wrong token takes, each further one twice as long, and how many callers are
// remembered.
const (
	firstDenial, longestDenial = 10 * time.Millisecond, 2 * time.Second
	mostDenied                 = 1000
)

// deny counts a wrong token, logs the first of a minute, and waits.
func (d *denials) deny(s *Server, r *http.Request) {
	s.options.Streams.Denied.Add(1)
	caller := streams.Caller(r.RemoteAddr)
	d.mu.Lock()
	now := s.now()
	first := now.Sub(d.minute).Abs() >= time.Minute
	if first || len(d.callers) >= mostDenied {
		d.callers = make(map[string]int)
	}
	if first {
		d.minute = now
	}
	tried := d.callers[caller]
	d.callers[caller]++
	d.mu.Unlock()
	if first {
		s.log.Warn("a caller has given a wrong token; others are not logged for a minute", "caller", caller)
	}
	select {
	case <-time.After(min(firstDenial<<min(tried, 10), d.longest)):
	case <-r.Context().Done():
	}
}

// hostsOf returns the valid names in Host headers: a page of another site that resolves its own name to this machine
// (DNS rebinding) sends that name. If the agent listens on all addresses, any literal address is valid.
func hostsOf(bind string, names []string) map[string]bool {
	hosts := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	for _, name := range append([]string{bind}, names...) {
		if name != "" {
			hosts[strings.ToLower(name)] = true
		}
	}
	if address, err := netip.ParseAddr(bind); err == nil && address.IsUnspecified() {
		hosts["*"] = true
	}
	return hosts
}

// checkOrigin rejects changes that a browser sends for a page of another site, also over the unix socket: a forwarded
// one is a port of the machine that the browser runs on. A WebSocket runs commands, and is a GET.
func (s *Server) checkOrigin(r *http.Request) error {
	origin, reads := r.Header.Get("Origin"), r.Method == http.MethodGet || r.Method == http.MethodHead
	if origin == "" || reads && r.Header.Get("Upgrade") == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host != r.Host || !s.knownHost(r.Host) || r.TLS != nil && u.Scheme != "https" {
		return errOtherOrigin
	}
	return nil
}

// checkSite rejects a GET that changes something if a browser sends it for a page of another site, such as the source
// of an image: those have no Origin.
func (s *Server) checkSite(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "" && (site != "same-origin" && site != "none" || !s.knownHost(r.Host)) {
		return errOtherOrigin
	}
	return nil
}

func (s *Server) knownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if s.hosts[name] || strings.HasSuffix(name, ".localhost") {
		return name != "*"
	}
	_, err := netip.ParseAddr(name)
	return err == nil && s.hosts["*"]
}

// Agent is served; *agent.Agent implements it.
type Agent interface {
	// Agent has the snapshots, for which History, Record and Commands are too much.
	metrics.Agent
	History(allocID, task string, q series.Query) ([]series.Point, error)
	Record(allocID, task string) (*record.Record, error)
	Commands(allocID, task string) (*record.Commands, error)
	// Health returns why the agent is not healthy; nil if it is. It looks at files, which Recovering does not.
	Health() error
	// Recovering returns an allocation.ErrRecovering until the tasks of an earlier run are recovered.
	Recovering() error
	Feed() *snapshot.Feed

	Validate(ctx context.Context, source job.Source) (*job.Job, error)
	RunJob(ctx context.Context, source job.Source, expected *uint64) (*snapshot.Job, bool, error)
	ScaleJob(ctx context.Context, id, group string, count int) (status *snapshot.Job, changed bool, err error)
	PlanJob(ctx context.Context, source job.Source) (*snapshot.Plan, error)
	StopJob(id string, purge bool, expected *uint64) error

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
	denials denials
	// blockFor is the default wait of a blocking query, heartbeat the time between signs of life of a stream, poll
	// the time between reads of a growing log, patience the longest time for one write to trusted callers.
	blockFor, heartbeat, poll, patience time.Duration
	now                                 func() time.Time
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

// healthPath is answered while the agent recovers tasks.
const healthPath = "/v1/agent/health"

// New returns a server that listens nowhere.
func New(a Agent, o Options) *Server {
	s := &Server{
		agent: a, options: o, log: cmp.Or(o.Logger, hclog.NewNullLogger()), mux: http.NewServeMux(), now: time.Now,
		blockFor: 5 * time.Minute, heartbeat: 10 * time.Second, poll: 250 * time.Millisecond,
		patience: writePatience, denials: denials{longest: longestDenial},
	}
	if s.options.Token == nil {
		s.options.Token = func() string { return "" }
	}
	s.options.Streams = cmp.Or(o.Streams, streams.New(streams.DefaultLimits()))
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
		trusted, err := s.admit(r, local)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		r = r.WithContext(context.WithValue(context.WithValue(r.Context(), trustKey{}, trusted), localKey{}, local))
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		s.mux.ServeHTTP(w, r)
	})
}

// admit rejects requests that identify rejects, and all but those for the health while too little is known.
func (s *Server) admit(r *http.Request, local bool) (trusted bool, err error) {
	trusted, err = s.identify(r, local)
	if err == nil && r.URL.Path != healthPath {
		err = s.agent.Recovering()
	}
	return trusted, err
}

// identify rejects requests from elsewhere and with an invalid token, and reports whether the caller is trusted.
func (s *Server) identify(r *http.Request, local bool) (trusted bool, err error) {
	if err := s.checkOrigin(r); err != nil || local {
		return local, err
	}
	if !s.knownHost(r.Host) {
		return false, errUnknownHost
	}
	return s.checkToken(r)
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

// errTooManyStreams refuses a stream if too many of its kind are open.
var errTooManyStreams = &problem{http.StatusServiceUnavailable, "too many open streams"}

// maxBlock is the longest time that a blocking query waits.
const maxBlock = 10 * time.Minute

// block waits, if the query has an index, until there is a later event, at most the query's wait.
func (s *Server) block(w http.ResponseWriter, q *request) error {
	if q.Method != http.MethodGet {
		return nil
	}
	index, wait := q.number("index"), q.duration("wait", s.blockFor)
	if q.err != nil {
		return q.err
	}
	feed := s.agent.Feed()
	now := feed.Index()
	if index == 0 || index < now || wait == 0 {
		return nil
	}
	ctx, end, err := s.begin(q, streams.Trusted)
	if err != nil {
		return err
	}
	defer end()
	wait = min(wait, maxBlock)
	setWriteDeadline(w, wait+writeTimeout)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, err = feed.Subscribe(now).Next(ctx)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// begin counts a stream of a kind, untrusted if the caller is, and returns a context that ends with the request and
// with the server.
func (s *Server) begin(q *request, kind streams.Kind) (ctx context.Context, end func(), err error) {
	if !q.trusted {
		kind = streams.Untrusted
	}
	leave, ok := s.options.Streams.Enter(kind)
	if !ok {
		return nil, nil, errTooManyStreams
	}
	ctx, cancel := context.WithCancel(q.Context())
	stop := func() bool { return true }
	if ending, ok := q.Context().Value(endingKey{}).(context.Context); ok {
		stop = context.AfterFunc(ending, cancel)
	}
	return ctx, func() {
		stop()
		cancel()
		leave()
	}, nil
}

// stream serves a request that counts as a stream of a kind.
func (s *Server) stream(
	kind streams.Kind, serve func(context.Context, http.ResponseWriter, *request) error,
) handler {
	return func(w http.ResponseWriter, q *request) error {
		ctx, end, err := s.begin(q, kind)
		if err != nil {
			return err
		}
		defer end()
		return serve(ctx, w, q)
	}
}

// streamOf serves a stream about the allocation in the path.
func (s *Server) streamOf(
	serve func(context.Context, http.ResponseWriter, *request, *allocation.Allocation) error,
) handler {
	return s.stream(streams.Trusted, func(ctx context.Context, w http.ResponseWriter, q *request) error {
		a, err := s.agent.Snapshot().Allocation(q.id())
		if err != nil {
			return err
		}
		return serve(ctx, w, q, a)
	})
}

// newStreamWriter is patient with trusted callers: people page through logs.
func (s *Server) newStreamWriter(w http.ResponseWriter, q *request) streams.Writer {
	out := streams.Writer{To: w, Stall: writeStall}
	if q.trusted {
		out.Stall = s.patience
	}
	return out
}

// setWriteDeadline extends the time for the response. Writers without deadlines are those of tests.
func setWriteDeadline(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}
