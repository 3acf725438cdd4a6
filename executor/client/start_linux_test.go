// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program that never says where it listens does not hold up a caller who is asked to end.
func TestStartIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	mute := filepath.Join(dir, "mute")
	if err := os.WriteFile(mute, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Start(ctx, Options{Binary: mute, RuntimeDir: run, ID: "x"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("started: %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("given up after %s", took)
	}
	if entries, err := os.ReadDir(run); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A folder whose sockets would have no names is refused in words, and not left behind.
func TestStartInLongFolder(t *testing.T) {
	const id = "0123456789"
	run := filepath.Join(t.TempDir(), strings.Repeat("x", 107))[:LongestRuntimeDir(len(id))+1]
	_, err := Start(t.Context(), Options{Binary: "/bin/true", RuntimeDir: run, ID: id})
	if err == nil || !strings.Contains(err.Error(), "has 80 bytes; it must have at most 79") {
		t.Errorf("error %v, want one about the length", err)
	}
	if _, err := os.Lstat(run); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}
