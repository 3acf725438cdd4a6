// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package command_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestRemoteScripts runs the clients of an agent against a fake one: at $TACHO_ADDR over TCP, at $LOCKED with the token
// "secret", and at $WORK/data/tacho.sock.
func TestRemoteScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "remote", map[string]scriptCommand{"listen": listenOn}, func(env *testscript.Env) error {
		open, locked := httptest.NewServer(newFakeAgent(t, "")), httptest.NewServer(newFakeAgent(t, "secret"))
		env.Defer(open.Close)
		env.Defer(locked.Close)
		env.Setenv("TACHO_ADDR", open.URL)
		env.Setenv("LOCKED", locked.URL)
		env.Setenv("TACHO_JOB_RUN_SETTLE", "20ms")
		return nil
	})
}

// listenOn serves a fake agent on a unix socket: listen PATH.
func listenOn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen PATH")
	}
	listener, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	server := &http.Server{Handler: newFakeAgent(nil, "")}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ErrServerClosed
	}()
	ts.Defer(func() {
		_ = server.Close() // nothing is kept
		<-done
	})
}
