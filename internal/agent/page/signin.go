// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// The bounds of links and sessions; the oldest are forgotten.
const (
	linkLife, sessionLife   = time.Minute, 12 * time.Hour
	mostLinks, mostSessions = 16, 256
)

// desk lets readers sign in: by a link that works once and for a minute, which leaves a cookie. Links and sessions
// live in memory and end with the agent. Its methods may be called concurrently.
type desk struct{ links, sessions secrets }

// newDesk returns a desk; now is its clock.
func newDesk(now func() time.Time) *desk {
	return &desk{
		links:    secrets{now: now, most: mostLinks, life: linkLife},
		sessions: secrets{now: now, most: mostSessions, life: sessionLife},
	}
}

// Link returns the path of a page that signs its first reader in.
func (d *desk) Link() string { return "/sign-in/" + d.links.add() }

// Redeem signs a reader in with the code of a link; false if it was used, has expired or never was.
func (d *desk) Redeem(w http.ResponseWriter, r *http.Request, code string) bool {
	ok := d.links.has(code, true)
	if ok {
		d.SignIn(w, r)
	}
	return ok
}

// SignIn signs a reader in who has proved who they are. The session is new: what the browser sent before is not used.
func (d *desk) SignIn(w http.ResponseWriter, r *http.Request) {
	cookie := cookieOf(r, d.sessions.add())
	cookie.MaxAge = int(sessionLife.Seconds())
	http.SetCookie(w, cookie)
}

// SignOut ends the reader's session.
func (d *desk) SignOut(w http.ResponseWriter, r *http.Request) {
	cookie := cookieOf(r, "")
	if given, err := r.Cookie(cookie.Name); err == nil {
		d.sessions.has(given.Value, true)
	}
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
}

// Close ends all sessions and links: those of a token that is not valid any more cannot be told from others.
func (d *desk) Close() {
	d.links.clear()
	d.sessions.clear()
}

// SignedIn reports whether a request comes with a session.
func (d *desk) SignedIn(r *http.Request) bool {
	given, err := r.Cookie(cookieOf(r, "").Name)
	return err == nil && d.sessions.has(given.Value, false)
}

// cookieOf is the cookie of a session. Browsers send cookies to all ports of a host, so the port is part of the name:
// two agents on one machine would otherwise sign each other's readers out.
func cookieOf(r *http.Request, secret string) *http.Cookie {
	name := "tacho_session"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "_" + port
	}
	return &http.Cookie{
		Name: name, Value: secret, Path: "/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
	}
}

// sameOrigin reports whether a browser says that a request comes from a page of this agent; absent says that it does
// not say where from, as other programs do not. Browsers send Origin with everything but GET and HEAD.
func sameOrigin(r *http.Request) (same, absent bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false, r.Header.Get("Sec-Fetch-Site") == ""
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && u.Host == r.Host && (r.TLS == nil || u.Scheme == "https"), false
}

// secrets expire, and the oldest are forgotten. They are stored as hashes: a lookup takes a time that says nothing
// about a secret. Their methods may be called concurrently.
type secrets struct {
	now  func() time.Time
	most int
	life time.Duration

	mu   sync.Mutex // guards list
	list []secret   // oldest first
}

type secret struct {
	hash [sha256.Size]byte
	end  time.Time
}

// add returns a new secret.
func (s *secrets) add() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := rand.Text() + rand.Text()
	s.list = append(s.list[max(0, len(s.list)+1-s.most):], secret{sha256.Sum256([]byte(text)), s.now().Add(s.life)})
	return text
}

// has reports whether there is such a secret; with forget it is gone afterwards.
func (s *secrets) has(text string, forget bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := sha256.Sum256([]byte(text))
	i := slices.IndexFunc(s.list, func(known secret) bool { return known.hash == hash })
	ok := i >= 0 && s.list[i].end.After(s.now())
	if i >= 0 && forget {
		s.list = slices.Delete(s.list, i, i+1)
	}
	return ok
}

func (s *secrets) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = nil
}
