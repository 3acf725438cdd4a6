// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

const (
	// watchedGroups are read once a second by an agent that takes at most watchedPercent of a core, also on a machine
	// that does other things, and watchedMiB of its own.
	watchedGroups  = 500
	watchedPercent = 5
	watchedMiB     = 64
)

// TestWatched measures an agent that watches many cgroups, each with a process that sleeps.
func TestWatched(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, place: place(t)}
	f.place.Parallel = true
	parent := rig.NeedParent(t)
	testkit.Must(t, parent.Delegate())
	folders := parent.Folders(parent.Hierarchies()...)
	sleepers := make([]*exec.Cmd, watchedGroups)
	for i := range sleepers {
		sleepers[i] = f.place.Command(t.Context(), "/bin/sleep", "100000")
		testkit.Must(t, sleepers[i].Start())
		for _, folder := range folders {
			dir := filepath.Join(folder, fmt.Sprintf("w%d.service", i))
			testkit.Must(t, os.Mkdir(dir, 0o755))
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(sleepers[i].Process.Pid)), 0))
		}
	}
	t.Cleanup(func() {
		for i, sleeper := range sleepers {
			_ = sleeper.Process.Kill()
			_ = sleeper.Wait() // killed, as intended
			for _, folder := range folders {
				dir := filepath.Join(folder, fmt.Sprintf("w%d.service", i))
				rig.Eventually(t, deadline, "the group is removed", func() bool { return os.Remove(dir) == nil })
			}
		}
	})
	f.watch = strings.Trim(parent.Path, "/") + "/*"
	f.begin()
	t.Cleanup(f.end)
	rig.Poll(t, 100*time.Millisecond, time.Minute, "all are watched", func() bool { return len(f.running()) == watchedGroups })
	time.Sleep(12 * time.Second) // what starting took is given back
	percent, _ := f.percent(streamingTime(t), true)
	own, all := privateKiB(t, f.agent.Process.Pid), pssKiB(t, f.agent.Process.Pid)
	t.Logf("%d groups watched: %.2f %% of a core, %.1f MiB private, %.1f MiB with the binary", watchedGroups, percent, mib(own), mib(all))
	if percent > watchedPercent || mib(own) > watchedMiB {
		t.Errorf("want at most %v %% and %v MiB", watchedPercent, watchedMiB)
	}
	if n := len(children(t, f.agent.Process.Pid)); n > 0 {
		t.Errorf("%d processes of the agent", n)
	}
}
