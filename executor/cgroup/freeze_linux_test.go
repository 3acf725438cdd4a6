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
	tried := false
	for controller, root := range roots(t) {
		dir := filepath.Join(root, fmt.Sprint("unfrozen-", os.Getpid()))
		var g *Group
		switch controller {
		case "freezer", "cpuset":
			continue
		case "": // without cgroup.kill, as before Linux 5.14
			g = Of(procstats.Cgroup{V2: dir}, true)
		default:
			g = Of(procstats.Cgroup{V1: map[string]string{"freezer": dir}}, true)
		}
		tried = true
		t.Run(filepath.Base(root), func(t *testing.T) { killForks(t, g, dir) })
	}
	if !tried {
		t.Skip("there is no hierarchy but those of the freezer and of cpusets")
	}
}

func killForks(t *testing.T, g *Group, dir string) {
	must(t, os.Mkdir(dir, 0o755))
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			pids := testkit.Value(g.PIDs())(t)
			if enough(len(pids)) {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %d processes", what, len(pids))
			}
			<-time.After(time.Millisecond) // for those that fork
		}
	}
	members("before", func(n int) bool { return n >= 10 })
	must(t, g.killEach())
	if err := cmd.Wait(); err == nil {
		t.Error("it has ended by itself")
	}
	members("after", func(n int) bool { return n == 0 })
}
