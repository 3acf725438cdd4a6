// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// desk returns a desk whose clock the test sets.
func deskAt() (d *desk, later func(time.Duration)) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return newDesk(func() time.Time { return now }), func(d time.Duration) { now = now.Add(d) }
}

// redeem follows a link and returns the cookie; nil if it does not work.
func redeem(t *testing.T, d *desk, link string) *http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	if !d.Redeem(w, request(t, nil), strings.TrimPrefix(link, "/sign-in/")) {
		if len(w.Result().Cookies()) > 0 {
			t.Error("a cookie for a link that does not work")
		}
		return nil
	}
	return w.Result().Cookies()[0]
}

func request(t *testing.T, c *http.Cookie) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:4656/", nil)
	if c != nil {
		r.AddCookie(c)
	}
	return r
}

func TestLink(t *testing.T) {
	t.Parallel()
	d, later := deskAt()
	link := d.Link()
	later(59 * time.Second)
	cookie := redeem(t, d, link)
	if cookie == nil {
		t.Fatal("a fresh link does not work")
	}
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" ||
		cookie.Name != "tacho_session_4656" || cookie.Domain != "" {
		t.Errorf("the cookie is %v", cookie)
	}
	if redeem(t, d, link) != nil {
		t.Error("a link works twice")
	}
	if !d.SignedIn(request(t, cookie)) {
		t.Error("the session does not hold")
	}
	late := d.Link()
	later(time.Minute)
	if redeem(t, d, late) != nil {
		t.Error("a link works after a minute")
	}
	for _, code := range []string{"", "x", cookie.Value} {
		if redeem(t, d, "/sign-in/"+code) != nil {
			t.Errorf("%q signs in", code)
		}
	}
	later(sessionLife)
	if d.SignedIn(request(t, cookie)) {
		t.Error("the session never ends")
	}
}

// TestSessions holds that each sign-in makes a session of its own, whatever cookie the browser had.
func TestSessions(t *testing.T) {
	t.Parallel()
	d, _ := deskAt()
	planted := &http.Cookie{Name: "tacho_session_4656", Value: "known to an attacker"}
	w := httptest.NewRecorder()
	d.SignIn(w, request(t, planted))
	mine := w.Result().Cookies()[0]
	if d.SignedIn(request(t, planted)) || mine.Value == planted.Value {
		t.Error("a session has a name from outside")
	}
	other := redeem(t, d, d.Link())
	w = httptest.NewRecorder()
	d.SignOut(w, request(t, mine))
	if d.SignedIn(request(t, mine)) || !d.SignedIn(request(t, other)) {
		t.Error("signing out ends the wrong session")
	}
	if gone := w.Result().Cookies()[0]; gone.MaxAge >= 0 {
		t.Errorf("the cookie stays: %v", gone)
	}
	link := d.Link()
	d.Close()
	if d.SignedIn(request(t, other)) || redeem(t, d, link) != nil {
		t.Error("sessions and links outlive their token")
	}
	if d.SignedIn(request(t, &http.Cookie{Name: "tacho_session_4656", Value: ""})) {
		t.Error("an empty cookie is a session")
	}
}

// TestMany holds that links and sessions are bounded, and that the oldest make room.
func TestMany(t *testing.T) {
	t.Parallel()
	d, later := deskAt()
	first := d.Link()
	var last string
	for range 100 {
		later(time.Millisecond)
		last = d.Link()
	}
	if redeem(t, d, first) != nil {
		t.Error("100 links are remembered")
	}
	if redeem(t, d, last) == nil {
		t.Error("the newest link is forgotten")
	}
}

func TestSecure(t *testing.T) {
	t.Parallel()
	d, _ := deskAt()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://agent.example:4656/", nil)
	w := httptest.NewRecorder()
	d.SignIn(w, r)
	if !w.Result().Cookies()[0].Secure {
		t.Error("over TLS, the cookie goes over plain connections as well")
	}
}
