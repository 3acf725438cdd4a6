// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package page is the agent's web page: what tasks use, what they wait for and why they ended, for people.
//
//	/                      all tasks, the machine, ended tasks
//	/alloc/ID/TASK         one task: charts, processes, limits, events, final record
//	/machine               charts of the machine
//	/measurements          the table of measurements
//	/page/stream/…         what changed on the page of that path, as server-sent events
//	/page/assets/…         style sheet, script, icon
//
// Pages are whole without scripts. The script of this package replaces the content of elements that carry data-live;
// the stream has their names and new content, rendered by the templates that rendered the page.
package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// Agent is what a page is made from; *agent.Agent is one.
type Agent interface {
	Snapshot(only ...string) *snapshot.Agent
	NodeStats(ctx context.Context) (*node.Stats, error)
	Cost() snapshot.Cost
	History(allocID, task string, q series.Query) ([]series.Point, error)
	// Record returns the final record of the last ended start; the error wraps allocation.ErrNotFound before that.
	Record(allocID, task string) (*record.Record, error)
	// Commands returns what the ended processes of a task used; the error wraps allocation.ErrNotFound if that is not
	// counted.
	Commands(allocID, task string) (*record.Commands, error)

	RestartAlloc(id, task string) error
	// ReplaceAlloc stops an allocation; another takes its place, unless its job was stopped.
	ReplaceAlloc(id string) error
	StopJob(id string, purge bool, expected *uint64) error
}

// Options are a page's settings.
type Options struct {
	// Logger takes errors; nil is none.
	Logger hclog.Logger
	// Token returns what signs readers in with the form at /sign-in. It can change; empty is none, as is nil.
	Token func() string
	// Address is the agent's own, http://host:port, for links that sign in; empty if it does not listen on TCP.
	Address string
	// SignIn is the command that prints such a link; empty is tacho ui.
	SignIn string
	// Interval is the time between readings, and so between changes of a page that is looked at; 0 means 1 s.
	Interval time.Duration
	// HistoryInterval is the time between two readings that are kept, if it is longer than Interval.
	HistoryInterval time.Duration
	// HistorySpan is how much of a task's past the agent keeps; 0 means 15 min.
	HistorySpan time.Duration
	// Streams is the room for live pages; nil makes one.
	Streams *streams.Room
	// WriteTimeout drops readers that take longer to accept one change; 0 means 5 s.
	WriteTimeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Page serves the web page. Its methods may be called concurrently.
type Page struct {
	agent     Agent
	options   Options
	log       hclog.Logger
	templates *template.Template
	assets    *assets
	closed    chan struct{}
	closeOnce sync.Once
	past      *past
	desk      *desk
	overview  shared
	track     machineTrack
}

// New returns a page over an agent. It starts nothing and asks nothing.
func New(a Agent, o Options) *Page {
	o.Logger = cmp.Or(o.Logger, hclog.NewNullLogger())
	o.Streams = cmp.Or(o.Streams, streams.New(streams.DefaultLimits()))
	if o.Token == nil {
		o.Token = func() string { return "" }
	}
	o.Interval = cmp.Or(o.Interval, time.Second)
	o.HistorySpan = cmp.Or(o.HistorySpan, customary)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 5*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	files := newAssets()
	return &Page{
		agent: a, options: o, log: o.Logger, templates: parseTemplates(files), assets: files,
		closed: make(chan struct{}), past: newPast(a, o.Now), desk: newDesk(o.Now),
	}
}

// Close ends the live pages: a server that is shut down would wait for them.
func (p *Page) Close() { p.closeOnce.Do(func() { close(p.closed) }) }

// Handler returns the page for callers that are trusted, as those of the unix socket or with the token, or not. Trusted
// ones see command lines and logs, others once they have signed in. It answers every path that it is given.
func (p *Page) Handler(trusted bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.serve(trusted, p.overviewPage))
	mux.HandleFunc("GET /alloc/{id}", p.allocation)
	mux.HandleFunc("GET /alloc/{id}/{task}", p.serve(trusted, p.taskPage))
	mux.HandleFunc("GET /machine", p.serve(trusted, p.machinePage))
	mux.HandleFunc("GET /page/stream/machine", p.stream(trusted, false, p.machineSource))
	mux.HandleFunc("GET /measurements", p.serve(trusted, p.measurementsPage))
	mux.HandleFunc("GET /page/stream/{$}", p.stream(trusted, false, p.overviewSource))
	mux.HandleFunc("GET /page/stream/alloc/{id}/{task}", p.stream(trusted, true, p.taskSource))
	mux.HandleFunc("GET /page/assets/{name}", p.assets.serve)
	mux.HandleFunc("GET /sign-in", p.serve(trusted, p.signInPage))
	mux.HandleFunc("GET /sign-in/{code}", p.redeem)
	p.actionRoutes(mux, trusted)
	mux.HandleFunc("/", p.serve(trusted, func(*view) error { return errNoPage }))
	return secured(mux)
}

var errNoPage = fmt.Errorf("no such page: %w", allocation.ErrNotFound)

// view is one page that is being made.
type view struct {
	request *http.Request
	now     *snapshot.Agent
	// Trusted readers see command lines and logs, and may act. SignedIn says that they are because of a session.
	Trusted, SignedIn bool
	Now               time.Time
	Title             string
	// Template is the name of the page's main part, Body its data.
	Template string
	Body     any
	// Live is the path of the stream for this page; empty for pages that do not change.
	Live string
	// Shape changes whenever the page has other elements than before; the script then loads it anew.
	Shape string
	// Notice says what concerns the whole page, such as that publishing is off.
	Notice string
	// Machine is the line about the machine.
	Machine machine
	Status  int
}

// ShapeWord is the shape with what concerns every page.
func (v *view) ShapeWord() string { return shapeWord(v.Shape, v) }

// Zone is how many seconds the agent's clock is ahead of UTC.
func (v *view) Zone() int {
	_, offset := v.Now.Zone()
	return offset
}

// serve renders a page that a function fills.
func (p *Page) serve(trusted bool, fill func(*view) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := p.newView(r, trusted)
		if err := fill(v); err != nil {
			p.fail(v, err)
		}
		v.Machine = p.machine(r.Context(), v.now, v.Trusted)
		p.render(w, v)
	}
}

func (p *Page) newView(r *http.Request, trusted bool) *view {
	v := &view{
		request: r, now: p.agent.Snapshot(), Trusted: p.trusts(r, trusted), Now: p.options.Now(), Status: http.StatusOK,
	}
	v.SignedIn = p.desk.SignedIn(r)
	v.Notice = v.now.NotPublishing
	return v
}

// fail makes a page of an error.
func (p *Page) fail(v *view, err error) {
	v.Status = http.StatusInternalServerError
	v.Title = "Not available"
	switch {
	case errors.Is(err, allocation.ErrNotFound):
		v.Status, v.Title = http.StatusNotFound, "Not found"
	case errors.Is(err, allocation.ErrAmbiguous):
		v.Status, v.Title = http.StatusBadRequest, "Several match"
	default:
		p.log.Error("make page", "path", v.request.URL.Path, "error", err)
	}
	v.Template, v.Body, v.Live = "error", err.Error(), ""
}

// render writes a page as a whole or, if a template fails, not at all.
func (p *Page) render(w http.ResponseWriter, v *view) {
	content, err := p.execute("page", v)
	if err != nil {
		p.log.Error("render page", "path", v.request.URL.Path, "error", err)
		http.Error(w, "render page", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Add("Vary", "Accept-Encoding, Authorization, Cookie, X-Nomad-Token")
	// A table of tasks is a tenth of its size when compressed. Pages with secrets never are: lengths would say
	// something about them.
	if len(content) < compressFrom || v.Trusted || !acceptsGzip(v.request) {
		w.WriteHeader(v.Status)
		_, err = w.Write(content)
	} else {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(v.Status)
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		_, err = z.Write(content)
		err = errors.Join(err, z.Close())
	}
	if err != nil { // the reader went away
		p.log.Debug("write page", "path", v.request.URL.Path, "error", err)
	}
}

// compressFrom is the size in bytes from which pages are compressed.
const compressFrom = 8 << 10

// execute renders one template.
func (p *Page) execute(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return visible(b.Bytes()), nil
}

//go:embed assets/*
var assetFiles embed.FS

//go:embed templates/*.html
var templateFiles embed.FS

// assets are the files beside the pages, by name. Browsers may cache those of a version forever.
type assets struct {
	contents map[string][]byte
	version  string
}

func newAssets() *assets {
	a := &assets{contents: map[string][]byte{}}
	sum := sha256.New()
	for _, file := range []struct{ name, before string }{
		{"icon.svg", ""}, {"page.css", chart.Style()}, {"page.js", chart.Script()},
	} {
		content, err := assetFiles.ReadFile("assets/" + file.name)
		if err != nil {
			panic("page: " + err.Error()) // it is embedded, so only a build can be at fault
		}
		a.contents[file.name] = append([]byte(file.before), content...)
		sum.Write(a.contents[file.name])
	}
	a.version = hex.EncodeToString(sum.Sum(nil)[:8])
	return a
}

// path is where a file is, with its version.
func (a *assets) path(name string) string { return "/page/assets/" + name + "?v=" + a.version }

func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, ok := a.contents[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"`+a.version+`"`)
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == a.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content)) // of the type that its name has
}

// parseTemplates parses the embedded templates.
func parseTemplates(files *assets) *template.Template {
	t := template.New("").Funcs(template.FuncMap{
		"asset": files.path, "clock": formatClock, "day": formatDay, "event": formatEvent, "time": formatTime,
		"seconds": textOf(procstats.Seconds), "bytes": textOf(procstats.Bytes), "count": textOf(procstats.None),
		"counted": countedText,
		"share":   shareText, "largest": largest, "evidence": evidenceText, "guarantee": guaranteeOf,
		"iso":         func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"list":        func(parts ...any) []any { return parts },
		"definitions": func() template.HTML { return chart.Definitions },
	})
	return template.Must(t.ParseFS(templateFiles, "templates/*.html"))
}
