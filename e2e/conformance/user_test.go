// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/e2e/conformance/host"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestUserOfATask has the plugin's host give a task its own HOME, as Nomad does, or the job one, or neither.
func TestUserOfATask(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root starts tasks of others")
	}
	t.Parallel()
	dir := shortDir(t)
	testkit.Must(t, os.Chmod(dir, 0o755))
	p := testkit.Value(host.Start(t.Context(), host.Options{Path: binary(t), Logger: logger(t)}))(t)
	t.Cleanup(p.Close)
	testkit.Must(t, p.SetConfig(t.Context(), encoded(t, driver.ConfigSchema(), fmt.Sprintf("runtime_dir = %q\n", filepath.Join(dir, "run"))), nil))
	daemon := testkit.Value(user.LookupId("1"))(t)
	own := daemon.HomeDir + " " + daemon.Username + " " + daemon.Username
	for name, test := range map[string]struct {
		user string
		env  map[string]string
		want string
	}{
		"of-the-host": {"1", map[string]string{"HOME": os.Getenv("HOME"), "PATH": os.Getenv("PATH")}, own},
		"none":        {"1", nil, own},
		"of-the-job":  {"1", map[string]string{"HOME": "/mine"}, "/mine " + daemon.Username + " " + daemon.Username},
		"no-user":     {"", map[string]string{"HOME": os.Getenv("HOME")}, os.Getenv("HOME") + "  "},
		"no-account":  {"4294967", map[string]string{"HOME": os.Getenv("HOME")}, "  "},
	} {
		testkit.Must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		output := filepath.Join(dir, name, "output")
		testkit.Must(t, os.WriteFile(output, nil, 0o666))
		testkit.Must(t, os.Chmod(output, 0o666)) //nolint:gosec // the task of another user writes to it
		task := &driver.TaskConfig{
			ID: filepath.Base(dir) + "/" + name, Name: name, AllocDir: dir, User: test.user, Env: test.env,
			StdoutPath: os.DevNull, StderrPath: os.DevNull,
			DriverConfig: encoded(t, driver.TaskSchema(), fmt.Sprintf(
				"command = \"/bin/sh\"\nargs = [\"-c\", \"echo \\\"$HOME $USER $LOGNAME\\\" > %s\"]\n", output)),
		}
		testkit.Value(p.StartTask(t.Context(), task))(t)
		exit := testkit.Value(p.WaitTask(t.Context(), task.ID))(t)
		testkit.Equal(t, exit.Code, 0, "exit code")
		testkit.Equal(t, string(testkit.Value(os.ReadFile(output))(t)), test.want+"\n", "HOME, USER and LOGNAME, with variables %s", name)
		testkit.NoError(t, p.DestroyTask(context.Background(), task.ID, true))
	}
}
