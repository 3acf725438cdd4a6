// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
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
		w.Header().Set("Cache-Control", "no-store")
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
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	switch {
	case r.Method != http.MethodGet: // HEAD does not use a link up
		h.Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
	case p.desk.Redeem(w, r, r.PathValue("code")):
		http.Redirect(w, r, "/", http.StatusSeeOther)
	default:
		http.Redirect(w, r, "/sign-in?expired", http.StatusSeeOther)
	}
}

// signIn takes the token from the form.
func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
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
