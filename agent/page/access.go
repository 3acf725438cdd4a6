// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
)

// secured sets what keeps a page from being more than it is: nothing from elsewhere, no script in the page itself,
// not in anybody's frame.
func secured(next http.Handler) http.Handler {
	const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// authorized reports whether a request carries the token.
func (p *Page) authorized(r *http.Request) bool {
	token := p.options.Token()
	if token == "" {
		return false
	}
	given := r.Header.Get("X-Nomad-Token")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		given = bearer
	}
	if _, password, ok := r.BasicAuth(); ok {
		given = password
	}
	// Hashes have one length, so that the time of the comparison says nothing.
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// unlock has the browser ask for the token as a password, which it sends along from then on. There is nothing on the
// page that changes anything, so a request that another site makes it send does no harm.
func (p *Page) unlock(trusted bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if trusted || p.authorized(r) || p.options.Token() == "" {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="tacho: the token is the password, the name does not matter", charset="UTF-8"`)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "Sign in with the token to see command lines and logs.", http.StatusUnauthorized)
	}
}

// moved redirects the paths of Nomad's page to those of this one.
func (p *Page) moved(w http.ResponseWriter, r *http.Request) {
	target := "/"
	parts := strings.Split(strings.Trim(r.PathValue("rest"), "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "allocations" && parts[1] != "":
		target = "/alloc/" + url.PathEscape(parts[1])
		if len(parts) >= 3 && parts[2] != "" {
			target += "/" + url.PathEscape(parts[2])
		}
	case len(parts) >= 2 && parts[0] == "jobs" && parts[1] != "":
		id, _, _ := strings.Cut(parts[1], "@") // ID@NAMESPACE
		target = "/?q=" + url.QueryEscape(id)
	}
	http.Redirect(w, r, target, http.StatusFound)
}
