// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// browser is a headless Chromium that is told what to do over the DevTools protocol,
// https://chromedevtools.github.io/devtools-protocol/.
type browser struct {
	conn *websocket.Conn

	mu      sync.Mutex // guards following
	next    int
	waiting map[int]chan reply
	tabs    map[string]*tab
}

// reply is the answer to one command.
type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// tab is one page of a browser.
type tab struct {
	browser *browser
	session string

	mu       sync.Mutex // guards following
	problems []string   // errors in the console, exceptions, blocked loads
	requests []string   // addresses of everything that was asked for
	received int        // bytes that came over the network
}

// patience is how long anything in the browser may take.
const patience = 30 * time.Second

// startBrowser starts Chromium, or skips the test where there is none.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	rig.Require(t) // a browser takes the whole machine
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no chromium on this machine, and this test needs a browser")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	stderr := testkit.Value(cmd.StderrPipe())(t)
	testkit.Must(t, cmd.Start())
	address := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if _, found, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
				address <- found
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		_ = cmd.Wait() // it was interrupted
	})
	select {
	case found := <-address:
		return connect(t, found)
	case <-time.After(patience):
		t.Fatal("chromium did not say where it listens")
	}
	return nil
}

func connect(t *testing.T, address string) *browser {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), address, nil) //nolint:bodyclose // the library takes it over
	testkit.Must(t, err)
	conn.SetReadLimit(256 << 20) // screenshots
	b := &browser{conn: conn, waiting: map[int]chan reply{}, tabs: map[string]*tab{}}
	var reading sync.WaitGroup
	reading.Go(b.read)
	t.Cleanup(func() {
		_ = conn.CloseNow() // what it says about it does not matter any more
		reading.Wait()
	})
	return b
}

// read gives answers to who waits for them, and events to their tabs, until the connection ends.
func (b *browser) read() {
	for {
		_, text, err := b.conn.Read(context.Background())
		if err != nil {
			return
		}
		var message struct {
			ID        int             `json:"id"`
			SessionID string          `json:"sessionId"`
			Method    string          `json:"method"`
			Params    json.RawMessage `json:"params"`
			reply
		}
		if json.Unmarshal(text, &message) != nil {
			continue
		}
		b.mu.Lock()
		answer, tab := b.waiting[message.ID], b.tabs[message.SessionID]
		delete(b.waiting, message.ID)
		b.mu.Unlock()
		if answer != nil {
			answer <- message.reply
		} else if tab != nil {
			tab.event(message.Method, message.Params)
		}
	}
}

// call sends one command and waits for its answer.
func (b *browser) call(t *testing.T, session, method string, params any) json.RawMessage {
	t.Helper()
	answer := make(chan reply, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.waiting[id] = answer
	b.mu.Unlock()
	command := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		command["sessionId"] = session
	}
	text := testkit.Value(json.Marshal(command))(t)
	if err := b.conn.Write(t.Context(), websocket.MessageText, text); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			t.Fatalf("%s: %s", method, r.Error.Message)
		}
		return r.Result
	case <-time.After(patience):
		t.Fatalf("%s: no answer", method)
	}
	return nil
}

type object = map[string]any

// open opens a tab and listens to what goes wrong in it.
func (b *browser) open(t *testing.T) *tab {
	t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	unmarshal(t, b.call(t, "", "Target.createTarget", object{"url": "about:blank"}), &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	unmarshal(t, b.call(t, "", "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}), &attached)
	p := &tab{browser: b, session: attached.SessionID}
	b.mu.Lock()
	b.tabs[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(t, domain+".enable", object{})
	}
	t.Cleanup(func() { p.checkQuiet(t) })
	return p
}

func (p *tab) call(t *testing.T, method string, params any) json.RawMessage {
	t.Helper()
	return p.browser.call(t, p.session, method, params)
}

func (p *tab) event(method string, params json.RawMessage) {
	var e struct {
		Type  string `json:"type"`
		Entry struct {
			Level, Text, URL string
		} `json:"entry"`
		ExceptionDetails struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
		Request struct {
			URL string `json:"url"`
		} `json:"request"`
		BlockedReason     string `json:"blockedReason"`
		EncodedDataLength int    `json:"encodedDataLength"`
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "Runtime.exceptionThrown":
		p.problems = append(p.problems, "exception: "+string(params))
	case "Runtime.consoleAPICalled":
		if e.Type == "error" || e.Type == "warning" {
			p.problems = append(p.problems, "console: "+string(params))
		}
	case "Log.entryAdded":
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.problems = append(p.problems, e.Entry.Level+": "+e.Entry.Text+" "+e.Entry.URL)
		}
	case "Network.requestWillBeSent":
		p.requests = append(p.requests, e.Request.URL)
	case "Network.dataReceived":
		p.received += e.EncodedDataLength
	case "Network.loadingFailed":
		if e.BlockedReason != "" {
			p.problems = append(p.problems, "blocked: "+string(params))
		}
	}
}

// bytes is what has come over the network.
func (p *tab) bytes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received
}

// checkQuiet fails the test for anything that went wrong in the tab, and for requests to other hosts.
func (p *tab) checkQuiet(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		t.Errorf("the browser complains: %s", problem)
	}
	for _, address := range p.requests {
		if !strings.HasPrefix(address, "http://127.0.0.1:") && address != "about:blank" {
			t.Errorf("the page asks another host: %s", address)
		}
	}
}

// visit loads a page and waits until it is whole.
func (p *tab) visit(t *testing.T, address string) {
	t.Helper()
	p.call(t, "Page.navigate", object{"url": address})
	p.waitFor(t, "location.href === "+quote(address)+" && document.readyState === 'complete'")
}

// evaluate returns the value of an expression as the page sees it; zero for undefined.
func evaluate[T any](t *testing.T, p *tab, expression string) (value T) {
	t.Helper()
	if raw := testkit.Value(p.tryEval(t, expression))(t); len(raw) > 0 {
		unmarshal(t, raw, &value)
	}
	return value
}

func (p *tab) tryEval(t *testing.T, expression string) (json.RawMessage, error) {
	t.Helper()
	var r struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	unmarshal(t, p.call(t, "Runtime.evaluate",
		object{"expression": expression, "returnByValue": true, "awaitPromise": true}), &r)
	if r.ExceptionDetails != nil {
		return nil, errors.New(r.ExceptionDetails.Text + " " + r.ExceptionDetails.Exception.Description)
	}
	return r.Result.Value, nil
}

// waitFor waits until an expression is true in the page.
func (p *tab) waitFor(t *testing.T, expression string) {
	t.Helper()
	// The page looks for itself, often; a navigation in between loses it, and it is asked again.
	ask := fmt.Sprintf(`new Promise((done) => {
		const end = Date.now() + 1000;
		const look = () => { if (%s) done(true); else if (Date.now() > end) done(false); else setTimeout(look, 20); };
		look();
	})`, expression)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var ok bool
		if raw, err := p.tryEval(t, ask); err == nil && json.Unmarshal(raw, &ok) == nil && ok {
			return
		}
	}
	page := evaluate[string](t, p, "document.body.innerText.slice(0, 2000)")
	t.Fatalf("never came true: %s\nthe page says:\n%s", expression, page)
}

// key presses and releases a key.
func (p *tab) key(t *testing.T, key string, code int) {
	t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		event := object{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
		if key == "Enter" && kind == "keyDown" {
			event["text"] = "\r"
		}
		p.call(t, "Input.dispatchKeyEvent", event)
	}
}

// window sets size, scheme of colours and pixels for each pixel.
func (p *tab) window(t *testing.T, width, height int, scheme string) {
	t.Helper()
	p.call(t, "Emulation.setDeviceMetricsOverride",
		object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
	p.call(t, "Emulation.setEmulatedMedia",
		object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}})
}

// screenshot returns the page as PNG, up to a height.
func (p *tab) screenshot(t *testing.T, most int) []byte {
	t.Helper()
	size := evaluate[struct{ Width, Height float64 }](t, p,
		"({Width: document.documentElement.clientWidth, Height: document.documentElement.scrollHeight})")
	clip := object{"x": 0, "y": 0, "width": size.Width, "height": min(size.Height, float64(most)), "scale": 1}
	var r struct {
		Data []byte `json:"data"`
	}
	unmarshal(t, p.call(t, "Page.captureScreenshot", object{
		"format": "png", "captureBeyondViewport": true, "clip": clip,
	}), &r)
	return r.Data
}

func unmarshal(t *testing.T, raw json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
}

func quote(s string) string {
	text, _ := json.Marshal(s) // a string has JSON
	return string(text)
}
