// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package client talks to an agent over HTTP: through its unix socket, which may do everything, or over TCP, where
// the token decides. It knows the JSON of package api and nothing else of the agent, so that linking it costs little.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/internal/paths"
	"github.com/tachograph/tacho/internal/regular"
)

// Options say which agent and as whom.
type Options struct {
	// Address is unix:/path, http://host:port or https://host:port.
	Address string
	// Token is sent over every transport; empty for none.
	Token string
	// CAFile has the certificates that sign https addresses; empty means the system's.
	CAFile string
	// TLS is how https is spoken, if not as usual with CAFile.
	TLS *tls.Config
	// Query is part of all requests.
	Query url.Values
}

// Client asks one agent. Its methods may be called concurrently.
type Client struct {
	address string
	base    url.URL
	token   string
	query   url.Values
	http    *http.Client
}

// Bounds on one answer, streams aside.
const (
	maxAnswer = 64 << 20
	maxError  = 64 << 10
	timeout   = 30 * time.Second
)

// ErrUnreachable is wrapped if no agent answers at the address.
var ErrUnreachable = errors.New("no agent is listening")

// ErrSlow is wrapped if an agent was reached and did not answer in time.
var ErrSlow = errors.New("no answer in time")

// StatusError is an answer that is not a success.
type StatusError struct {
	// Status is HTTP's.
	Status int
	// Text is the agent's own; it can have several lines.
	Text string
}

// Error returns the agent's text.
func (e *StatusError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("the agent answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return e.Text
}

// StatusOf returns the status of HTTP that an error is; 0 for other errors.
func StatusOf(err error) int {
	if refused, ok := errors.AsType[*StatusError](err); ok {
		return refused.Status
	}
	return 0
}

// IsNotFound reports whether the agent says that there is no such thing.
func IsNotFound(err error) bool { return StatusOf(err) == http.StatusNotFound }

// AddressError says what is wrong with an address.
type AddressError string

// Error implements error.
func (e AddressError) Error() string { return string(e) }

const errAddress = AddressError("must be unix:/path, http://host:port or https://host:port; " +
	"/path, host:port and host are understood")

// New returns a client that has not connected yet.
func New(o Options) (*Client, error) {
	c := &Client{address: o.Address, token: o.Token, query: o.Query}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true, TLSClientConfig: o.TLS,
	}
	if path, ok := strings.CutPrefix(o.Address, "unix:"); ok {
		if path = "/" + strings.TrimLeft(path, "/"); path == "/" {
			return nil, errAddress
		}
		if err := paths.CheckSocket(path); err != nil {
			return nil, AddressError(err.Error())
		}
		c.base = url.URL{Scheme: "http", Host: "localhost"}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	} else {
		base, err := parseBase(o.Address)
		if err != nil {
			return nil, err
		}
		c.base = *base
	}
	if o.CAFile != "" {
		roots, err := regular.Certificates(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read certificates: %w", err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	c.http = &http.Client{Transport: transport}
	return c, nil
}

// parseBase returns the scheme and the host of an address over TCP.
func parseBase(address string) (*url.URL, error) {
	_, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	if _, port, err := net.SplitHostPort(host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, AddressError(fmt.Sprintf("%q is not a port; must be 1 to 65535", port))
		}
	}
	base, err := url.Parse(address)
	if err != nil || base.Hostname() == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errAddress
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host}, nil
}

// SignInLink is a link that signs a browser in to the agent's page, once and within a minute.
type SignInLink struct {
	// URL is the agent's own address, empty if it does not listen on TCP; Path is the path of the link.
	URL, Path string
}

// SignInLink returns a new link. It needs the unix socket or the token.
func (c *Client) SignInLink(ctx context.Context) (SignInLink, error) {
	answer, err := do[SignInLink](ctx, c, call{method: http.MethodPost, path: "/page/link"})
	return answer.Value, err
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Address is where the agent is, as it was given to New.
func (c *Client) Address() string { return c.address }

// Answer is what the agent said.
type Answer[T any] struct {
	Value T
	// JSON is the answer as it came.
	JSON json.RawMessage
	// Index is the index of the agent's newest event when it answered, for Wait.
	Index uint64
	// Next is the token of the next page of a list; empty for the last one.
	Next string
}

// Wait lets the agent hold an answer back until something happened after Index, at most For. The zero value waits
// for nothing.
type Wait struct {
	Index uint64
	For   time.Duration
}

// call is one request.
type call struct {
	method string
	path   string
	query  url.Values
	body   any
	// patience is the time for the response beyond the usual.
	patience time.Duration
}

// Get returns what is at a path, made by Path, of an API that works like that of an agent: Nomad's, or Prometheus'.
// pairs are names of parameters, each followed by its value; empty values are left out.
func Get[T any](ctx context.Context, c *Client, path string, pairs ...string) (Answer[T], error) {
	return do[T](ctx, c, call{method: http.MethodGet, path: path, query: queryOf(pairs...)})
}

// put changes something.
func put[T any](ctx context.Context, c *Client, path string, body any, patience time.Duration) (Answer[T], error) {
	return do[T](ctx, c, call{method: http.MethodPut, path: path, body: body, patience: patience})
}

// getAfter returns a value once there may be a newer one.
func getAfter[T any](ctx context.Context, c *Client, path string, w Wait) (Answer[T], error) {
	r := call{method: http.MethodGet, path: path, patience: w.For}
	if w.For != 0 {
		r.query = queryOf("index", strconv.FormatUint(w.Index, 10), "wait", w.For.String())
	}
	return do[T](ctx, c, r)
}

func queryOf(pairs ...string) url.Values {
	query := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			query.Set(pair[0], pair[1])
		}
	}
	return query
}

// do makes a request and decodes the answer.
func do[T any](ctx context.Context, c *Client, r call) (answer Answer[T], err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout+r.patience)
	defer cancel()
	response, err := c.send(ctx, r)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("more than %d bytes", maxAnswer)
	}
	if err == nil {
		err = json.Unmarshal(text, &answer.Value)
	}
	if err != nil {
		return answer, fmt.Errorf("read answer of %s: %w", r.path, err)
	}
	answer.JSON = text
	answer.Next = response.Header.Get("X-Nomad-Nexttoken")
	answer.Index, _ = strconv.ParseUint(response.Header.Get("X-Nomad-Index"), 10, 64) // absent is no index
	return answer, nil
}

// send makes a request; the caller closes the body. Failures are a StatusError.
func (c *Client) send(ctx context.Context, r call) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, r.method, c.target(r.path, r.query), body)
	if err != nil {
		return nil, err
	}
	c.sign(request.Header)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	var connected atomic.Bool
	traced := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	response, err := c.http.Do(request.WithContext(httptrace.WithClientTrace(ctx, traced)))
	switch {
	case err != nil && connected.Load() && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("agent at %s: %w; the request may still take effect", c.address, ErrSlow)
	case err != nil:
		return nil, c.unreachable(ctx, err)
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		return nil, statusError(response)
	}
	return response, nil
}

func statusError(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxError)) // what came of it is better than nothing
	return &StatusError{response.StatusCode, strings.TrimSpace(string(text))}
}

// target is the URL of a path that Path made.
func (c *Client) target(path string, query url.Values) string {
	target := c.base
	all := url.Values{}
	maps.Copy(all, c.query)
	maps.Copy(all, query)
	target.RawPath, target.RawQuery = path, all.Encode()
	target.Path, _ = url.PathUnescape(path)
	return target.String()
}

// sign adds the token.
func (c *Client) sign(header http.Header) {
	if c.token != "" {
		header.Set("X-Nomad-Token", c.token)
	}
}

// unreachable names the address that does not respond, or whose certificate is not trusted. It removes the URL that
// net/http puts before its errors: it does not help if the agent is behind a socket.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return fmt.Errorf("the agent at %s: %w", c.address, err)
	}
	return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.address, err)
}

// Path joins words to a path; each is escaped.
func Path(words ...string) string {
	var path strings.Builder
	for _, word := range words {
		path.WriteString("/" + url.PathEscape(word))
	}
	return path.String()
}
