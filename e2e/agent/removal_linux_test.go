// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestMountedDirectoriesStay has a task mount another directory in its own. The timer, and the API, remove all but that,
// and say so; so does the next agent. Each collection tries again.
func TestMountedDirectoriesStay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	for name, config := range map[string]string{
		"timer": "client {\n  gc_age = \"1s\"\n  gc_interval = \"1s\"\n}", "api": "client {\n  gc_interval = \"1s\"\n}",
	} {
		t.Run(name, func(t *testing.T) {
			h := hostWithAgent(t, config)
			victim := filepath.Join(h.dir, "victim")
			precious := filepath.Join(victim, "file")
			testkit.Must(t, os.Mkdir(victim, 0o755))
			testkit.Must(t, os.WriteFile(precious, []byte("precious"), 0o600))
			h.run(shellJob("mount", "batch", noRestart, 32, "mkdir local/m local/d && echo >local/d/f && mount --bind "+victim+" local/m"))
			h.find("mount", "the end", func(d *allocation) bool { return d.ClientStatus == "complete" })
			dir := filepath.Join(h.data(), "alloc", h.allocations()[0].ID)
			mounted := filepath.Join(dir, "t/local/m")
			t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) }) // for a test that failed
			collect := func() string {
				if name == "timer" {
					return ""
				}
				_, err := h.call(http.MethodPut, "/v1/system/gc", nil)
				if err == nil {
					return ""
				}
				return err.Error()
			}
			h.eventually("the answer", func() bool { // it has ended for all to see before it can be collected
				return name == "timer" || strings.Contains(collect(), "t/local/m: another directory or file is mounted on it")
			})
			told := func(d *allocation) bool {
				return d.ClientDescription == "not removed: 1 entry: another directory or file is mounted on it; unmount it with umount(8)"
			}
			h.find("mount", "the reason", told)
			h.end(syscall.SIGKILL)
			h.begin()
			if d := h.allocations()[0]; !told(&d) {
				t.Errorf("after a restart: %q", d.ClientDescription)
			}
			if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
				t.Errorf("%q, %v", text, err)
			}
			if left, err := filepath.Glob(dir + "/*/*/*"); err != nil || len(left) != 1 {
				t.Errorf("left: %s, %v", left, err)
			}
			testkit.Must(t, unix.Unmount(mounted, 0))
			h.eventually("the removal", func() bool { return len(h.allocations()) == 0 })
			if _, err := os.Lstat(dir); !os.IsNotExist(err) {
				t.Errorf("%s: %v", dir, err)
			}
		})
	}
}
