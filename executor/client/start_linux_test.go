// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
