// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// secured sets what keeps a page from being more than it is: nothing from elsewhere, no script in the page itself,
// not in anybody's frame. Other sites are not told where a reader comes from; the page's own forms need an Origin.
func secured(next http.Handler) http.Handler {
	const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store") // assets have their own
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// trusts reports whether a reader may see command lines and logs: one of a trusted handler, or signed in.
func (p *Page) trusts(r *http.Request, trusted bool) bool { return trusted || p.desk.SignedIn(r) }

// act wraps what changes something: it is for trusted readers, and a browser has to say that the request comes from a
// page of this agent. Requests without an Origin must not rely on a cookie, which browsers add by themselves.
func (p *Page) act(trusted bool, do func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		same, absent := sameOrigin(r)
		if !same && !absent || absent && !trusted {
			http.Error(w, "the request does not come from a page of this agent", http.StatusForbidden)
			return
		}
		if !p.trusts(r, trusted) {
			http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
			return
		}
		if err := do(w, r); err != nil {
			p.serve(trusted, func(*view) error { return err })(w, r)
		}
	}
}

// signInPage is the page that says how to sign in.
func (p *Page) signInPage(v *view) error {
	v.Title, v.Template = "Sign in", "sign-in"
	query := v.request.URL.Query()
	v.Body = map[string]any{
		"Expired": query.Has("expired"), "Invalid": query.Has("invalid"), "HasToken": p.options.Token() != "",
		"Command": cmp.Or(p.options.SignIn, "tacho ui"),
	}
	return nil
}

// redeem is the link itself. The address with its code is left at once, used or not.
func (p *Page) redeem(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	switch {
	case r.Method != http.MethodGet: // HEAD does not use a link up
		w.Header().Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
	case p.desk.Redeem(w, r, r.PathValue("code")):
		http.Redirect(w, r, "/", http.StatusSeeOther)
	default:
		http.Redirect(w, r, "/sign-in?expired", http.StatusSeeOther)
	}
}

// signIn takes the token from the form.
func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	if same, _ := sameOrigin(r); !same {
		http.Error(w, "the request does not come from a page of this agent", http.StatusForbidden)
		return
	}
	// Hashes have one length, so that the time of the comparison says nothing.
	token := p.options.Token()
	given, wanted := sha256.Sum256([]byte(r.PostFormValue("token"))), sha256.Sum256([]byte(token))
	if token == "" || subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 {
		http.Redirect(w, r, "/sign-in?invalid", http.StatusSeeOther)
		return
	}
	p.desk.SignIn(w, r)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (p *Page) signOut(w http.ResponseWriter, r *http.Request) error {
	p.desk.SignOut(w, r)
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

// SignInLink returns the path of a page that signs its first reader in, for a minute. The caller shows it to
// those who may do everything.
func (p *Page) SignInLink() string { return p.desk.Link() }

// SignOutAll ends all sessions, as the token has changed.
func (p *Page) SignOutAll() { p.desk.Close() }

// issue makes a link for a trusted caller: one of the unix socket, or with the token. A session cannot prolong itself.
func (p *Page) issue(trusted bool) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, _ *http.Request) error {
		if !trusted {
			http.Error(w, "this needs the agent's unix socket or its token", http.StatusForbidden)
			return nil
		}
		w.Header().Set("Content-Type", "application/json")
		return json.NewEncoder(w).Encode(map[string]string{"URL": p.options.Address, "Path": p.desk.Link()})
	}
}

// doing is a change of one task's allocation or job.
func (p *Page) doing(do func(t task) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		t, err := find(r, p.agent.Snapshot(), false)
		if err != nil {
			return err
		}
		p.log.Info("action from the page", "path", t.Path(), "remote", r.RemoteAddr)
		if err := do(t); err != nil {
			return err
		}
		http.Redirect(w, r, t.Path(), http.StatusSeeOther)
		return nil
	}
}

// actionRoutes adds what changes something.
func (p *Page) actionRoutes(mux *http.ServeMux, trusted bool) {
	mux.HandleFunc("POST /sign-in", p.signIn)
	mux.HandleFunc("POST /sign-out", p.act(trusted, p.signOut))
	mux.HandleFunc("POST /page/link", p.act(trusted, p.issue(trusted)))
	for path, do := range map[string]func(t task) error{
		"restart":  func(t task) error { return p.agent.RestartAlloc(t.ID(), t.Name()) },
		"stop":     func(t task) error { return p.agent.ReplaceAlloc(t.ID()) },
		"stop-job": func(t task) error { return p.agent.StopJob(t.Job(), false, nil) },
	} {
		mux.HandleFunc("POST /alloc/{id}/{task}/"+path, p.act(trusted, p.doing(do)))
	}
}

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
