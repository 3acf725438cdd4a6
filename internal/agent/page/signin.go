// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// linkLife is how long a link works.
	linkLife = time.Minute
	// sessionLife is how long a session lasts.
	sessionLife = 12 * time.Hour
	// mostLinks and mostSessions bound what is remembered; the oldest are forgotten.
	mostLinks, mostSessions = 16, 256
)

// desk lets readers sign in: by a link that works once and for a minute, which leaves a cookie. Links and sessions
// live in memory, as hashes, and end with the agent. Its methods may be called concurrently.
type desk struct {
	now func() time.Time

	mu              sync.Mutex // guards following
	links, sessions expiring
}

// newDesk returns a desk; now is its clock.
func newDesk(now func() time.Time) *desk {
	return &desk{
		now: now, links: expiring{most: mostLinks, life: linkLife},
		sessions: expiring{most: mostSessions, life: sessionLife},
	}
}

// Link returns the path of a page that signs its first reader in.
func (d *desk) Link() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return "/sign-in/" + d.links.add(d.now())
}

// Redeem signs a reader in with the code of a link; false if it was used, has expired or never was.
func (d *desk) Redeem(w http.ResponseWriter, r *http.Request, code string) bool {
	d.mu.Lock()
	ok := d.links.take(code, d.now())
	d.mu.Unlock()
	if ok {
		d.SignIn(w, r)
	}
	return ok
}

// SignIn signs a reader in who has proved who they are. The session is new: what the browser sent before is not used.
func (d *desk) SignIn(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	secret := d.sessions.add(d.now())
	d.mu.Unlock()
	cookie := cookieOf(r, secret)
	cookie.MaxAge = int(sessionLife.Seconds())
	http.SetCookie(w, cookie)
}

// SignOut ends the reader's session.
func (d *desk) SignOut(w http.ResponseWriter, r *http.Request) {
	cookie := cookieOf(r, "")
	if given, err := r.Cookie(cookie.Name); err == nil {
		d.mu.Lock()
		d.sessions.take(given.Value, d.now())
		d.mu.Unlock()
	}
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
}

// Close ends all sessions and links: those of a token that is not valid any more cannot be told from others.
func (d *desk) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links.ends, d.sessions.ends = nil, nil
}

// SignedIn reports whether a request comes with a session.
func (d *desk) SignedIn(r *http.Request) bool {
	given, err := r.Cookie(cookieOf(r, "").Name)
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions.has(given.Value, d.now())
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
	return err == nil && u.Host != "" && u.Host == r.Host, false
}

// expiring are secrets by their hashes: a lookup takes a time that says nothing about a secret.
type expiring struct {
	most int
	life time.Duration
	ends map[[sha256.Size]byte]time.Time
}

// add returns a new secret.
func (e *expiring) add(now time.Time) string {
	if e.ends == nil {
		e.ends = map[[sha256.Size]byte]time.Time{}
	}
	var oldest [sha256.Size]byte
	for hash, end := range e.ends {
		if !end.After(now) {
			delete(e.ends, hash)
		} else if o, ok := e.ends[oldest]; !ok || end.Before(o) {
			oldest = hash
		}
	}
	if len(e.ends) >= e.most {
		delete(e.ends, oldest)
	}
	secret := rand.Text() + rand.Text()
	e.ends[sha256.Sum256([]byte(secret))] = now.Add(e.life)
	return secret
}

func (e *expiring) has(secret string, now time.Time) bool {
	return e.ends[sha256.Sum256([]byte(secret))].After(now)
}

// take reports whether there is such a secret, and forgets it.
func (e *expiring) take(secret string, now time.Time) bool {
	ok := e.has(secret, now)
	delete(e.ends, sha256.Sum256([]byte(secret)))
	return ok
}
