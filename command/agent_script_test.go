// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestAgentScripts runs the commands that ask an agent, against one that is not real: at $TACHO_ADDR over TCP; at
// $LOCKED with the token "secret"; at $WORK/data/tacho.sock.
func TestAgentScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "agentscript"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			open, locked := httptest.NewServer(newFakeAgent(t, "")), httptest.NewServer(newFakeAgent(t, "secret"))
			env.Defer(open.Close)
			env.Defer(locked.Close)
			env.Setenv("TACHO_ADDR", open.URL)
			env.Setenv("LOCKED", locked.URL)
			env.Setenv("TZ", "UTC")
			env.Setenv("TACHO_SETTLE", "20ms")
			env.Setenv("NO_COLOR", "")
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exitcode": exitCode, "listen": listenOn},
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
