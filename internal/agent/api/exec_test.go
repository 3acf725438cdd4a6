// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
)

// fakeExec echoes what it gets, and ends when its input does.
type fakeExec struct {
	err   error           // what Recv fails with
	ctx   context.Context //nolint:containedctx // the command's own
	input chan []byte
	sizes []driver.TerminalSize
	ended bool
	deaf  bool // reads no input
}

func (e *fakeExec) Recv() (driver.ExecOutput, error) {
	if e.ended {
		return driver.ExecOutput{}, io.EOF
	}
	if e.err != nil {
		return driver.ExecOutput{}, e.err
	}
	input := e.input
	if e.deaf {
		input = nil
	}
	select {
	case p, ok := <-input:
		if !ok {
			e.ended = true
			return driver.ExecOutput{Stderr: []byte("bye"), Exit: &driver.ExitResult{Code: 3}}, nil
		}
		return driver.ExecOutput{Stdout: p}, nil
	case <-e.ctx.Done():
		return driver.ExecOutput{}, e.ctx.Err()
	}
}

func (e *fakeExec) Write(p []byte) (int, error) {
	select {
	case e.input <- p:
		return len(p), nil
	case <-e.ctx.Done():
		return 0, e.ctx.Err()
	}
}

func (e *fakeExec) CloseWrite() error {
	close(e.input)
	return nil
}

func (e *fakeExec) Resize(size driver.TerminalSize) error {
	e.sizes = append(e.sizes, size)
	return nil
}

// TestExecOfClientThatIsGone has a command that reads no input, so that nobody reads from the connection.
func TestExecOfClientThatIsGone(t *testing.T) {
	f := newFake()
	f.exec = &fakeExec{input: make(chan []byte), deaf: true}
	s := newTestServer(f)
	s.heartbeat = 5 * time.Millisecond
	url, _ := serve(t, s)
	conn := dial(t, url+"/v1/client/allocation/"+webID+`/exec?task=web&ws_handshake=true&command=["sleep","1d"]`)
	for _, message := range []string{`{"version":1,"auth_token":"` + testToken + `"}`, `{"stdin":{"data":"aGk="}}`, `{"stdin":{"data":"aGk="}}`} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	if _, text, err := conn.Read(t.Context()); err != nil || strings.Contains(string(text), "data\":\"") {
		t.Fatalf("%s, %v; want a sign of life", text, err)
	}
	if err := conn.CloseNow(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-f.exec.ctx.Done():
	case <-time.After(10 * time.Second):
		t.Error("the command runs on")
	}
}

func TestExec(t *testing.T) {
	f := newFake()
	f.exec = &fakeExec{input: make(chan []byte, 8)}
	url, _ := serve(t, newTestServer(f))
	path := url + "/v1/client/allocation/" + webID + `/exec?task=web&tty=true&ws_handshake=true&command=["cat","-"]`
	conn := dial(t, path)
	for _, message := range []string{
		`{"version":1,"auth_token":"` + testToken + `"}`, `{"tty_size":{"height":24,"width":80}}`, `{"stdin":{"data":"aGk="}}`, `{}`,
		`{"stdin":{"close":true}}`,
	} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for {
		_, text, err := conn.Read(t.Context())
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimSpace(string(text)))
	}
	want := []string{`{"stdout":{"data":"aGk="}}`, `{"stderr":{"data":"Ynll"}}`, `{"exited":true,"result":{"exit_code":3}}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]driver.TerminalSize{{Rows: 24, Columns: 80}}, f.exec.sizes); diff != "" {
		t.Error(diff)
	}
}

// TestExecOfNoCommand is the answer for a command that cannot be started: as by a shell.
func TestExecOfNoCommand(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want [2]string
	}{
		{driver.ErrCommandNotFound, [2]string{`{"stderr":{"data":"Y29tbWFuZCBub3QgZm91bmQK"}}`, `{"exited":true,"result":{"exit_code":127}}`}},
		{driver.ErrNotExecutable, [2]string{`{"stderr":{"data":"Y29tbWFuZCBjYW5ub3QgYmUgZXhlY3V0ZWQK"}}`, `{"exited":true,"result":{"exit_code":126}}`}},
	} {
		f := newFake()
		f.exec = &fakeExec{input: make(chan []byte, 8), err: tt.err}
		url, _ := serve(t, newTestServer(f))
		conn := dial(t, url+"/v1/client/allocation/"+webID+`/exec?task=web&ws_handshake=true&command=["x"]`)
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"version":1,"auth_token":"`+testToken+`"}`)); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if _, text, err := conn.Read(t.Context()); strings.TrimSpace(string(text)) != want || err != nil {
				t.Errorf("%s, %v", text, err)
			}
		}
		if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Error(err)
		}
	}
}

// TestExecRefused is the answer when nothing is run.
func TestExecRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		hello, query string
		err          error
		want         websocket.StatusCode
	}{
		"wrong token":   {`{"version":1,"auth_token":"x"}`, `command=["ls"]`, nil, 4403},
		"no token":      {`{"version":1}`, `command=["ls"]`, nil, 4403},
		"version":       {`{"version":2}`, `command=["ls"]`, nil, 4400},
		"no command":    {`{"version":1,"auth_token":"` + testToken + `"}`, `command=ls`, nil, 4400},
		"no such task":  {`{"version":1,"auth_token":"` + testToken + `"}`, `command=["ls"]&task=x`, nil, 4404},
		"not running":   {`{"version":1,"auth_token":"` + testToken + `"}`, `command=["ls"]`, hook.ErrNotRunning, 4400},
		"not supported": {`{"version":1,"auth_token":"` + testToken + `"}`, `command=["ls"]`, driver.ErrNotSupported, 4501},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.err = tt.err
			url, _ := serve(t, newTestServer(f))
			conn := dial(t, url+"/v1/client/allocation/"+webID+"/exec?ws_handshake=true&"+tt.query)
			if err := conn.Write(t.Context(), websocket.MessageText, []byte(tt.hello)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != tt.want {
				t.Errorf("%v", err)
			}
		})
	}
	f := newFake()
	// A name of another site that leads here, by DNS rebinding, over a socket that is forwarded to a port: Origin and Host are the same.
	rebound := httptest.NewRequest(http.MethodGet, "http://evil.example/v1/client/allocation/"+webID+"/exec?command=%5B%22ls%22%5D", nil)
	for name, value := range map[string]string{"Origin": "http://evil.example", "Upgrade": "websocket", "Connection": "Upgrade"} {
		rebound.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if newTestServer(f).Handler(true).ServeHTTP(w, rebound); w.Code != http.StatusForbidden {
		t.Errorf("a page of another site, over the socket: %d", w.Code)
	}
	image := httptest.NewRequest(http.MethodGet, "http://localhost/v1/client/gc", nil)
	image.Header.Set("Sec-Fetch-Site", "cross-site")
	w = httptest.NewRecorder()
	if newTestServer(f).Handler(true).ServeHTTP(w, image); w.Code != http.StatusForbidden {
		t.Errorf("an image of another site: %d", w.Code)
	}
	url, _ := serve(t, newTestServer(f))
	foreign := &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://evil.example"}}}
	_, resp, err := websocket.Dial(t.Context(), url+"/v1/client/allocation/"+webID+"/exec?ws_handshake=true", foreign) //nolint:bodyclose // the library's
	if err == nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: %v", err)
	}
}

// TestCloseText cuts reasons to what a close frame takes: UTF-8, RFC 6455, section 5.5.1.
func TestCloseText(t *testing.T) {
	for text, want := range map[string]string{
		"short": "short", strings.Repeat("x", 119) + "é": strings.Repeat("x", 119), "a\xffb": "ab",
		strings.Repeat("x", 118) + "é!": strings.Repeat("x", 118) + "é",
	} {
		if got := closeText(text); got != want {
			t.Errorf("of %q is left %q, want %q", text, got, want)
		}
	}
}
