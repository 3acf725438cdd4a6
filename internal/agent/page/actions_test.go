// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/testkit"
)

const (
	own  = "http://127.0.0.1:4656"
	evil = "https://evil.example"
)

// acting is a page that can act, and the agent it acts on.
func acting(t *testing.T) (*pagetest.Agent, *page.Page) {
	t.Helper()
	a := stage(t)
	return a, page.New(a, page.Options{Token: func() string { return "t0ken" }, Now: moment, Address: own})
}

// send sends a request to a page as it is reached at its own address.
func send(t *testing.T, h http.Handler, method, path, form string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, own+path, strings.NewReader(form))
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// signedIn is the cookie of a reader who followed a link.
func signedIn(t *testing.T, p *page.Page, h http.Handler) string {
	t.Helper()
	w := send(t, h, http.MethodGet, p.SignInLink(), "")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
		t.Fatalf("the link leads to %d %s", w.Code, w.Header().Get("Location"))
	}
	c := w.Result().Cookies()[0]
	return c.Name + "=" + c.Value
}

func TestActions(t *testing.T) {
	t.Parallel()
	a, p := acting(t)
	h, socket := p.Handler(false), p.Handler(true)
	cookie := signedIn(t, p, h)
	for _, tt := range []struct {
		name    string
		socket  bool
		headers []string
		done    bool
	}{
		{name: "signed in, from the page", headers: []string{"Cookie", cookie, "Origin", own}, done: true},
		{name: "signed in, from another site", headers: []string{"Cookie", cookie, "Origin", evil}},
		{name: "signed in, from another port", headers: []string{"Cookie", cookie, "Origin", "http://127.0.0.1:8080"}},
		{name: "signed in, from a name alike", headers: []string{"Cookie", cookie, "Origin", own + ".evil.example"}},
		{name: "signed in, from a user alike", headers: []string{"Cookie", cookie, "Origin", own + "@evil.example"}},
		{name: "signed in, from a sandbox", headers: []string{"Cookie", cookie, "Origin", "null"}},
		{name: "signed in, from nowhere", headers: []string{"Cookie", cookie}},
		{
			name:    "signed in, from a site that hides its origin",
			headers: []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"},
		},
		{name: "not signed in", headers: []string{"Origin", own}},
		{name: "a wrong session", headers: []string{"Cookie", "tacho_session_4656=x", "Origin", own}},
		{name: "the socket, by a program", socket: true, done: true},
		{name: "the socket, from its page", socket: true, headers: []string{"Origin", own}, done: true},
		{name: "the socket, from another site", socket: true, headers: []string{"Origin", evil}},
		{
			name: "the socket, from a site that hides its origin", socket: true,
			headers: []string{"Sec-Fetch-Site", "cross-site"},
		},
	} {
		for action, want := range map[string]string{
			"restart": "restart " + pagetest.ID(1) + " api", "stop": "stop " + pagetest.ID(1), "stop-job": "stop job shop",
		} {
			handler := h
			if tt.socket {
				handler = socket
			}
			w := send(t, handler, http.MethodPost, task(1, "api")+"/"+action, "", tt.headers...)
			var done []string
			if tt.done {
				done = []string{want}
			}
			testkit.Diff(t, fmt.Sprintf("%s, %s: %d", tt.name, action, w.Code), done, a.Done())
			if send(t, handler, http.MethodGet, task(1, "api")+"/"+action, "", tt.headers...); len(a.Done()) > 0 {
				t.Errorf("%s, %s: a link is enough", tt.name, action)
			}
		}
	}
}

// TestSignIn holds that a link signs in once, that its code is left at once, and what is shown to whom.
func TestSignIn(t *testing.T) {
	t.Parallel()
	_, p := acting(t)
	h := p.Handler(false)
	link := p.SignInLink()
	if w := send(t, h, http.MethodHead, link, ""); len(w.Result().Cookies()) > 0 {
		t.Error("a look ahead uses the link up")
	}
	w := send(t, h, http.MethodGet, link, "")
	if w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Cache-Control") != "no-store" ||
		w.Body.Len() > 100 {
		t.Errorf("the link answers %v %s", w.Header(), w.Body)
	}
	cookie := w.Result().Cookies()[0]
	if again := send(t, h, http.MethodGet, link, ""); again.Header().Get("Location") != "/sign-in?expired" ||
		len(again.Result().Cookies()) > 0 {
		t.Errorf("the second time, it leads to %q", again.Header().Get("Location"))
	}
	path := task(1, "api")
	before, after := send(t, h, http.MethodGet, path, "").Body.String(),
		send(t, h, http.MethodGet, path, "", "Cookie", cookie.String()).Body.String()
	for _, secret := range []string{"served", "started process", "Restart task", "Stop job"} {
		if strings.Contains(before, secret) || !strings.Contains(after, secret) {
			t.Errorf("%q: before %v, signed in %v", secret, strings.Contains(before, secret), strings.Contains(after, secret))
		}
	}
	if n := strings.Count(before, ">Sign in</a> to see"); n != 1 {
		t.Errorf("what is hidden is said %d times", n)
	}
	if w := send(t, h, http.MethodPost, "/sign-out", "", "Cookie", cookie.String(), "Origin",
		own); w.Code != http.StatusSeeOther {
		t.Errorf("signing out: %d", w.Code)
	}
	if strings.Contains(send(t, h, http.MethodGet, path, "", "Cookie", cookie.String()).Body.String(), "Stop job") {
		t.Error("the session is still there")
	}
}

func TestTokenForm(t *testing.T) {
	t.Parallel()
	_, p := acting(t)
	h := p.Handler(false)
	for _, tt := range []struct {
		token, origin string
		in            bool
	}{{"t0ken", own, true}, {"t0ken", evil, false}, {"t0ken", "", false}, {"wrong", own, false}, {"", own, false}} {
		var headers []string
		if tt.origin != "" {
			headers = []string{"Origin", tt.origin}
		}
		w := send(t, h, http.MethodPost, "/sign-in", url.Values{"token": {tt.token}}.Encode(), headers...)
		if in := len(w.Result().Cookies()) == 1; in != tt.in {
			t.Errorf("%+v: %d, signed in %v", tt, w.Code, in)
		}
		if strings.Contains(w.Header().Get("Location"), "t0ken") {
			t.Error("the token is in an address")
		}
	}
}

// TestIssue holds who gets links: those who may do everything anyway.
func TestIssue(t *testing.T) {
	t.Parallel()
	_, p := acting(t)
	cookie := signedIn(t, p, p.Handler(false))
	for _, tt := range []struct {
		socket  bool
		headers []string
		issued  bool
	}{
		{socket: true, issued: true},
		{socket: true, headers: []string{"Origin", evil}},
		{},
		{headers: []string{"Origin", own}},
		{headers: []string{"Origin", own, "Cookie", cookie}},
	} {
		w := send(t, p.Handler(tt.socket), http.MethodPost, "/page/link", "", tt.headers...)
		if issued := strings.Contains(w.Body.String(), `"Path":"/sign-in/`); issued != tt.issued {
			t.Errorf("%+v: %d %s", tt, w.Code, w.Body)
		}
	}
}
