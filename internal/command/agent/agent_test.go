// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestBrokenSecretsStartNothing holds that an agent whose token cannot be read ends before it starts or logs anything.
func TestBrokenSecretsStartNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.hcl")
	text := fmt.Sprintf("data_dir = %q\nports {\n  http = -1\n}\nacl {\n  token_file = %q\n}\n", filepath.Join(dir, "data"), filepath.Join(dir, "none"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err := runAgent(t.Context(), agentOptions{config: []string{file}}, &stdout, &stderr)
	if err == nil || !strings.Contains(err.Error(), "acl.token_file: read token") || stdout.Len()+stderr.Len() > 0 {
		t.Errorf("error %v, output %q, log %q", err, &stdout, &stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data directory: %v", err)
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
