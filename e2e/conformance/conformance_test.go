// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	"github.com/tachograph/tacho/internal/testkit"
)

// binary is what "make build" leaves behind.
func binary(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("executors need Linux")
	}
	path := testkit.Value(filepath.Abs(filepath.Join("..", "..", "bin", "tacho")))(t)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: build it first, make build", path)
	}
	return path
}

// shortDir is a folder in which the paths of sockets fit into their 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := testkit.Value(os.MkdirTemp("", "conf"))(t)
	t.Cleanup(func() { testkit.NoError(t, os.RemoveAll(dir)) })
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

// TestMain runs more cases at a time than there are CPUs: they mostly wait for processes.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// conform runs every case as a test of its own, with a subject of its own that has a directory for its executors.
func conform(t *testing.T, cases []suite.Case, subject func(t *testing.T, runtimeDir string) suite.Subject) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			subject := subject(t, filepath.Join(shortDir(t), "run"))
			err := suite.Run(t.Context(), subject, []suite.Case{c}, func(r suite.Result) {
				switch r.Outcome {
				case suite.Failed:
					t.Error(r.Detail)
				case suite.Skipped:
					t.Skip(r.Detail)
				case suite.Passed:
				}
			})
			testkit.Must(t, err)
		})
	}
}

// inProcess returns our own driver in this process.
func inProcess(t *testing.T, runtimeDir string, executorStats bool) suite.Subject {
	c := driver.DefaultConfig()
	c.RuntimeDir = runtimeDir
	return &suite.InProcess{Options: driver.Options{
		Config: c, Version: "0.0.0-test", Binary: binary(t), Logger: logger(t), ExecutorStats: executorStats,
	}}
}

func TestInProcess(t *testing.T) {
	conform(t, suite.Cases(), func(t *testing.T, runtimeDir string) suite.Subject { return inProcess(t, runtimeDir, false) })
}

// TestExecutorStats runs the cases about samples with those of the executors, as where the driver may not read a
// cgroup.
func TestExecutorStats(t *testing.T) {
	cases := slices.DeleteFunc(suite.Cases(), func(c suite.Case) bool { return !strings.HasPrefix(c.Name, "stats") })
	conform(t, cases, func(t *testing.T, runtimeDir string) suite.Subject { return inProcess(t, runtimeDir, true) })
}

func TestPlugin(t *testing.T) {
	conform(t, suite.Cases(), func(t *testing.T, runtimeDir string) suite.Subject {
		return &suite.Plugin{
			Options:  host.Options{Path: binary(t), Logger: logger(t)},
			Config:   encoded(t, driver.ConfigSchema(), fmt.Sprintf("runtime_dir = %q\n", runtimeDir)),
			Topology: host.Topology([]int{0}, 2000),
		}
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
