// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// A program that never says where it listens does not hold up a caller who is asked to end.
func TestStartIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	mute := filepath.Join(dir, "mute")
	testkit.Must(t, os.WriteFile(mute, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700))
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

// What an executor says before it ends is why it could not be started, without the stacks of a crash.
func TestStartSaysWhy(t *testing.T) {
	for name, test := range map[string]struct{ says, want string }{
		"error": {"echo no room >&2", "start executor: no room"},
		"name":  {"cat /proc/$$/comm >&2", "start executor: tacho"}, // also from the first instruction on
		"crash": {`printf 'fatal error: bad\n[signal 11]\n\ngoroutine 1:\nmain()\n' >&2`, "start executor: fatal error: bad\n[signal 11]"},
		"thread": {
			`printf 'runtime: failed to create new OS thread (have 5 already; errno=11)\n' >&2`,
			"start executor: create a thread: resource temporarily unavailable",
		},
		"after its address": {
			// In this order: a caller that fails to connect kills it.
			"echo gone >&2; echo '1|1|unix|/nowhere|grpc'; exit 2", "start executor: gone",
		},
	} {
		dir := t.TempDir()
		failing := filepath.Join(dir, "failing")
		testkit.Must(t, os.WriteFile(failing, []byte("#!/bin/sh\n"+test.says+"\n"), 0o700))
		_, err := Start(t.Context(), Options{Binary: failing, RuntimeDir: filepath.Join(dir, "run"), ID: "x"})
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// TestRunningDirs finds the runtime directory of an executor that runs, wherever that is.
func TestRunningDirs(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.Args, cmd.Env = []string{"tacho", "executor", "-"}, []string{"A=b", "PLUGIN_UNIX_SOCKET_DIR=/somewhere/else/id"}
	stdin := testkit.Value(cmd.StdinPipe())(t)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = errors.Join(stdin.Close(), cmd.Wait()) })
	for began := time.Now(); !slices.Contains(RunningDirs(kernel.HostFS()), "/somewhere/else"); <-time.After(10 * time.Millisecond) {
		if time.Since(began) > time.Minute { // the kernel shows the arguments soon after execve(2)
			t.Fatal("not found")
		}
	}
}

// A folder whose sockets would have no names is refused in words, and not left behind.
func TestStartInLongFolder(t *testing.T) {
	const id = "0123456789"
	run := filepath.Join(t.TempDir(), strings.Repeat("x", 107))[:LongestRuntimeDir(len(id))+1]
	_, err := Start(t.Context(), Options{Binary: "/bin/true", RuntimeDir: run, ID: id})
	if err == nil || !strings.Contains(err.Error(), "has 80 bytes; at most 79, so that") {
		t.Errorf("error %v, want one about the length", err)
	}
	if _, err := os.Lstat(run); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// An executor may be ending when it is asked to, and have closed its socket, because of its leash, and take its time for that on a busy machine:
// that is no error.
func TestShutdownOfOneThatEnds(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	testkit.Must(t, cmd.Start())
	self := testkit.Value(kernel.Identify(kernel.HostFS(), cmd.Process.Pid))(t)
	watched := testkit.Value(watch(self.ProcessID, nil, nil))(t)
	c := &Client{process: watched, address: wire.Address{Socket: filepath.Join(t.TempDir(), "closed")}}
	c.open()
	ends := time.AfterFunc(2*lostGrace, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	defer ends.Stop()
	testkit.NoError(t, c.Shutdown(t.Context()))
	testkit.NoError(t, errors.Join(c.conn.close(), watched.close()))
}
