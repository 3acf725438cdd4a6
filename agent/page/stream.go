// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/tachograph/tacho/agent/streams"
)

// cells are the elements of a page that change, by what they carry in data-live.
type cells map[string]string

// cellsOf makes the cells of a page, and a word that changes when the page as a whole has to be loaded anew.
type cellsOf func(v *view) (shape string, c cells, err error)

// manyRows is how many tasks make a page change half as often.
const manyRows = 100

// stream serves the changes of a page for as long as somebody looks:
//
//	event: cells    data: {"NAME": "HTML", …}   what has changed since the event before
//	event: shape    data: {"shape": "…"}        the page has other elements now: load it again
//
// A reader that does not accept an event in time is dropped; browsers reconnect by themselves.
func (p *Page) stream(trusted bool, make cellsOf) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind := streams.UntrustedPage
		if trusted || p.authorized(r) {
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
			page: p, request: r, trusted: trusted, make: make, shown: cells{},
			out: streams.Writer{To: w, Stall: p.options.WriteTimeout},
		}
		if err := s.run(); err != nil {
			p.log.Debug("stream page", "path", r.URL.Path, "error", err)
		}
	}
}

// streamer is one live page.
type streamer struct {
	page    *Page
	request *http.Request
	trusted bool
	make    cellsOf
	out     streams.Writer
	shape   string
	shown   cells
}

func (s *streamer) run() error {
	ticker := time.NewTicker(s.page.options.Interval)
	defer ticker.Stop()
	if err := s.out.Send([]byte("retry: 2000\n\n")); err != nil { // browsers wait for a first byte
		return err
	}
	for i := 0; ; i++ {
		if len(s.shown) < manyRows*cellsPerRow || i%2 == 0 {
			if err := s.send(); err != nil {
				return err
			}
		}
		select {
		case <-s.request.Context().Done():
			return nil
		case <-s.page.closed:
			return nil
		case <-ticker.C:
		}
	}
}

// send sends what has changed.
func (s *streamer) send() error {
	v := s.page.newView(s.request, s.trusted)
	shape, now, err := s.make(v)
	if err != nil {
		shape, now = "gone", nil // the page that is loaded then says why
	}
	if shape = shapeWord(shape, v.Notice); s.shape != shape {
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

// sendEvent sends a server-sent event, https://html.spec.whatwg.org/multipage/server-sent-events.html.
func (s *streamer) sendEvent(event string, data any) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "event: %s\ndata: ", event)
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)                 // it would double what is sent, and nothing here is read as HTML before it is decoded
	if err := encoder.Encode(data); err != nil { // it ends the line
		return fmt.Errorf("encode %s: %w", event, err)
	}
	text.WriteByte('\n')
	return s.out.Send(text.Bytes())
}

// shapeWord is the word for a page's shape, in the page and in its stream.
func shapeWord(shape, notice string) string { return digest([]string{shape, notice}) }

// digest is a short word that differs if the parts do.
func digest(parts []string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
