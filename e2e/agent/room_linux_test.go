// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestGroupsWithoutRoom has a group above the tasks reach each of its limits: a start says which, takes no attempt and
// leaves nothing; it is made once there is room.
func TestGroupsWithoutRoom(t *testing.T) {
	for name, limit := range map[string]struct{ controller, file string }{
		"descendants": {"", "cgroup.max.descendants"}, "depth": {"", "cgroup.max.depth"}, "processes": {"pids", "pids.max"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Require(t)
			if os.Geteuid() != 0 {
				t.Skip("only root limits groups")
			}
			parent := rig.NeedParent(t)
			testkit.Must(t, parent.Delegate())
			folders := append(parent.Folders(limit.controller), parent.Folders("")...)
			path := filepath.Join(folders[0], limit.file)
			if err := os.WriteFile(path, []byte("0"), 0); err != nil {
				t.Skip(err)
			}
			h := hostWithAgent(t, fmt.Sprintf("plugin \"tacho\" {\n  config {\n    cgroup_parent = %q\n  }\n}\n", parent.Path))
			const policy = "restart {\n attempts = 0\n delay = \"1s\"\n mode = \"fail\"\n}"
			h.run(shellJob("crowded", "service", policy, 32, "exec sleep 1000"))
			d := h.find("crowded", "a retry", func(d *allocation) bool {
				return d.event("Restarting", ": retry 2 of 10, which counts as no attempt") != ""
			})
			if d.event("Driver Failure", path+" is 0, and ") == "" {
				t.Errorf("events %+v", d.TaskStates["t"].Events)
			}
			for _, folder := range parent.Folders(parent.Hierarchies()...) {
				if left, err := filepath.Glob(filepath.Join(folder, "tacho-*")); err != nil || len(left) > 0 {
					t.Errorf("left: %s, %v", left, err)
				}
			}
			testkit.Must(t, os.WriteFile(path, []byte("max"), 0))
			h.find("crowded", "the start", func(d *allocation) bool { return d.ClientStatus == "running" })
			h.stop("crowded")
		})
	}
}
