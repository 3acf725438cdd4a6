// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// trustKey is under which a request's context says whether it is trusted.
type trustKey struct{}

// Trusted reports whether a request came over the unix socket or with the token.
func Trusted(ctx context.Context) bool {
	trusted, _ := ctx.Value(trustKey{}).(bool)
	return trusted
}

// localKey is under which a request's context says whether it came over the unix socket.
type localKey struct{}

func isLocal(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// checkToken reports whether the request has the token. An invalid one is an error: a caller who believes to be trusted must not
// take redacted values for absent ones.
func (s *Server) checkToken(r *http.Request) (trusted bool, err error) {
	given := r.Header.Get("X-Nomad-Token")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); given == "" && ok {
		given = strings.TrimSpace(bearer)
	}
	token := s.options.Token()
	if given == "" || token == "" {
		return false, nil
	}
	// Hashes have one length, so that the time of the comparison says nothing.
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return false, &problem{http.StatusForbidden, "invalid token"}
	}
	return true, nil
}

// needsTrust refuses requests that are not trusted.
func (s *Server) needsTrust(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !Trusted(r.Context()) {
			s.fail(w, r, errUntrusted)
			return
		}
		next(w, r)
	}
}

// hostsOf are the names in Host headers that are answered: a page of another site that resolves its own name to this
// machine (DNS rebinding) sends that name. If the agent listens on all addresses, any literal address is right.
func hostsOf(bind string, names []string) map[string]bool {
	hosts := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	for _, name := range append([]string{bind}, names...) {
		if name != "" {
			hosts[strings.ToLower(name)] = true
		}
	}
	if address, err := netip.ParseAddr(bind); err == nil && address.IsUnspecified() {
		hosts["*"] = true
	}
	return hosts
}

// checkOrigin refuses what would change something if a browser says that a page of another site asks for it, also over
// the unix socket: a forwarded one is a port of the machine that the browser runs on. A WebSocket runs commands, and is a GET.
func (s *Server) checkOrigin(r *http.Request) error {
	origin, reads := r.Header.Get("Origin"), r.Method == http.MethodGet || r.Method == http.MethodHead
	if origin == "" || reads && r.Header.Get("Upgrade") == "" {
		return nil
	}
	if u, err := url.Parse(origin); err != nil || u.Host != r.Host || !s.knownHost(r.Host) {
		return otherOrigin()
	}
	return nil
}

func otherOrigin() error {
	return &problem{http.StatusForbidden, "request from a page of another origin"}
}

// ownSite refuses a GET that changes something if a browser sends it for a page of another site, an image's for one: those have no Origin.
func (s *Server) ownSite(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if site != "" && (site != "same-origin" && site != "none" || !s.knownHost(r.Host)) {
			s.fail(w, r, otherOrigin())
			return
		}
		next(w, r)
	}
}

func (s *Server) knownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if s.hosts[name] || strings.HasSuffix(name, ".localhost") {
		return name != "*"
	}
	_, err := netip.ParseAddr(name)
	return err == nil && s.hosts["*"]
}
