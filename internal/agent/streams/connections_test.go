// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package streams_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestConnections holds that connections without a request give way, and that those with one keep their place.
func TestConnections(t *testing.T) {
	t.Parallel()
	const most = 20
	all := streams.NewConnections(most)
	ctx, stop := context.WithCancel(t.Context())
	server := &http.Server{ConnState: all.State, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			_ = http.NewResponseController(w).Flush()
			<-ctx.Done()
		}
	})}
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(all.Bound(l)) }()
	defer func() {
		testkit.Must(t, server.Close())
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if open, _ := all.Count(); open != 0 {
			t.Errorf("%d connections are open", open)
		}
	}()
	defer stop()
	get := func(path string) (*http.Response, error) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
		return client.Get("http://" + l.Addr().String() + path)
	}
	var working []io.ReadCloser
	for range most/2 - 1 { // this caller has one place left
		resp, err := get("/long")
		testkit.Must(t, err)
		working = append(working, resp.Body)
		defer resp.Body.Close()
	}
	for range 50 { // connections of which half never send a request
		conn := testkit.Value(net.Dial("tcp", l.Addr().String()))(t)
		defer conn.Close()
		for { // the connection of the request before may linger
			if resp, err := get("/"); err == nil {
				testkit.Must(t, resp.Body.Close())
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	open, refused := all.Count()
	if open > most/2 || refused < 50 {
		t.Errorf("%d are open, %d were refused", open, refused)
	}
	stop()
	for _, body := range working {
		if _, err := io.ReadAll(body); err != nil {
			t.Errorf("a connection with a request was closed: %v", err)
		}
	}
	all.CloseAll()
}
