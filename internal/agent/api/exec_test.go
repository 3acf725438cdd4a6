// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/testkit"
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

// TestExecOfClientThatIsGone has a command that reads no input: nothing reads from the connection.
func TestExecOfClientThatIsGone(t *testing.T) {
	f := newFake()
	f.exec = &fakeExec{input: make(chan []byte), deaf: true}
	s := newTestServer(f)
	s.heartbeat = 5 * time.Millisecond
	url, _ := serve(t, s)
	const message = `{"stdin":{"data":"aGk="}}`
	conn := dial(t, url+"/v1/client/allocation/"+webID+`/exec?task=web&command=["sleep","1d"]`, message, message)
	if _, text, err := conn.Read(t.Context()); err != nil || strings.Contains(string(text), "data\":\"") {
		t.Fatalf("%s, %v; want a sign of life", text, err)
	}
	testkit.Must(t, conn.CloseNow())
	select {
	case <-f.exec.ctx.Done():
	case <-time.After(time.Minute):
		t.Error("the command runs on")
	}
}

// TestExec is a whole conversation, and those with commands that cannot be started, which end as in a shell.
func TestExec(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want []string
	}{
		"echo": {nil, []string{
			`{"stdout":{"data":"aGk="}}`, `{"stderr":{"data":"Ynll"}}`, `{"exited":true,"result":{"exit_code":3}}`,
		}},
		"not found": {driver.ErrCommandNotFound, []string{
			`{"stderr":{"data":"Y29tbWFuZCBub3QgZm91bmQK"}}`, `{"exited":true,"result":{"exit_code":127}}`,
		}},
		"not executable": {driver.ErrNotExecutable, []string{
			`{"stderr":{"data":"Y29tbWFuZCBjYW5ub3QgYmUgZXhlY3V0ZWQK"}}`, `{"exited":true,"result":{"exit_code":126}}`,
		}},
	} {
		f := newFake()
		f.exec = &fakeExec{input: make(chan []byte, 8), err: tt.err}
		url, _ := serve(t, newTestServer(f))
		conn := dial(t, url+"/v1/client/allocation/"+webID+`/exec?task=web&tty=true&command=["cat","-"]`,
			`{"tty_size":{"height":24,"width":80}}`, `{"stdin":{"data":"aGk="}}`, `{}`, `{"stdin":{"close":true}}`)
		var got []string
		for {
			_, text, err := conn.Read(t.Context())
			if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
				break
			}
			testkit.Must(t, err)
			got = append(got, strings.TrimSpace(string(text)))
		}
		testkit.Diff(t, name, tt.want, got)
		if tt.err != nil {
			continue // the size may still be on its way
		}
		if diff := cmp.Diff([]driver.TerminalSize{{Rows: 24, Columns: 80}}, f.exec.sizes); diff != "" {
			t.Error(diff)
		}
	}
}

// TestExecRefused is the response when nothing is run.
func TestExecRefused(t *testing.T) {
	for query, tt := range map[string]struct {
		err  error
		want websocket.StatusCode
	}{
		`command=ls`:            {nil, 4400},
		`command=["ls"]&tty=x`:  {nil, 4400},
		`command=["ls"]&task=x`: {nil, 4404},
		`command=["ls","a"]`:    {hook.ErrNotRunning, 4400},
		`command=["ls","b"]`:    {driver.ErrNotSupported, 4501},
	} {
		f := newFake()
		f.err = tt.err
		url, _ := serve(t, newTestServer(f))
		conn := dial(t, url+"/v1/client/allocation/"+webID+"/exec?"+query)
		if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != tt.want {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// TestOtherSites holds that pages of other sites change nothing and run nothing.
func TestOtherSites(t *testing.T) {
	f := newFake()
	exec := "/v1/client/allocation/" + webID + "/exec?command=%5B%22ls%22%5D"
	// A name of another site that leads here, by DNS rebinding, over a socket that is forwarded to a port.
	local := newTestServer(f).Handler(true)
	w := ask(t, local, "GET", exec, "", func(r *http.Request) {
		r.Host = "evil.example"
		r.Header = http.Header{"Origin": {"http://evil.example"}, "Upgrade": {"websocket"}}
	})
	testkit.Equal(t, w.Code, http.StatusForbidden, "a page of another site, over the socket")
	image := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	if w := ask(t, local, "GET", "/v1/client/gc", "", image); w.Code != http.StatusForbidden {
		t.Errorf("an image of another site: %d", w.Code)
	}
	url, _ := serve(t, newTestServer(f))
	foreign := http.Header{"Origin": {"http://evil.example"}, "X-Nomad-Token": {testToken}}
	_, resp, err := websocket.Dial(t.Context(), url+exec, &websocket.DialOptions{HTTPHeader: foreign}) //nolint:bodyclose // the library's
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
		testkit.Equal(t, closeText(text), want, "what is left of %q", text)
	}
}
