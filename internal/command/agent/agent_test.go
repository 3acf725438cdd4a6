// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestUselessAgentStartsNothing holds that an agent whose token cannot be read, or whose address is in use, ends before it
// starts or logs anything.
func TestUselessAgentStartsNothing(t *testing.T) {
	taken := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = taken.Close() }()
	for text, want := range map[string]string{
		"ports {\n http = -1\n}\nacl {\n token_file = \"/nonexistent\"\n}\n":      "acl.token_file: read token",
		fmt.Sprintf("ports {\n http = %d\n}\n", taken.Addr().(*net.TCPAddr).Port): syscall.EADDRINUSE.Error(),
	} {
		dir := t.TempDir()
		data, file := filepath.Join(dir, "data"), filepath.Join(dir, "agent.hcl")
		must(t, os.WriteFile(file, fmt.Appendf(nil, "data_dir = %q\n%s", data, text), 0o600))
		var stdout, log bytes.Buffer
		err := runAgent(t.Context(), agentOptions{config: []string{file}}, &stdout, &log)
		if err == nil || !strings.Contains(err.Error(), want) || stdout.Len()+log.Len() > 0 {
			t.Errorf("error %v, output %q, log %q; want %q", err, &stdout, &log, want)
		}
		if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the data directory: %v", err)
		}
	}
}

// TestPortOfTheKernel holds that the port is printed on which an agent with port 0 listens, and that a reload keeps it.
func TestPortOfTheKernel(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.hcl")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "data_dir = %q\nports {\n http = 0\n}\n", filepath.Join(dir, "data")), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, written := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- runAgent(ctx, agentOptions{config: []string{file}}, written, written)
		_ = written.Close()
	}()
	served, reloaded := false, ""
	for lines := bufio.NewScanner(read); lines.Scan(); {
		if address, ok := strings.CutPrefix(lines.Text(), "API "); ok {
			response, err := http.Get(strings.TrimSpace(address))
			if err != nil {
				t.Errorf("%s: %v", address, err)
				stop()
				continue
			}
			served = response.Body.Close() == nil
			must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		}
		if strings.Contains(lines.Text(), "reloaded configuration") {
			reloaded = lines.Text()
			stop()
		}
	}
	testkit.NoError(t, <-ended)
	if !served || !strings.Contains(reloaded, "requires_restart=[]") {
		t.Errorf("served: %t; %q", served, reloaded)
	}
}

func TestClosedTerminalStopsOnlyDevelopment(t *testing.T) {
	for name, test := range map[string]struct {
		options agentOptions
		stops   bool
	}{
		"development":                      {agentOptions{dev: true}, true},
		"development with a configuration": {agentOptions{dev: true, config: []string{"c.hcl"}}, false},
		"service":                          {agentOptions{}, false},
	} {
		signals := test.options.stopSignals()
		if got := slices.Contains(signals, os.Signal(syscall.SIGHUP)); got != (test.stops && !signal.Ignored(syscall.SIGHUP)) { // as under nohup(1)
			t.Errorf("%s: SIGHUP stops: %t, want %t", name, got, test.stops)
		}
		if !slices.Contains(signals, os.Interrupt) || !slices.Contains(signals, os.Signal(syscall.SIGTERM)) {
			t.Errorf("%s: stops with %v, want SIGINT and SIGTERM", name, signals)
		}
	}
}
