// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/streams"
)

// source makes the elements of a live page that change, with a word that changes when the page as a whole has to be
// loaded anew.
type source func(v *view) (shape string, c cells, err error)

// manyTasks is how many tasks make a page change half as often: its cells are small, but a browser lays out the table.
const manyTasks = 100

// open makes the source of a live page, and says what the page shows already; nil if that is not known.
type open func(v *view) (s source, shown cells, err error)

// stream serves the changes of a page for as long as a page is open:
//
//	event: cells    data: {"NAME": "HTML", …}           what has changed since the event before, or the page
//	event: shape    data: {"shape": "…"}                the page has other elements now: load it again
//
// It is compressed if the browser can take it and nothing secret is in it: lengths would say something about what is.
// The page of a task has secrets, the one of all tasks has none. A reader that does not accept an event in time is
// dropped; browsers reconnect by themselves.
func (p *Page) stream(trusted, secret bool, open open) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		reader := p.trusts(r, trusted)
		kind := streams.UntrustedPage
		if reader {
			kind = streams.Page
		}
		leave, ok := p.options.Streams.Enter(kind)
		if !ok {
			w.Header().Set("Retry-After", "10")
			w.Header().Set("Connection", "close")
			http.Error(w, "too many live pages are open", http.StatusServiceUnavailable)
			return
		}
		defer leave()
		w.Header().Set("Content-Type", "text/event-stream")
		s := &streamer{
			page: p, request: r, trusted: trusted, table: !secret, out: streams.Writer{To: w, Stall: p.options.WriteTimeout},
		}
		if acceptsGzip(r) && (!secret || !reader) {
			w.Header().Set("Content-Encoding", "gzip")
			s.zipped = new(bytes.Buffer)
			s.zip, _ = gzip.NewWriterLevel(s.zipped, gzip.BestSpeed) // the level is right
		}
		if err := s.run(open); err != nil {
			p.log.Debug("stream page", "path", r.URL.Path, "error", err)
		}
	}
}

func acceptsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// streamer is one live page.
type streamer struct {
	page    *Page
	request *http.Request
	trusted bool
	// table says that it is the page of all tasks.
	table  bool
	source source
	out    streams.Writer
	// zip compresses into zipped what is sent; nil if nothing is compressed.
	zip    *gzip.Writer
	zipped *bytes.Buffer
	shape  string
	shown  cells
}

func (s *streamer) run(open open) error {
	ticks := time.Tick(s.page.options.Interval)
	if err := s.write([]byte("retry: 2000\n\n")); err != nil { // browsers wait for a first byte
		return err
	}
	v := s.page.newView(s.request, s.trusted)
	var err error
	if s.source, s.shown, err = open(v); err != nil {
		return err
	}
	every := 1
	if s.table && len(v.now.Allocations) > manyTasks {
		every = 2
	}
	for i := 0; ; i++ {
		if i%every == 0 {
			if err := s.send(); err != nil {
				return err
			}
		}
		select {
		case <-s.request.Context().Done():
			return nil
		case <-s.page.closed:
			return nil
		case <-ticks:
		}
	}
}

// send sends what has changed.
func (s *streamer) send() error {
	v := s.page.newView(s.request, s.trusted)
	shape, now, err := s.source(v)
	if err != nil {
		shape, now = "gone", nil // the page that is loaded then says why
	}
	if shape = shapeWord(shape, v); s.shape != shape {
		s.shape = shape
		if err := s.sendEvent("shape", map[string]string{"shape": shape}); err != nil {
			return err
		}
	}
	changed := cells{}
	for name, html := range now {
		if shown, known := s.shown[name]; !known || shown != html {
			changed[name] = html
		}
	}
	s.shown = now
	// Sent also if nothing has changed: without events a reader assumes that the connection is broken.
	return s.sendEvent("cells", changed)
}

// write sends a piece at once.
func (s *streamer) write(p []byte) error {
	if s.zip == nil {
		return s.out.Send(p)
	}
	s.zipped.Reset()
	_, err := s.zip.Write(p)
	if err = errors.Join(err, s.zip.Flush()); err != nil {
		return fmt.Errorf("compress stream: %w", err)
	}
	return s.out.Send(s.zipped.Bytes())
}

// sendEvent sends a server-sent event, https://html.spec.whatwg.org/multipage/server-sent-events.html.
func (s *streamer) sendEvent(event string, data any) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "event: %s\ndata: ", event)
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)                 // nothing is read as HTML before it is decoded
	if err := encoder.Encode(data); err != nil { // it ends the line
		return fmt.Errorf("encode %s: %w", event, err)
	}
	text.WriteByte('\n')
	return s.write(text.Bytes())
}

// shapeWord is the word for a page's shape, in the page and in its stream.
func shapeWord(shape string, v *view) string {
	return digest([]string{shape, v.Notice, strconv.FormatBool(v.Trusted)})
}

// digest is a short word that differs if the parts do.
func digest(parts []string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// cells are the elements of a page that change, by what they carry in data-live.
type cells map[string]string

// liveCells renders a page and returns the content of its elements with data-live. They are not in each other.
func (p *Page) liveCells(v *view) (cells, error) {
	v.Machine = p.machine(v.request.Context(), v.now, v.Trusted)
	rest, err := p.execute("page", v)
	if err != nil {
		return nil, err
	}
	found := cells{}
	attribute := []byte(` data-live="`)
	for {
		at := bytes.Index(rest, attribute)
		if at < 0 {
			return found, nil
		}
		tag, _, _ := bytes.Cut(rest[bytes.LastIndexByte(rest[:at], '<')+1:at], []byte(" "))
		name, after, _ := bytes.Cut(rest[at+len(attribute):], []byte(`"`))
		_, after, _ = bytes.Cut(after, []byte(">")) // attributes have it as &gt;
		end := endOf(after, tag)
		if end < 0 {
			return nil, fmt.Errorf("element %s of the page has no end", name)
		}
		found[html.UnescapeString(string(name))] = string(after[:end])
		rest = after[end:]
	}
}

// endOf returns where the end tag of an element is, in what follows its start tag; -1 if there is none.
func endOf(content, tag []byte) int {
	text := string(tag)
	starts, end := [][]byte{[]byte("<" + text + " "), []byte("<" + text + ">")}, []byte("</"+text+">")
	from, open := 0, 0
	for {
		at := bytes.Index(content[from:], end)
		if at < 0 {
			return -1
		}
		for _, start := range starts {
			open += bytes.Count(content[from:from+at], start)
		}
		if open == 0 {
			return from + at
		}
		open--
		from += at + len(end)
	}
}

// overviewSource finds the table that the page was made from. The tasks of the live page are those that the page had
// when it was loaded. If they are sorted by a number, the script moves them as it changes.
func (p *Page) overviewSource(v *view) (source, cells, error) {
	query := v.request.URL.Query()
	l := listingOf(query)
	g := p.overview.find(query.Get("at"))
	remembered := g != nil
	if !remembered {
		g = p.rows(v.now, v.Now)
	}
	groups := g.list(l, v.Now).Groups
	now := func(v *view) (string, cells, error) {
		return p.loadedCells(v, groups, p.rows(v.now, v.Now), l)
	}
	if !remembered {
		return now, nil, nil
	}
	_, shown, err := p.loadedCells(v, groups, g, l)
	return now, shown, err
}

// loadedCells makes the page with the groups that were loaded and the numbers of a table. Rows that have ended stay:
// the page is loaded again for them.
func (p *Page) loadedCells(v *view, groups []group, g *generation, l listing) (string, cells, error) {
	known := make(map[string]*row, len(g.rows))
	for i := range g.rows {
		if r := &g.rows[i]; r.End == nil {
			known[r.Key()] = r
		}
	}
	shown := g.list(l, v.Now)
	shown.Groups = make([]group, 0, len(groups))
	for _, loaded := range groups {
		rows := make([]*row, 0, len(loaded.Rows))
		for _, r := range loaded.Rows {
			rows = append(rows, cmp.Or(known[r.Key()], r))
		}
		if loaded.Rows = rows; loaded.Head {
			loaded.sum(shown.live)
		}
		shown.Groups = append(shown.Groups, loaded)
	}
	if shown.Order != "" && len(groups) > 0 && !shown.reorder() {
		shown.shape += " outdated"
	}
	v.Template, v.Body = "overview", shown
	c, err := p.liveCells(v)
	return shown.shape, c, err
}

// filledBy is the source of a page that a function fills.
func (p *Page) filledBy(fill func(*view) error) source {
	return func(v *view) (string, cells, error) {
		if err := fill(v); err != nil {
			return "", nil, err
		}
		c, err := p.liveCells(v)
		return v.Shape, c, err
	}
}

// taskSource says what the page of a task shows if nothing was read since it was made.
func (p *Page) taskSource(v *view) (source, cells, error) {
	now := p.filledBy(p.taskPage)
	_, shown, err := now(v)
	if body, ok := v.Body.(*taskView); err != nil || !ok || body.at != v.request.URL.Query().Get("at") {
		return now, nil, nil //nolint:nilerr // the first event says that the page is gone
	}
	return now, shown, nil
}
