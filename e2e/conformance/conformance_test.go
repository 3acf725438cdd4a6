// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/e2e/conformance/host"
	"github.com/tachograph/tacho/e2e/conformance/suite"
	"github.com/tachograph/tacho/e2e/rig"
)

// binary is what "make build" leaves behind.
func binary(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("executors need Linux")
	}
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", "tacho"))
	rig.Must(t, err)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: build it first, make build", path)
	}
	return path
}

// shortDir is a folder in which the paths of sockets fit into their 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "conf")
	rig.Must(t, err)
	t.Cleanup(func() { rig.Check(t, os.RemoveAll(dir)) })
	return dir
}

func logger(t *testing.T) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: testLog{t}})
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// conform runs every case as a test of its own.
func conform(t *testing.T, subject suite.Subject) { conformTo(t, subject, suite.Cases()) }

func conformTo(t *testing.T, subject suite.Subject, cases []suite.Case) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			err := suite.Run(t.Context(), subject, []suite.Case{c}, func(r suite.Result) {
				switch r.Outcome {
				case suite.Failed:
					t.Error(r.Detail)
				case suite.Skipped:
					t.Skip(r.Detail)
				case suite.Passed:
				}
			})
			rig.Must(t, err)
		})
	}
}

func TestInProcess(t *testing.T) {
	path := binary(t)
	c := driver.DefaultConfig()
	c.RuntimeDir = filepath.Join(shortDir(t), "run")
	conform(t, &suite.InProcess{Options: driver.Options{
		Config: c, Version: "0.0.0-test", Binary: path, Logger: logger(t),
	}})
}

// TestExecutorStats runs the cases about samples with those of the executors, as where the driver may not read a
// cgroup.
func TestExecutorStats(t *testing.T) {
	path := binary(t)
	c := driver.DefaultConfig()
	c.RuntimeDir = filepath.Join(shortDir(t), "run")
	cases := slices.DeleteFunc(suite.Cases(), func(c suite.Case) bool { return !strings.HasPrefix(c.Name, "stats") })
	conformTo(t, &suite.InProcess{Options: driver.Options{
		Config: c, Version: "0.0.0-test", Binary: path, Logger: logger(t), ExecutorStats: true,
	}}, cases)
}

func TestPlugin(t *testing.T) {
	path := binary(t)
	msgpack, diags := driver.ConfigSchema().Encode(nil, nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	conform(t, &suite.Plugin{
		Options: host.Options{Path: path, Logger: logger(t)}, Config: msgpack,
		Topology: host.Topology([]int{0}, 2000),
	})
}

// TestNoPlugin holds that an executable that is not a plugin is an error.
func TestNoPlugin(t *testing.T) {
	path, err := exec.LookPath("true")
	if err != nil {
		t.Skip("there is no true(1) here")
	}
	for _, args := range [][]string{{}, {"-plugin", path}, {"-plugin", path, "-run", "("}} {
		if failed, err := run(context.Background(), args, testLog{t}); err == nil {
			t.Errorf("%q: %d failed, and no error", args, failed)
		}
	}
}
