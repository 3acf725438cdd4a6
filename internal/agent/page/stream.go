// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
		w.Header().Set("Cache-Control", "no-store")
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
