// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/testkit"
)

// serve listens on a port until the test ends.
func serve(t *testing.T, s *Server) (url string, server *http.Server) {
	t.Helper()
	listener := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	server = s.HTTPServer(false)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + listener.Addr().String(), server
}

// stream is an answer that goes on.
type stream struct {
	status int
	header http.Header
	body   io.Reader
}

// open sends a request with the token; the answer is closed when the test ends.
func open(ctx context.Context, t *testing.T, url string) stream {
	t.Helper()
	r := testkit.Value(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
	withToken(r)
	resp := testkit.Value(http.DefaultClient.Do(r))(t) //nolint:bodyclose // closed below
	t.Cleanup(func() { _ = resp.Body.Close() })
	return stream{resp.StatusCode, resp.Header, resp.Body}
}

// dial opens a WebSocket with the token, which is closed when the test ends, and sends messages.
func dial(t *testing.T, url string, messages ...string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{ //nolint:bodyclose // the library's
		HTTPHeader: http.Header{"X-Nomad-Token": {testToken}},
	})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	for _, message := range messages {
		testkit.Must(t, conn.Write(t.Context(), websocket.MessageText, []byte(message)))
	}
	return conn
}

func TestEventStream(t *testing.T) {
	f := newFake()
	s := newTestServer(f)
	s.heartbeat = 20 * time.Millisecond
	url, _ := serve(t, s)
	f.feed.Publish(snapshot.Event{Topic: snapshot.TopicJob, Type: "JobRegistered", Key: "nightly", Namespace: "default"})
	f.feed.Publish(snapshot.Event{Topic: snapshot.TopicAllocation, Type: snapshot.AllocationUpdated, Key: webID, FilterKeys: []string{"web"}, Namespace: "default", Allocation: f.allocs[0]})

	lines := bufio.NewScanner(open(t.Context(), t, url+"/v1/event/stream?index=41&topic=Allocation:web").body)
	lines.Buffer(nil, 1<<20)
	beats := 0
	for lines.Scan() {
		if lines.Text() == "{}" {
			if beats++; beats > 100 {
				t.Fatal("the event does not come")
			}
			continue
		}
		var got struct {
			Index  uint64
			Events []struct {
				Topic, Type, Key string
				Payload          struct{ Allocation struct{ ID string } }
			}
		}
		testkit.Must(t, json.Unmarshal(lines.Bytes(), &got))
		if got.Index != 42 || len(got.Events) != 1 || got.Events[0].Payload.Allocation.ID != webID {
			t.Errorf("%s", lines.Text())
		}
		return
	}
	t.Error("the stream ended", lines.Err())
}

// TestEventPayloads holds what programs read of each event: its payload is there, whatever has happened since.
func TestEventPayloads(t *testing.T) {
	f := newFake()
	s := newTestServer(f)
	for _, test := range []struct {
		event snapshot.Event
		want  []string
	}{
		{snapshot.Event{Topic: snapshot.TopicJob, Type: "JobRegistered", Key: "web"}, []string{"Job web", "Evaluation web"}},
		{snapshot.Event{Topic: snapshot.TopicJob, Type: "JobDeregistered", Key: "purged"}, []string{"Job purged", "Evaluation purged"}},
		{snapshot.Event{Topic: snapshot.TopicJob, Type: snapshot.AllocationUpdated, Key: "web"}, []string{"Job web"}},
		{snapshot.Event{Topic: snapshot.TopicNode, Type: "NodeStreamEvent", Key: nodeID}, []string{"Node " + nodeID}},
		{snapshot.Event{Topic: snapshot.TopicAllocation, Type: "AllocationRemoved", Key: webID, Allocation: f.allocs[0]}, []string{"Allocation " + webID}},
	} {
		var got []string
		for _, e := range s.newEvents(newRequest(httptest.NewRequest(http.MethodGet, "/", nil)), &test.event) {
			id := ""
			switch p := e.Payload; {
			case p.Job != nil:
				id = p.Job.(*jobJSON).ID
			case p.Evaluation != nil:
				id = p.Evaluation.(*evaluation).JobID
			case p.Node != nil:
				id = p.Node.(object)["ID"].(string)
			case p.Allocation != nil:
				id = p.Allocation.ID
			}
			got = append(got, e.Topic+" "+id)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.event.Type, got, test.want)
		}
	}
}

func TestStatsStream(t *testing.T) {
	f := newFake()
	url, _ := serve(t, newTestServer(f))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp := open(ctx, t, url+"/v1/client/allocation/"+webID+"/stats/stream")
	if resp.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v", resp.header)
	}
	lines := bufio.NewScanner(resp.body)
	lines.Buffer(nil, 1<<20)
	seen := []string{}
	for len(seen) < 2 && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var u allocationUsage
			testkit.Must(t, json.Unmarshal([]byte(data), &u))
			seen = append(seen, u.Tacho.Reason)
			f.mu.Lock()
			f.publishing = false // a change that the stream has to tell
			f.mu.Unlock()
		}
	}
	testkit.Diff(t, "result", []string{"", "publish_allocation_metrics is off"}, seen)
}

func TestStatsStreamEnds(t *testing.T) {
	f := newFake()
	url, _ := serve(t, newTestServer(f))
	text, err := io.ReadAll(open(t.Context(), t, url+"/v1/client/allocation/"+batchID+"/stats/stream").body)
	if err != nil || !strings.Contains(string(text), "event: end\ndata: {\"status\":\"failed\"}") {
		t.Errorf("%v\n%s", err, text)
	}
	// One task of an allocation that runs.
	f.allocs[0].Tasks["before"] = &allocation.Task{Name: "before", State: hook.State{Phase: hook.PhaseDead}}
	text, err = io.ReadAll(open(t.Context(), t, url+"/v1/client/allocation/"+webID+"/stats/stream?task=before").body)
	if err != nil || !strings.Contains(string(text), "event: end\ndata: {\"status\":\"running\"}") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestLogs(t *testing.T) {
	f := newFake()
	f.allocs[0].Dir = datadir.In(t.TempDir(), webID)
	f.writeLog(t, "one\ntwo\nthree\n")
	s := newTestServer(f)
	s.poll, s.heartbeat = 5*time.Millisecond, 10*time.Millisecond
	url, _ := serve(t, s)
	logs := url + "/v1/client/fs/logs/" + webID + "?task=web&type=stdout"
	for query, want := range map[string]string{
		"&plain=true":                     "one\ntwo\nthree\n",
		"&plain=true&offset=4":            "two\nthree\n",
		"&plain=true&offset=6&origin=end": "three\n",
		"&plain=true&offset=99":           "",
	} {
		text, err := io.ReadAll(open(t.Context(), t, logs+query).body)
		if err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", query, text, err)
		}
	}

	decoder := json.NewDecoder(open(t.Context(), t, logs+"&follow=true").body)
	got := ""
	for !strings.HasSuffix(got, "four\n") {
		var fr frame
		testkit.Must(t, decoder.Decode(&fr))
		if len(fr.Data) > 0 && (fr.File != "alloc/logs/web.stdout.0" || fr.Offset != int64(len(got)+len(fr.Data))) {
			t.Errorf("%+v", fr)
		}
		if got += string(fr.Data); got == "one\ntwo\nthree\n" && len(fr.Data) == 0 { // a sign of life: all was read
			f.writeLog(t, "four\n")
		}
	}
}

// TestLogsBeginAtOnce follows a stream that nothing was written to: the answer has to begin all the same.
func TestLogsBeginAtOnce(t *testing.T) {
	s := newTestServer(newFake())
	s.heartbeat = time.Hour
	url, _ := serve(t, s)
	resp := open(t.Context(), t, url+"/v1/client/fs/logs/"+webID+"?type=stderr&follow=true")
	if resp.status != http.StatusOK || resp.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d, %v", resp.status, resp.header)
	}
}

// TestShutdownEndsStreams holds that a server with open streams goes down at once.
func TestShutdownEndsStreams(t *testing.T) {
	s := newTestServer(newFake())
	url, server := serve(t, s)
	first := open(t.Context(), t, url+"/v1/event/stream")
	second := open(t.Context(), t, url+"/v1/client/allocation/"+webID+"/stats/stream")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	testkit.NoError(t, server.Shutdown(ctx))
	for _, resp := range []stream{first, second} {
		if _, err := io.Copy(io.Discard, resp.body); err != nil && ctx.Err() != nil {
			t.Error(err)
		}
	}
}

// TestUntrustedLeaveRoom has untrusted callers take every place that they can get.
func TestUntrustedLeaveRoom(t *testing.T) {
	s := New(newFake(), Options{Token: theToken, Streams: one()})
	url, _ := serve(t, s)
	for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/client/allocation/"+webID+"/stats/stream", nil)
		testkit.Must(t, err)
		resp := testkit.Value(http.DefaultClient.Do(r))(t) //nolint:bodyclose // closed below
		defer resp.Body.Close()
		if resp.StatusCode != want {
			t.Fatalf("an untrusted caller gets %d, want %d", resp.StatusCode, want)
		}
	}
	testkit.Equal(t, open(t.Context(), t, url+"/v1/event/stream").status, http.StatusOK, "with the token")
}

// TestHistoryIsBounded holds that no caller gets the whole history by default, nor untrusted ones at all, and that the
// answers that are made at a time are bounded.
func TestHistoryIsBounded(t *testing.T) {
	f := newFake()
	s := New(f, Options{Token: theToken, Streams: one()})
	h := s.Handler(false)
	path := "/v1/client/allocation/" + webID + "/stats/history"
	ask(t, h, "GET", path, "")
	ask(t, h, "GET", path+"?step=1s", "")
	ask(t, h, "GET", path, "", withToken)
	ask(t, h, "GET", path+"?step=1s", "", withToken)
	want := []string{"history true true 0s 2000", "history true true 1s 2000", "history true true 0s 2000", "history true true 1s 0"}
	testkit.Diff(t, "result", want, f.called())
	if _, ok := s.options.Streams.Enter(streams.Untrusted); !ok { // another untrusted caller's
		t.Fatal("no room")
	}
	testkit.Equal(t, ask(t, h, "GET", path, "").Code, http.StatusServiceUnavailable, "one more")
	testkit.Equal(t, ask(t, h, "GET", path, "", withToken).Code, http.StatusOK, "with the token")
}

// TestPatience is about how long one write of a stream may take.
func TestPatience(t *testing.T) {
	s := newTestServer(newFake())
	for trusted, want := range map[bool]time.Duration{false: 10 * time.Second, true: 10 * time.Minute} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), trustKey{}, trusted), http.MethodGet, "/", nil)
		testkit.Equal(t, s.newStreamWriter(httptest.NewRecorder(), newRequest(r)).Stall, want, "trusted: %v", trusted)
	}
}

// TestSlowClientIsDropped has a client that asks for a stream and never reads. The log that it does not read is
// without end.
func TestSlowClientIsDropped(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a client counts as too slow")
	}
	f := newFake()
	f.allocs[0].Dir = datadir.In(t.TempDir(), webID)
	f.writeLog(t, strings.Repeat("x", 64<<20))
	s := newTestServer(f)
	s.patience = 200 * time.Millisecond
	url, _ := serve(t, s)
	conn := testkit.Value(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1/client/fs/logs/"+webID+"?type=stdout&follow=true HTTP/1.1\r\nHost: localhost\r\nX-Nomad-Token: "+testToken+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the stream begins", func() bool { return s.options.Streams.Usage()[0].Open == 1 })
	until(t, "the stream is dropped", func() bool { return s.options.Streams.Usage()[0].Open == 0 })
}

// TestBlockingQuery waits for an event, and for nothing.
func TestBlockingQuery(t *testing.T) {
	f := newFake()
	s := newTestServer(f)
	h := s.Handler(false)
	if w := ask(t, h, "GET", "/v1/jobs?index=40&wait=20ms", ""); w.Code != http.StatusOK || w.Header().Get("X-Nomad-Index") != "40" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	done := make(chan string)
	go func() { done <- ask(t, h, "GET", "/v1/jobs?index=40&wait=1m", "").Header().Get("X-Nomad-Index") }()
	f.feed.Publish(snapshot.Event{Topic: snapshot.TopicJob, Key: "web"})
	testkit.Equal(t, <-done, "41", "index")
	testkit.Equal(t, ask(t, h, "GET", "/v1/jobs?index=1&wait=1m", "").Code, http.StatusOK, "answer to an old index")
}

// one returns room for one stream of each kind.
func one() *streams.Room {
	return streams.New(streams.Limits{streams.Trusted: 1, streams.Untrusted: 1})
}

// TestFilesWithOddNames lists files whose names are not UTF-8, and reads them by the names in the list and by their own.
func TestFilesWithOddNames(t *testing.T) {
	f := newFake()
	f.allocs[0].Dir = datadir.Allocation(t.TempDir())
	f.writeLog(t, "") // makes the directory
	h := newTestServer(f).Handler(false)
	for name, listed := range map[string]string{"a\xff": `a\xff`, "a\xfe": `a\xfe`, `a\xff`: `a\x5cxff`} {
		testkit.Must(t, os.WriteFile(filepath.Join(f.allocs[0].Dir.Logs(), name), []byte(name), 0o600))
		var files []fileInfo
		get(t, h, "/v1/client/fs/ls/"+webID+"?path=alloc/logs", &files, withToken)
		if !slices.ContainsFunc(files, func(i fileInfo) bool { return i.Name == listed }) {
			t.Errorf("%q is not in %+v", listed, files)
		}
		w := ask(t, h, "GET", "/v1/client/fs/cat/"+webID+"?path=alloc/logs/"+url.QueryEscape(listed), "", withToken)
		testkit.Equal(t, w.Body.String(), name, "content of %s", listed)
	}
}

// TestStreamOfCutFile follows a file that is truncated, as by copytruncate of logrotate, and removed.
func TestStreamOfCutFile(t *testing.T) {
	f := newFake()
	s := newTestServer(f)
	s.poll, s.heartbeat = 5*time.Millisecond, 20*time.Millisecond
	f.allocs[0].Dir = datadir.Allocation(t.TempDir())
	f.writeLog(t, "") // makes the directory
	url, _ := serve(t, s)
	file := filepath.Join(f.allocs[0].Dir.Logs(), "app.log")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil { // truncates
			t.Fatal(err)
		}
	}
	write("first line")
	frames := json.NewDecoder(open(t.Context(), t, url+"/v1/client/fs/stream/"+webID+"?path=alloc/logs/app.log").body)
	next := func() (got frame) {
		t.Helper()
		for reflect.ValueOf(got).IsZero() { // signs of life
			testkit.Must(t, frames.Decode(&got))
		}
		return got
	}
	if got := next(); string(got.Data) != "first line" {
		t.Errorf("%+v", got)
	}
	write("new")
	if got := next(); got.FileEvent != "file truncated" {
		t.Errorf("%+v", got)
	}
	if got := next(); string(got.Data) != "new" || got.Offset != 3 {
		t.Errorf("%+v", got)
	}
	testkit.Must(t, os.Remove(file))
	if got := next(); got.FileEvent != "file deleted" {
		t.Errorf("%+v", got)
	}
	if err := frames.Decode(&frame{}); !errors.Is(err, io.EOF) {
		t.Errorf("after the file: %v", err)
	}
}

// TestLogsThatAreRemoved holds that the reader of a log is told what became of it, before it is opened and while it is
// followed.
func TestLogsThatAreRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		deed          func(dir string) error
		opened, ended string // what a new reader is told, and one that follows; the latter waits for more if it is empty
	}{
		"removed": {os.RemoveAll, "the log directory does not exist", ""},
		"parents": {func(dir string) error { return os.RemoveAll(filepath.Dir(filepath.Dir(dir))) }, "the log directory does not exist", ""},
		"a file":  {func(dir string) error { return os.Remove(filepath.Join(dir, "web.stdout.0")) }, "has written nothing", ""},
		"replaced by a file": {
			func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
			"not a directory", "was replaced: what the tasks write is lost",
		},
		"replaced by a link": {
			func(dir string) error { return errors.Join(os.Rename(dir, dir+".1"), os.Symlink(dir+".1", dir)) },
			"", "was replaced: what the tasks write is lost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			s := newTestServer(f)
			s.poll = 5 * time.Millisecond
			f.allocs[0].Dir = datadir.Allocation(filepath.Join(t.TempDir(), webID))
			f.writeLog(t, "one\n")
			url, _ := serve(t, s)
			url += "/v1/client/fs/logs/" + webID + "?type=stdout&plain=true"
			r := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, url+"&follow=true", nil))(t)
			withToken(r)
			following := testkit.Value(http.DefaultClient.Do(r))(t) //nolint:bodyclose // closed below
			defer following.Body.Close()
			first := make([]byte, 4)
			_, err := io.ReadFull(following.Body, first)
			testkit.Must(t, err)
			testkit.Must(t, test.deed(f.allocs[0].Dir.Logs()))
			if text := testkit.Value(io.ReadAll(open(t.Context(), t, url).body))(t); !strings.Contains(string(text), test.opened) {
				t.Errorf("a new reader gets %q, want %q", text, test.opened)
			}
			if test.ended == "" { // the next file is where the executor goes on
				dir := f.allocs[0].Dir.Logs()
				testkit.Must(t, os.MkdirAll(dir, 0o700))
				testkit.Must(t, os.WriteFile(filepath.Join(dir, "web.stdout.1"), []byte("two\n"), 0o600))
				_, err := io.ReadFull(following.Body, first)
				testkit.Must(t, err)
				testkit.Equal(t, string(first), "two\n", "what is followed")
				return
			}
			rest := testkit.Value(io.ReadAll(following.Body))(t)
			testkit.Equal(t, string(rest), "", "what follows")
			if why := following.Trailer.Get(apijson.StreamError); !strings.Contains(why, test.ended) {
				t.Errorf("the follower is told %q, want %q", why, test.ended)
			}
		})
	}
}
