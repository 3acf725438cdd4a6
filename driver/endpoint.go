// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/procstats"
)

// sampleAge is how old a sample may be for a reader of the endpoint: however many scrape, a task is read once in
// that time.
const sampleAge = time.Second

// Serve serves numbers where the configuration says, for a driver that is configured by [Options] and not by SetConfig.
func (d *Tacho) Serve() { d.serveNumbers(d.currentConfig().MetricsAddress) }

// serveNumbers serves numbers at another address than before, or tries again. An address that cannot be used is
// reported in the log and in the fingerprint: it is no reason to leave tasks without their driver.
func (d *Tacho) serveNumbers(address string) {
	d.serving.Lock()
	defer d.serving.Unlock()
	before := d.endpoint.Load()
	if d.ctx.Err() != nil || before != nil && before.address == address && before.failure() == nil {
		return
	}
	if err := d.endpoint.Swap(nil).close(); err != nil {
		d.log.Error("stop metrics endpoint", "address", before.address, "error", err)
	}
	if address == "" {
		return
	}
	e := newEndpoint(d, address)
	if err := e.open(); err != nil {
		d.log.Error("serve numbers", "address", address, "error", err)
	}
	d.endpoint.Store(e)
}

// stopServing closes the endpoint for good.
func (d *Tacho) stopServing() error {
	d.serving.Lock()
	defer d.serving.Unlock()
	return d.endpoint.Swap(nil).close()
}

// endpoint serves what the driver's tasks use, read-only: /metrics, /v1/tasks, /v1/task/ID/stats and
// /v1/task/ID/commands. As an agent does to untrusted callers, it shows numbers, names and states over TCP, and
// command lines to the owner of a socket alone. Tasks are read on request only. It is for hosts that ask for no stats
// themselves.
type endpoint struct {
	driver  *Tacho
	address string // host:port or unix:/path
	at      string // address, with the port that the kernel chose for 0
	server  *http.Server
	serving sync.WaitGroup
	err     atomic.Pointer[error] // why it does not serve; nil if it does
}

func newEndpoint(d *Tacho, address string) *endpoint {
	e := &endpoint{driver: d, address: address, at: address}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", e.metrics)
	mux.HandleFunc("GET /v1/tasks", e.tasks)
	// A task's id has slashes in it.
	mux.HandleFunc("GET /v1/task/{path...}", e.task)
	const patience = 10 * time.Second
	e.server = &http.Server{
		Handler: e.guard(mux), ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: 3 * patience,
		BaseContext: func(net.Listener) context.Context { return d.ctx },
	}
	return e
}

// open listens, and serves beside.
func (e *endpoint) open() error {
	listener, err := listen(e.address)
	if err != nil {
		e.err.Store(&err)
		return err
	}
	if strings.HasSuffix(e.address, ":0") {
		e.at = listener.Addr().String()
	}
	e.serving.Go(func() {
		if err := e.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			e.err.Store(&err)
		}
	})
	return nil
}

// close closes the endpoint, if there is one.
func (e *endpoint) close() error {
	if e == nil {
		return nil
	}
	err := e.server.Close()
	e.serving.Wait()
	return err
}

// failure is why nothing is served; nil if it is.
func (e *endpoint) failure() error {
	if err := e.err.Load(); err != nil {
		return *err
	}
	return nil
}

func listen(address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		return net.Listen("tcp", address)
	}
	// A socket that a killed process left behind is in the way; anything else there is a user's file.
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		if conn, err := net.Dial("unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("listen on %s: address already in use", path), conn.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), listener.Close())
	}
	return listener, nil
}

// guard refuses requests over TCP that name another host: a web page that was made to resolve to this machine.
func (e *endpoint) guard(next http.Handler) http.Handler {
	if e.trusted() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !isLoopback(strings.Trim(host, "[]")) {
			http.Error(w, "this address is reserved for the host", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (e *endpoint) metrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", string(exposition.Text))
	if err := exposition.Text.Write(w, families(e.read(r.Context()))); err != nil {
		e.driver.log.Debug("send metrics", "error", err)
	}
}

// read reads all running tasks, a few at a time.
func (e *endpoint) read(ctx context.Context) []taskSample {
	const atOnce = 8
	// An executor that was stopped does not answer: its task is left out.
	const patience = 2 * time.Second
	var mu sync.Mutex
	var samples []taskSample
	var reading sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, t := range e.driver.list() {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		reading.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			s, err := t.sample(ctx, sampleAge, false)
			if err != nil {
				e.driver.log.Debug("read task", "task", t.config.Name, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			samples = append(samples, taskSample{config: t.config, sample: s, startedAt: t.state.StartedAt})
		})
	}
	reading.Wait()
	return samples
}

func (e *endpoint) tasks(w http.ResponseWriter, _ *http.Request) {
	all := []map[string]any{}
	for _, t := range e.driver.list() {
		all = append(all, map[string]any{
			"id": t.config.ID, "name": t.config.Name, "alloc_id": t.config.AllocID, "job": t.config.JobName,
			"task_group": t.config.TaskGroupName, "namespace": t.config.Namespace,
			"running": t.running(), "started_at": t.state.StartedAt, "about": t.state.Attributes,
		})
	}
	e.sendJSON(w, all)
}

func (e *endpoint) sendJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		e.driver.log.Debug("send answer", "error", err)
	}
}

// task sends one thing about a task.
func (e *endpoint) task(w http.ResponseWriter, r *http.Request) {
	sends := map[string]func(http.ResponseWriter, *http.Request, *task){"/stats": e.stats, "/commands": e.commands}
	for suffix, send := range sends {
		if id, found := strings.CutSuffix(r.PathValue("path"), suffix); found {
			if t, err := e.driver.find(id); err == nil {
				send(w, r, t)
				return
			}
		}
	}
	http.Error(w, ErrTaskNotFound.Error(), http.StatusNotFound)
}

// trusted reports whether only the owner of the socket can ask.
func (e *endpoint) trusted() bool { return strings.HasPrefix(e.address, "unix:") }

// commands sends what the ended processes of a task used, by command: so far if it runs.
func (e *endpoint) commands(w http.ResponseWriter, _ *http.Request, t *task) {
	c := t.commands()
	if c == nil {
		http.Error(w, "the task's record is lost", http.StatusNotFound)
		return
	}
	e.sendJSON(w, c)
}

// stats sends a whole sample.
func (e *endpoint) stats(w http.ResponseWriter, r *http.Request, t *task) {
	s, err := t.sample(r.Context(), sampleAge, true)
	if errors.Is(err, ErrTaskNotRunning) {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	if err != nil {
		e.driver.log.Error("read task", "task", t.config.Name, "error", err)
		http.Error(w, "read task", http.StatusBadGateway)
		return
	}
	if !e.trusted() {
		s = s.Redacted()
	}
	w.Header().Set("Content-Type", "application/json")
	history := procstats.History{Elapsed: s.Wall.Sub(t.state.StartedAt)}
	text := procstats.AppendJSON(nil, s, procstats.Headlines(s, history))
	if _, err := w.Write(append(text, '\n')); err != nil {
		e.driver.log.Debug("send stats", "error", err)
	}
}

// taskSample is a task with one reading of it.
type taskSample struct {
	config    *TaskConfig
	sample    *procstats.Sample
	startedAt time.Time
}

// families are the tasks' metrics, under the names that the agent has for them. What is absent has no sample.
func families(tasks []taskSample) []exposition.Family {
	slices.SortFunc(tasks, func(a, b taskSample) int { return cmp.Compare(a.config.ID, b.config.ID) })
	values := make([]procstats.Readings, len(tasks))
	labels := make([]*exposition.Labels, len(tasks))
	missing := exposition.AbsentFamily()
	for i, t := range tasks {
		labels[i] = labelsOf(t.config)
		missing.AddAbsent(labels[i], t.sample, procstats.DefaultSelection())
		values[i] = slices.Clone(t.sample.Task)
		for _, h := range procstats.Headlines(t.sample, procstats.History{Elapsed: t.sample.Wall.Sub(t.startedAt)}) {
			values[i].Put(h.Reading)
		}
	}
	all := []exposition.Family{missing}
	for _, m := range procstats.Table() {
		f, ok := exposition.FamilyOf(m)
		if !ok {
			continue
		}
		for i := range tasks {
			if value, ok := values[i].Number(m.ID); ok {
				f.Add(labels[i], value)
			}
		}
		all = append(all, f)
	}
	return all
}

func labelsOf(c *TaskConfig) *exposition.Labels {
	return exposition.NewLabels("alloc_id", c.AllocID, "job", c.JobName, "namespace", c.Namespace, "task", c.Name,
		"task_group", c.TaskGroupName)
}
