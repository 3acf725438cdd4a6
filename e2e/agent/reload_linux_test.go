// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// sleeper is a job whose task does nothing.
func sleeper() string { return shellJob("sleeper", "service", "", 32, "exec sleep 1000") }

// stats is what these tests look at of /v1/client/allocation/ID/stats.
type stats struct {
	Tasks map[string]struct {
		Timestamp int64
	}
}

func (h *host) running(job string) (id string) {
	h.t.Helper()
	h.run(job)
	h.eventually("the running task", func() bool {
		for _, a := range h.allocations() {
			if a.ClientStatus == "running" {
				id = a.ID
			}
		}
		return id != ""
	})
	return id
}

// TestHangupTurnsPublishing turns publishing on and off for a task that runs on all the while.
func TestHangupTurnsPublishing(t *testing.T) {
	h := hostWithAgent(t, "")
	id := h.running(sleeper())
	timestamp := func() int64 {
		var s stats
		h.get("/v1/client/allocation/"+id+"/stats", &s)
		return s.Tasks["t"].Timestamp
	}
	if at := timestamp(); at != 0 {
		t.Errorf("read at %d with publishing off", at)
	}
	h.configure(publishing)
	h.hangup()
	h.eventually("a reading", func() bool { return timestamp() != 0 })
	h.configure("history {")
	h.hangup()
	h.eventually("the complaint", func() bool { return h.logged("reload configuration") })
	if timestamp() == 0 {
		t.Error("a broken configuration turned publishing off")
	}
	h.configure("")
	h.hangup()
	h.eventually("no reading", func() bool { return timestamp() == 0 })
}

func (h *host) hangup() {
	h.t.Helper()
	testkit.Must(h.t, h.cmd.Process.Signal(syscall.SIGHUP))
}

func (h *host) logged(text string) bool {
	all, err := os.ReadFile(h.log.Name())
	return err == nil && bytes.Contains(all, []byte(text))
}

// TestTerminatedAgentLeavesTasks ends the agent as a service manager does, and starts the next one.
func TestTerminatedAgentLeavesTasks(t *testing.T) {
	h := hostWithAgent(t, publishing)
	id := h.running(sleeper())
	before := h.processes()
	h.end(syscall.SIGTERM)
	if left := h.processes(); len(before) == 0 || !slices.Equal(left, before) {
		t.Errorf("processes of the task: %v, were %v with the agent", left, before)
	}
	if _, err := os.Stat(h.socket()); err == nil {
		t.Error("the socket is still there")
	}
	h.begin()
	all := h.allocations()
	if len(all) != 1 || all[0].ID != id || all[0].ClientStatus != "running" || all[0].TaskStates["t"].Restarts != 0 {
		t.Errorf("allocations %+v", all)
	}
}

// TestDevAgentLeavesNothing ends a development agent in the midst of a job: no process and no file stay behind.
func TestDevAgentLeavesNothing(t *testing.T) {
	rig.Require(t)
	run := func(t *testing.T, as *syscall.Credential, stdout *os.File) {
		// Everything is below the folder for temporary files.
		tmp := testkit.Value(os.MkdirTemp("/tmp", "dev"))(t)
		defer os.RemoveAll(tmp)
		job := filepath.Join(tmp, "job.hcl")
		testkit.Must(t, os.WriteFile(job, []byte(sleeper()), 0o644))
		config := filepath.Join(tmp, "config.hcl")
		testkit.Must(t, os.WriteFile(config, []byte("ports {\n  http = -1\n}\n"), 0o644))
		if as != nil {
			testkit.Must(t, os.Chown(tmp, int(as.Uid), int(as.Gid)))
		}
		cmd := exec.Command(rig.Tacho(), "agent", "-dev", "-config="+config, "--job", job)
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "XDG_RUNTIME_DIR=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		log := testkit.Value(os.Create(filepath.Join(tmp, "log")))(t)
		defer log.Close()
		cmd.Stdout, cmd.Stderr = stdout, log
		testkit.Must(t, cmd.Start())
		defer func() { _ = cmd.Process.Kill() }() // where the test went wrong
		h := &host{t: t, dir: tmp, log: log}
		defer h.showLog()
		h.eventually("the start of the task", func() bool { return h.logged("type=Started") })
		testkit.Must(t, cmd.Process.Signal(os.Interrupt))
		testkit.NoError(t, cmd.Wait())
		if left, err := filepath.Glob(filepath.Join(tmp, "tacho-dev-*")); len(left) > 0 || err != nil {
			t.Errorf("left behind: %q, %v", left, err)
		}
		for _, folder := range processesWith(t, tmp) {
			t.Errorf("process %d is still there", folder)
		}
	}
	t.Run("as itself", func(t *testing.T) { run(t, nil, nil) })
	t.Run("without a reader", func(t *testing.T) { // tacho agent -dev | head -n 1
		r, w, err := os.Pipe()
		testkit.Must(t, err)
		defer w.Close()
		r.Close()
		run(t, nil, w)
	})
	t.Run("as nobody", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can run as somebody else")
		}
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Skipf("there is no user nobody here: %v", err)
		}
		uid := testkit.Value(strconv.ParseUint(nobody.Uid, 10, 32))(t)
		run(t, &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}, nil)
	})
}
