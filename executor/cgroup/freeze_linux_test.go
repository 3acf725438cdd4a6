// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestKillWhatDoesNotFreeze kills a process that forks all the time, where there is a freezer's folder and the freezer
// is not ours to use: what was forked after the first look must not survive.
func TestKillWhatDoesNotFreeze(t *testing.T) {
	t.Parallel()
	needRoot(t)
	parent := ""
	for controller, root := range roots(t) {
		if controller != "freezer" && controller != "cpuset" && controller != "" {
			parent = root
		}
	}
	if parent == "" {
		t.Skip("there is no hierarchy of version 1 without a freezer")
	}
	dir := filepath.Join(parent, fmt.Sprint("unfrozen-", os.Getpid()))
	must(t, os.Mkdir(dir, 0o755))
	g := Of(procstats.Cgroup{V1: map[string]string{"freezer": dir}}, true)
	t.Cleanup(func() { empty(t, g) })
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{planVariable + "=forks"}
	begin := testkit.Value(cmd.StdinPipe())(t)
	must(t, cmd.Start())
	must(t, write(dir, procsFile, strconv.Itoa(cmd.Process.Pid)))
	if _, err := begin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	members := func(what string, enough func(n int) bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for {
			pids := testkit.Value(g.PIDs())(t)
			if enough(len(pids)) {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %d processes", what, len(pids))
			}
		}
	}
	members("before", func(n int) bool { return n >= 10 })
	must(t, g.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("it has ended by itself")
	}
	members("after", func(n int) bool { return n == 0 })
}
