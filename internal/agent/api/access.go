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
	"sync"
	"time"

	"github.com/tachograph/tacho/internal/agent/streams"
)

// The keys of a request's context: whether it is trusted, whether it came over the unix socket, and the context that
// ends when the server shuts down.
type (
	trustKey  struct{}
	localKey  struct{}
	endingKey struct{}
)

// Trusted reports whether a request came over the unix socket or with the token.
func Trusted(ctx context.Context) bool {
	trusted, _ := ctx.Value(trustKey{}).(bool)
	return trusted
}

func isLocal(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// checkToken reports whether the request has the token. An invalid one is an error: a caller that believes to be
// trusted must not take redacted values for absent ones.
func (s *Server) checkToken(r *http.Request) (trusted bool, err error) {
	given := r.Header.Get("X-Nomad-Token")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); given == "" && ok {
		given = strings.TrimSpace(bearer)
	}
	token := s.options.Token()
	if given == "" || token == "" {
		return false, nil
	}
	// Hashes have one length, so that the time of the comparison reveals nothing.
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		s.denials.deny(s, r)
		return false, &problem{http.StatusForbidden, "invalid token"}
	}
	return true, nil
}

// denials slow down callers who try tokens.
type denials struct {
	// longest is how long a wrong token takes at most.
	longest time.Duration

	mu      sync.Mutex     // guards following
	callers map[string]int // wrong tokens by IP address, within this minute
	minute  time.Time
}

// Bounds of denials: how long the first wrong token takes, each further one twice as long, and how many callers are
// remembered.
const (
	firstDenial, longestDenial = 10 * time.Millisecond, 2 * time.Second
	mostDenied                 = 1000
)

// deny counts a wrong token, logs the first of a minute, and waits.
func (d *denials) deny(s *Server, r *http.Request) {
	s.options.Streams.Denied.Add(1)
	caller := streams.Caller(r.RemoteAddr)
	d.mu.Lock()
	now := s.now()
	first := now.Sub(d.minute).Abs() >= time.Minute
	if first || len(d.callers) >= mostDenied {
		d.callers = make(map[string]int)
	}
	if first {
		d.minute = now
	}
	tried := d.callers[caller]
	d.callers[caller]++
	d.mu.Unlock()
	if first {
		s.log.Warn("a caller has given a wrong token; others are not logged for a minute", "caller", caller)
	}
	select {
	case <-time.After(min(firstDenial<<min(tried, 10), d.longest)):
	case <-r.Context().Done():
	}
}

// hostsOf returns the valid names in Host headers: a page of another site that resolves its own name to this machine
// (DNS rebinding) sends that name. If the agent listens on all addresses, any literal address is valid.
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

// checkOrigin rejects changes that a browser sends for a page of another site, also over the unix socket: a forwarded
// one is a port of the machine that the browser runs on. A WebSocket runs commands, and is a GET.
func (s *Server) checkOrigin(r *http.Request) error {
	origin, reads := r.Header.Get("Origin"), r.Method == http.MethodGet || r.Method == http.MethodHead
	if origin == "" || reads && r.Header.Get("Upgrade") == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host != r.Host || !s.knownHost(r.Host) || r.TLS != nil && u.Scheme != "https" {
		return errOtherOrigin
	}
	return nil
}

// checkSite rejects a GET that changes something if a browser sends it for a page of another site, such as the source
// of an image: those have no Origin.
func (s *Server) checkSite(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "" && (site != "same-origin" && site != "none" || !s.knownHost(r.Host)) {
		return errOtherOrigin
	}
	return nil
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
