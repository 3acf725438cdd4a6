// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// TestUncounted holds the reasons why the packets and the ended processes of a task are not counted, while it runs
// and in its record.
func TestUncounted(t *testing.T) {
	const shared, off, unsampled = "the task has no cgroup of version 2 to itself", "not counted (network off)", "publishing off"
	for name, test := range map[string]struct {
		keys              map[string]any
		sampled           bool
		commands, packets string
	}{
		"a shared cgroup":                {map[string]any{"cgroup_v2_override": sharedCgroup(t)}, true, shared, shared},
		"a shared cgroup, not sampled":   {map[string]any{"cgroup_v2_override": sharedCgroup(t)}, false, shared, shared},
		"not sampled":                    {nil, false, unsampled, unsampled},
		"network off":                    {map[string]any{"network": "off"}, true, "", off},
		"network off in a shared cgroup": {map[string]any{"network": "off", "cgroup_v2_override": sharedCgroup(t)}, true, shared, off},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			config := f.shell("")
			keys := map[string]any{"command": "sh", "args": []string{"-c", "/bin/true; echo ready; exec sleep 1000"}}
			maps.Copy(keys, test.keys)
			config.DriverConfig = msgpack(t, keys)
			f.start(config)
			f.awaitOutput(config, "ready")
			if test.sampled {
				f.stream(config, time.Second)
			}
			c, err := f.Commands(config.ID)
			if err != nil || c == nil || test.commands != "" && !strings.Contains(c.Reason, test.commands) {
				t.Fatalf("commands while it runs: %+v, %v; want %q", c, err, test.commands)
			}
			must(t, f.StopTask(t.Context(), config.ID, 0, "SIGKILL"))
			r, err := f.FinalRecord(config.ID)
			if err != nil || r.Commands == nil || test.commands != "" && !strings.Contains(r.Commands.Reason, test.commands) {
				t.Fatalf("commands in the record: %+v, %v; want %q", r.Commands, err, test.commands)
			}
			if got := r.Absent[procstats.SkbSent.String()]; !strings.Contains(got, test.packets) {
				t.Errorf("packets are absent because %q, want %q", got, test.packets)
			}
			for _, source := range r.Sources {
				if !source.Available && source.Reason == "" {
					t.Errorf("source %s is not available without a reason", source.Name)
				}
			}
		})
	}
}

// sharedCgroup makes a cgroup of version 2 and returns its name.
func sharedCgroup(t *testing.T) string {
	t.Helper()
	root := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(root); err != nil {
		root = filepath.Dir(root)
	}
	dir, err := os.MkdirTemp(root, "tacho-shared-")
	if err != nil {
		t.Skipf("make a cgroup: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err != nil {
		t.Skipf("no cgroup of version 2 here: %v", errors.Join(err, os.Remove(dir)))
	}
	t.Cleanup(func() { must(t, os.Remove(dir)) })
	return filepath.Base(dir)
}
