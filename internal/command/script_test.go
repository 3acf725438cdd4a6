// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package command_test

import (
	"context"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/internal/command"
	"github.com/tachograph/tacho/internal/version"
)

var update = flag.Bool("update", false, "update the golden files in testdata/scripts")

func TestMain(m *testing.M) {
	// Scripts wait more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){
		"tacho": func() { // as in main.go
			if len(os.Args) > 1 && os.Args[1] == "executor" {
				syscall.Exit(executor.Main(version.String())) // with -race, os.Exit sleeps for a second
			}
			os.Exit(command.Execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// TestScripts runs tacho like its users do. Each script finds the runs of testdata/runs in $WORK/runs.
func TestScripts(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"root", "run", "record", "doctor"} {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			runScripts(t, family, nil, func(env *testscript.Env) error {
				return os.CopyFS(filepath.Join(env.WorkDir, "runs"), os.DirFS(filepath.Join("testdata", "runs")))
			})
		})
	}
}

type scriptCommand = func(ts *testscript.TestScript, neg bool, args []string)

// runScripts runs the scripts of a family of commands.
func runScripts(t *testing.T, family string, commands map[string]scriptCommand, setup func(*testscript.Env) error) {
	t.Helper()
	cmds := map[string]scriptCommand{"exitcode": exitCode}
	maps.Copy(cmds, commands)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "scripts", family),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			env.Setenv("NO_COLOR", "")
			// The race detector would keep each of some hundred short processes for a second.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return setup(env)
		},
		Cmds: cmds,
	})
}

// exitCode runs a program and compares its exit code: exitcode N PROGRAM [ARG...].
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N PROGRAM [ARG...]")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = codeOf(err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

func codeOf(err error) string {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err.Error()
	}
	return strconv.Itoa(exit.ExitCode())
}
