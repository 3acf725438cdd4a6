// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package watch

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestLayouts makes groups as those that start containers, jobs and units make them, and watches each by the name that
// its users know.
func TestLayouts(t *testing.T) {
	rig.Require(t)
	job := 1_000_000 + os.Getpid() // no job of this machine
	step := "slurmstepd.scope/job_" + strconv.Itoa(job) + "/step_0/user/task_0"
	tests := map[string]struct {
		group, watched string // where the work is, and the group that is asked for
		args           []string
	}{
		"slurm job":      {step, "slurmstepd.scope/job_" + strconv.Itoa(job), []string{"--slurm", strconv.Itoa(job)}},
		"slurm step":     {step, filepath.Dir(filepath.Dir(step)), []string{"--slurm", strconv.Itoa(job) + ".0"}},
		"unit":           {"e2e-db.service/workers", "e2e-db.service", []string{"--unit", "e2e-db"}},
		"docker":         {dockerGroup, dockerGroup, []string{"--container", containerID[:12]}},
		"docker of v1":   {"docker/" + containerID, "docker/" + containerID, []string{"--container", containerID}},
		"podman":         {"libpod-" + containerID + ".scope/container", "libpod-" + containerID + ".scope", []string{"--container", containerID[:8]}},
		"kubernetes":     {"pod1.slice/cri-containerd-" + containerID + ".scope", "pod1.slice/cri-containerd-" + containerID + ".scope", []string{"--container", containerID}},
		"lxc":            {"lxc.payload.e2e-mail/ns", "lxc.payload.e2e-mail", []string{"--container", "e2e-mail"}},
		"nomad":          {"share.slice/" + execGroup, "share.slice/" + execGroup, []string{"--alloc", nomadAlloc[:8] + "/web"}},
		"nomad, of bare": {execGroup, execGroup, []string{"--alloc", nomadAlloc}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parent, p := rig.NeedParent(t), rig.NewPlace(t, rig.Self())
			var dirs []string
			for at := range test.group + "/" {
				if at == len(test.group) || test.group[at] == '/' {
					dirs = group(t, parent, test.group[:at])
				}
			}
			w := start(t, p, dirs, busy())
			t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
			watched := watchWork(t, p, parent, w, test.args...)
			if !strings.HasSuffix(watched, "/"+test.watched) {
				t.Errorf("watched %s, want %s", watched, test.watched)
			}
		})
	}
}

// watchWork watches a work, which is all that a parent has, from before it begins to after its end, holds its CPU time
// against the kernel's, and returns the group that was watched.
func watchWork(t *testing.T, p *rig.Place, parent *rig.Parent, w *work, args ...string) string {
	t.Helper()
	before := testkit.Value(parent.CPU())(t)
	wait := watch(t, p, args...)
	watching(t, p)
	begun := testkit.Value(parent.CPU())(t)
	w.goOn(t)
	testkit.Must(t, w.Wait())
	end := testkit.Value(parent.CPU())(t)
	r, _ := wait()
	last := testkit.Value(parent.CPU())(t)
	// What starts containers removes their groups at once, perhaps before the last reading.
	removed := strings.Contains(strings.Join(r.Notes, "\n"), "removed before it could be read")
	checkCPU(t, r, end-begun, last-before, removed)
	if r.Earlier == nil || seconds(r.Earlier.CPUSeconds) > begun {
		t.Errorf("used before %+v, want at most %v", r.Earlier, begun)
	}
	return procstats.Cgroup{V2: r.Cgroup.V2, V1: r.Cgroup.V1}.Procs()
}

// TestRemoved stops a watch while its group ends and is removed, as one that comes late sees it: what it read last is at
// most the whole.
func TestRemoved(t *testing.T) {
	rig.Require(t)
	parent, p := rig.NeedParent(t), rig.NewPlace(t, rig.Self())
	dirs := group(t, parent, "short")
	w := start(t, p, dirs, busy())
	t.Cleanup(func() { _ = w.Process.Kill(); _ = w.Wait() })
	cmd := p.Command(t.Context(), rig.Tacho(), "watch", "--output-dir", p.Out, "--interval", "100ms", "--cgroup", dirs[0])
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	watching(t, p)
	w.goOn(t)
	time.Sleep(200 * time.Millisecond) // it is read meanwhile
	testkit.Must(t, cmd.Process.Signal(unix.SIGSTOP))
	testkit.Must(t, w.Wait())
	remove(t, dirs)
	testkit.Must(t, cmd.Process.Signal(unix.SIGCONT))
	testkit.Must(t, cmd.Wait())
	r := p.TheRun(t).Record
	for _, id := range []procstats.ID{procstats.HeadlineCPU, procstats.HeadlineCoresAverage} {
		if h := r.Headline[id.String()]; h.Value == nil || h.Guarantee != procstats.LowerBound || !strings.Contains(h.Reason, "removed") {
			t.Errorf("%s: %+v, want a lower bound and why", id, h)
		}
	}
	testkit.Equal(t, r.Guarantees[procstats.CgroupCPUUsage.String()], procstats.LowerBound, "of the measurement")
}

// TestContainer watches what crun has started, by the identifier that it was given.
func TestContainer(t *testing.T) {
	rig.Require(t)
	crun, err := exec.LookPath("crun")
	if err != nil {
		t.Skip("crun is not installed here")
	}
	parent, p := rig.NeedParent(t), rig.NewPlace(t, rig.Self())
	if v1 := slices.DeleteFunc(parent.Hierarchies(), func(c string) bool { return c == "" }); len(v1) > 0 {
		t.Skip("crun refuses controllers of version 1 beside those of version 2")
	}
	testkit.Must(t, parent.Delegate())
	bundle := p.Path("bundle")
	writeBundle(t, bundle, filepath.Join(parent.Path, containerID))
	w := &work{Cmd: p.Command(t.Context(), crun, "--root", p.Path("state"), "--cgroup-manager", "cgroupfs", "run", "--no-pivot",
		"--bundle", bundle, containerID)}
	w.begin = testkit.Value(w.StdinPipe())(t)
	var said bytes.Buffer
	w.Stdout, w.Stderr = &said, &said
	testkit.Must(t, w.Start())
	t.Cleanup(func() {
		_ = w.Process.Kill()
		_ = w.Wait()
		t.Logf("crun: %s", said.String())
	})
	dir := filepath.Join(parent.Folders("")[0], containerID)
	rig.Eventually(t, 30*time.Second, "the container runs", func() bool {
		procs, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // it is not there yet
		pid := strings.TrimSpace(string(procs))
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		return pid != "" && string(name) == "sh\n"
	})
	watched := watchWork(t, p, parent, w, "--container", containerID[:12])
	testkit.Equal(t, watched, dir, "what is watched")
}

// writeBundle makes the bundle of a container with the programs of this machine, which waits for a line and then works.
func writeBundle(t *testing.T, bundle, group string) {
	t.Helper()
	type object = map[string]any
	mounts := []object{{"destination": "/proc", "type": "proc", "source": "proc"}}
	for _, dir := range []string{"/bin", "/lib", "/lib64", "/usr"} {
		if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, object{"destination": dir, "type": "bind", "source": dir, "options": []string{"rbind", "ro"}})
		}
	}
	testkit.Must(t, os.MkdirAll(filepath.Join(bundle, "rootfs/dev"), 0o755))
	config := testkit.Value(json.Marshal(object{
		"ociVersion": "1.0.0",
		"process":    object{"user": object{"uid": 0, "gid": 0}, "cwd": "/", "args": []string{"/bin/sh", "-c", "read x; " + busy()}},
		"root":       object{"path": "rootfs"},
		"mounts":     mounts,
		"linux":      object{"cgroupsPath": group, "namespaces": []object{{"type": "pid"}, {"type": "mount"}}},
	}))(t)
	testkit.Must(t, os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600))
}
