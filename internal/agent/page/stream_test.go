// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/testkit"
)

// events reads server-sent events.
type events struct {
	body  io.ReadCloser
	lines *bufio.Scanner
}

func listen(t *testing.T, address string) *events {
	t.Helper()
	r := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
	response := testkit.Value(http.DefaultClient.Do(r))(t) //nolint:bodyclose // closed below
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", address, response.Status)
	}
	e := &events{body: response.Body, lines: bufio.NewScanner(response.Body)}
	e.lines.Buffer(nil, 16<<20)
	return e
}

// next returns the next event; ok is false at the end of the stream.
func (e *events) next(t *testing.T) (kind string, data map[string]string, ok bool) {
	t.Helper()
	for e.lines.Scan() {
		line := e.lines.Text()
		if name, found := strings.CutPrefix(line, "event: "); found {
			kind = name
		}
		if text, found := strings.CutPrefix(line, "data: "); found {
			if err := json.Unmarshal([]byte(text), &data); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
		}
		if line == "" && kind != "" {
			return kind, data, true
		}
	}
	return "", nil, false
}

// TestStreamIsThePage holds that what a stream sends first is what the page has, element for element.
func TestStreamIsThePage(t *testing.T) {
	t.Parallel()
	a := stage(t)
	p := page.New(a, page.Options{Now: moment})
	server := httptest.NewServer(p.Handler(false))
	defer server.Close()
	defer p.Close()
	shape := regexp.MustCompile(`data-shape="([^"]*)"`)
	for _, path := range []string{
		"/", "/machine", "/?q=shop&sort=cpu", task(1, "api"), task(3, "extract"), task(4, "rsync"),
		task(6, "load"), task(9, "fit"), task(3, "extract") + "?span=5m",
	} {
		content := get(t, p.Handler(false), path).Body.String()
		found := regexp.MustCompile(`data-stream="([^"]*)"`).FindStringSubmatch(content)
		if found == nil {
			t.Fatalf("%s has no stream", path)
		}
		address := server.URL + html.UnescapeString(found[1])
		stream := listen(t, regexp.MustCompile(`at=[^&]*`).ReplaceAllString(address, "at=none"))
		kind, data, _ := stream.next(t)
		if want := shape.FindStringSubmatch(content)[1]; kind != "shape" || data["shape"] != want {
			t.Errorf("%s: the stream begins with %s %v, want the shape %s", path, kind, data, want)
		}
		kind, data, _ = stream.next(t)
		if kind != "cells" || len(data) == 0 {
			t.Fatalf("%s: then comes %s of %d", path, kind, len(data))
		}
		for name, inner := range data {
			if element := `data-live="` + html.EscapeString(name) + `"`; !strings.Contains(content, element) {
				t.Errorf("%s: there is no element %s", path, name)
			} else if !strings.Contains(content, ">"+inner+"</") {
				t.Errorf("%s: %s differs: the stream has %s", path, name, inner)
			}
		}
		for _, live := range regexp.MustCompile(`data-live="([^"]*)"`).FindAllStringSubmatch(content, -1) {
			if _, ok := data[html.UnescapeString(live[1])]; !ok {
				t.Errorf("%s: the stream never sends %s", path, live[1])
			}
		}
		stream.body.Close()
	}
}

// TestFirstFrame holds that a page's stream does not repeat what the page has.
func TestFirstFrame(t *testing.T) {
	t.Parallel()
	a := stage(t)
	p := page.New(a, page.Options{Now: moment})
	server := httptest.NewServer(p.Handler(false))
	defer server.Close()
	defer p.Close()
	for _, path := range []string{"/", "/?q=shop&sort=cpu", "/?state=problems", task(1, "api"), task(3, "extract") +
		"?span=5m"} {
		content := get(t, p.Handler(false), path).Body.String()
		found := regexp.MustCompile(`data-stream="([^"]*)"`).FindStringSubmatch(content)
		stream := listen(t, server.URL+html.UnescapeString(found[1]))
		stream.next(t)
		_, data, _ := stream.next(t)
		delete(data, "machine") // is not of one time with the rest
		if len(data) > 0 {
			t.Errorf("%s: the stream repeats %v", path, slices.Sorted(maps.Keys(data)))
		}
		stream.body.Close()
	}
}

// TestLiveOrder holds that a page sorted by a number is sorted anew as the numbers change, without being loaded again.
func TestLiveOrder(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	now := func() time.Time { return moment().Add(time.Duration(ahead.Load())) }
	a := pagetest.New(now)
	for i := range 6 {
		a.Add(&pagetest.Actor{
			ID: pagetest.ID(i), Job: "j", Group: "g", Name: fmt.Sprint("t", i), Cores: 1, Memory: 1 << 20,
			Started: moment().Add(-time.Hour - time.Duration(17*i)*time.Second),
		})
	}
	p := page.New(a, page.Options{Now: now, Interval: 20 * time.Millisecond})
	server := httptest.NewServer(p.Handler(false))
	defer server.Close()
	defer p.Close()
	content := get(t, p.Handler(false), "/?sort=cpu").Body.String()
	loaded := strings.Fields(rowsOf(content))
	stream := listen(t, server.URL+html.UnescapeString(regexp.MustCompile(`data-stream="([^"]*)"`).FindStringSubmatch(content)[1]))
	defer stream.body.Close()
	shapes := 0
	for range 200 {
		ahead.Add(int64(10 * time.Second))
		kind, data, _ := stream.next(t)
		if kind == "shape" {
			shapes++
		}
		order, changed := data["order"]
		if kind != "cells" || !changed {
			continue
		}
		rows := make([]string, 0, len(loaded))
		for place := range strings.FieldsSeq(order) {
			rows = append(rows, loaded[testkit.Value(strconv.Atoi(place))(t)])
		}
		if slices.Equal(rows, loaded) || shapes > 1 {
			t.Errorf("%d shapes, rows %v", shapes, rows)
		}
		return
	}
	t.Error("the rows never change places")
}

// TestCompressed holds that streams are compressed, and those with secrets never.
func TestCompressed(t *testing.T) {
	t.Parallel()
	p := page.New(stage(t), page.Options{Now: moment})
	defer p.Close()
	for _, tt := range []struct {
		path                string
		trusted, compressed bool
	}{
		{"/page/stream/", false, true},
		{"/page/stream/", true, true},
		{"/page/stream" + task(1, "api"), false, true},
		{"/page/stream" + task(1, "api"), true, false},
	} {
		server := httptest.NewServer(p.Handler(tt.trusted))
		r := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+tt.path, nil))(t)
		r.Header.Set("Accept-Encoding", "gzip")                // by hand: it is not decoded then
		response := testkit.Value(http.DefaultClient.Do(r))(t) //nolint:bodyclose // closed below
		if got := response.Header.Get("Content-Encoding") == "gzip"; got != tt.compressed {
			t.Errorf("%s, trusted %v: compressed is %v", tt.path, tt.trusted, got)
		}
		if tt.compressed {
			z := testkit.Value(gzip.NewReader(response.Body))(t)
			if _, err := io.ReadFull(z, make([]byte, 500)); err != nil { // each event is sent at once
				t.Error(err)
			}
		}
		response.Body.Close()
		server.CloseClientConnections()
		server.Close()
	}
}

// TestStreamSendsChanges holds that only what changed is sent, and that the page is told when it has to load again.
func TestStreamSendsChanges(t *testing.T) {
	t.Parallel()
	a := stage(t)
	p := page.New(a, page.Options{Now: moment, Interval: 10 * time.Millisecond})
	server := httptest.NewServer(p.Handler(false))
	defer server.Close()
	defer p.Close()
	stream := listen(t, server.URL+"/page/stream/")
	stream.next(t)
	stream.next(t)
	if kind, data, _ := stream.next(t); kind != "cells" || len(data) != 0 {
		t.Errorf("nothing has changed, and the stream sends %s %v", kind, data)
	}
	a.SetPublishing("turned off")
	for {
		kind, data, ok := stream.next(t)
		if !ok {
			t.Fatal("the stream ended")
		}
		if kind == "shape" {
			break
		}
		if len(data) > 0 {
			continue // the numbers may go before the notice
		}
	}
}

func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	p := page.New(stage(t), page.Options{Now: moment, Interval: time.Hour, Streams: one()})
	server := httptest.NewServer(p.Handler(false))
	defer server.Close()
	stream := listen(t, server.URL+"/page/stream/")
	stream.next(t)
	if w := get(t, p.Handler(false), "/page/stream/"); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many gets %d", w.Code)
	}
	trusted := httptest.NewServer(p.Handler(true))
	defer trusted.Close()
	defer p.Close()
	listen(t, trusted.URL+"/page/stream/").next(t) // has a place that strangers cannot take
	p.Close()
	p.Close()
	for {
		if _, _, ok := stream.next(t); !ok {
			break
		}
	}
}

// TestSlowReader holds that a reader who takes nothing is dropped, and makes room for others.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	p := page.New(pagetest.Many(time.Now, 50), page.Options{
		Interval: time.Millisecond, Streams: one(), WriteTimeout: 50 * time.Millisecond,
	})
	server := httptest.NewUnstartedServer(p.Handler(false))
	// With the kernel's own buffers megabytes of small changes would have to be written before anything stalls.
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		testkit.NoError(t, c.(*net.TCPConn).SetWriteBuffer(4096))
		return ctx
	}
	server.Start()
	defer server.Close()
	defer p.Close()
	conn := testkit.Value(net.Dial("tcp", server.Listener.Addr().String()))(t)
	defer conn.Close()
	must(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	if _, err := io.WriteString(conn, "GET /page/stream/ HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 15)); err != nil { // its place is taken
		t.Fatal(err)
	}
	ctx := t.Context()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		r := testkit.Value(http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/page/stream/", nil))(t)
		response := testkit.Value(http.DefaultClient.Do(r))(t) //nolint:bodyclose // closed below
		code := response.StatusCode
		response.Body.Close()
		if code == http.StatusOK {
			return
		}
	}
	t.Error("the slow reader keeps its place")
}

// TestHistoryIsReadOnce holds that looking at a page does not read every history anew.
func TestHistoryIsReadOnce(t *testing.T) {
	t.Parallel()
	now := moment()
	clock := func() time.Time { return now }
	a := pagetest.Many(clock, 40)
	h := page.New(a, page.Options{Now: clock}).Handler(false)
	for range 120 {
		get(t, h, "/")
		now = now.Add(time.Second)
	}
	if n := a.HistoryReads(); n != 40 {
		t.Errorf("120 looks at 40 tasks read %d histories", n)
	}
}

// TestManyTasks holds that every one of 500 tasks is on a page, and that each page is of a size that loads at once.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	h := page.New(pagetest.Many(moment, 500), page.Options{Now: moment}).Handler(false)
	for range 10 { // the histories come in turns
		get(t, h, "/")
	}
	seen := map[string]bool{}
	link := regexp.MustCompile(`class="task" href="([^"]*)"`)
	for n := 1; n <= 13; n++ {
		path := fmt.Sprintf("/?page=%d", n)
		content := get(t, h, path).Body.String()
		for _, found := range link.FindAllStringSubmatch(content, -1) {
			if seen[found[1]] {
				t.Errorf("%s is on two pages", found[1])
			}
			seen[found[1]] = true
		}
		if len(content) > 256<<10 {
			t.Errorf("%s has %d bytes", path, len(content))
		}
		compressed := get(t, h, path, "Accept-Encoding", "gzip").Body
		size := compressed.Len()
		z := testkit.Value(gzip.NewReader(compressed))(t)
		if whole, err := io.ReadAll(z); err != nil || string(whole) != content {
			t.Errorf("compressed, it is another page: %v", err)
		}
		t.Logf("%d bytes, %d compressed", len(content), size)
	}
	testkit.Equal(t, len(seen), 500, "tasks on some page")
}

// one returns room for one stream of each kind.
func one() *streams.Room {
	return streams.New(streams.Limits{streams.Page: 1, streams.UntrustedPage: 1})
}
