// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAddressInUse is about an agent that nobody could reach: it says so before it says that it is ready, and has
// touched nothing.
func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "agent.hcl")
	text := fmt.Sprintf("data_dir = %q\nports {\n http = %d\n}\n", data, taken.Addr().(*net.TCPAddr).Port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, log bytes.Buffer
	if err := runAgent(t.Context(), agentOptions{config: []string{file}}, &stdout, &log); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the error is %v", err)
	}
	if strings.Contains(log.String(), "ready") || stdout.Len() > 0 {
		t.Errorf("it said %s%s", &stdout, &log)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory was made: %v", err)
	}
}
