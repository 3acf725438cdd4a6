// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

func TestExec(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("exec sleep 1000")
	f.start(config)
	result, err := f.ExecTask(t.Context(), config.ID, []string{"sh", "-c", "echo $GREETING; echo oops >&2; exit 3"}, 20*time.Second)
	must(t, err)
	if lines := slices.Sorted(strings.Lines(string(result.Output))); !slices.Equal(lines, []string{"hello\n", "oops\n"}) || result.Exit.Code != 3 {
		t.Errorf("output %q, exit %+v", result.Output, result.Exit)
	}
	_, err = f.ExecTask(t.Context(), config.ID, []string{"sleep", "1000"}, 100*time.Millisecond)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that takes too long: %v, want %v", err, context.DeadlineExceeded)
	}
	for command, want := range map[string]error{"no-such-command": driver.ErrCommandNotFound, "/etc": driver.ErrNotExecutable} {
		if _, err := f.ExecTask(t.Context(), config.ID, []string{command}, 5*time.Second); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", command, err, want)
		}
	}
	// A check that prints without end must not eat the driver's memory.
	result, err = f.ExecTask(t.Context(), config.ID, []string{"head", "-c", "3000000", "/dev/zero"}, 20*time.Second)
	must(t, err)
	if len(result.Output) != 1<<20 {
		t.Errorf("%d bytes of 3 MB are kept, want 1 MiB", len(result.Output))
	}
}

func TestLogsByExecutor(t *testing.T) {
	f := newFixture(t, func(c *driver.Config) {
		c.LogCollection = driver.LogsByExecutor
		c.MaxFiles, c.MaxFileBytes = 2, 1<<20
	})
	config := f.shell("i=0; while [ $i -lt 150000 ]; do i=$((i+1)); echo line $i of many; done; echo done >&2")
	f.start(config)
	if exit := f.wait(config.ID); !exit.Successful() {
		t.Fatalf("exit %+v", exit)
	}
	logs := filepath.Join(config.AllocDir, "alloc", "logs")
	files, err := filepath.Glob(filepath.Join(logs, config.Name+".stdout.*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("log files %v, %v; want two", files, err)
	}
	last, err := os.ReadFile(files[1])
	if err != nil || !strings.HasSuffix(string(last), "line 150000 of many\n") || len(last) > 1<<20 {
		t.Errorf("the last of %v has %d bytes and ends with %q, %v", files, len(last), last[max(0, len(last)-30):], err)
	}
	if text, err := os.ReadFile(filepath.Join(logs, config.Name+".stderr.0")); err != nil || string(text) != "done\n" {
		t.Errorf("stderr %q, %v", text, err)
	}
	if !f.CollectsLogs() {
		t.Error("the host does not learn that it need not collect logs")
	}
}

func TestLimits(t *testing.T) {
	f := newFixture(t, func(c *driver.Config) { c.Enforce = true })
	resources := &driver.Resources{Linux: &driver.LinuxResources{MemoryLimitBytes: 40 << 20, CPUShares: 200}}
	config := f.shell("exec sleep 1000")
	config.Resources = resources
	if _, err := f.StartTask(t.Context(), config); err != nil {
		t.Skipf("limits cannot be applied here: %v", err)
	}
	status := testkit.Value(f.InspectTask(t.Context(), config.ID))(t)
	if got := status.Attributes["limit.cgroup_memory_max_bytes"]; got != "40 MiB" {
		t.Errorf("memory limit as read back %q in %v", got, status.Attributes)
	}
	must(t, f.DestroyTask(t.Context(), config.ID, true))
}

func TestLimitsNotEnforced(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("exec sleep 1000")
	config.Resources = &driver.Resources{Linux: &driver.LinuxResources{MemoryLimitBytes: 40 << 20, CPUShares: 200}}
	f.start(config)
	status := testkit.Value(f.InspectTask(t.Context(), config.ID))(t)
	for key, value := range status.Attributes {
		if strings.HasPrefix(key, "limit.") && value == "40 MiB" {
			t.Errorf("a limit although none is to be enforced: %v", status.Attributes)
		}
	}
}

// TestGivenCgroup starts a task in the cgroup that the host made for it, as on pure v2.
func TestGivenCgroup(t *testing.T) {
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	if len(mounts) != 1 || mounts[0].Version != 2 {
		t.Skip("cgroup v2 is not the only layout here; hosts make groups for tasks only then")
	}
	name := "given-" + filepath.Base(t.TempDir())
	group := filepath.Join(mounts[0].Point, name)
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("cannot make a cgroup: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Errorf("the host's cgroup is not the driver's to remove, and has to be empty: %v", err)
		}
	})
	f := newFixture(t, func(c *driver.Config) { c.Enforce = true })
	config := f.shell("exec sleep 1000")
	config.Resources = &driver.Resources{Linux: &driver.LinuxResources{
		MemoryLimitBytes: 40 << 20, CPUShares: 200, CpusetCgroup: group,
	}}
	f.start(config)
	status := testkit.Value(f.InspectTask(t.Context(), config.ID))(t)
	if got := cgroupOf(t, status.Attributes["pid"]); got != "/"+name {
		t.Errorf("the task is in %s, want /%s", got, name)
	}
	if got := cgroupOf(t, status.Attributes["executor.pid"]); got == "/"+name {
		t.Error("the executor is charged to the task")
	}
	limit, err := os.ReadFile(filepath.Join(group, "memory.max"))
	if err != nil || string(limit) != "41943040\n" {
		t.Errorf("memory.max is %q, %v", limit, err)
	}
	must(t, f.DestroyTask(t.Context(), config.ID, true))
}

func cgroupOf(t *testing.T, pid string) string {
	t.Helper()
	text := testkit.Value(os.ReadFile("/proc/" + pid + "/cgroup"))(t)
	return strings.TrimPrefix(strings.TrimSpace(string(text)), "0::")
}

func TestNetworkNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace needs root")
	}
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("there is no ip(8) here to make a network namespace with")
	}
	name := fmt.Sprintf("tacho-driver-test-%d", os.Getpid()) // another run's may be there
	if text, err := exec.Command(ip, "netns", "add", name).CombinedOutput(); err != nil {
		t.Skipf("cannot make a network namespace: %v: %s", err, text)
	}
	t.Cleanup(func() {
		if text, err := exec.Command(ip, "netns", "del", name).CombinedOutput(); err != nil {
			t.Errorf("remove the network namespace: %v: %s", err, text)
		}
	})
	f := newFixture(t, nil)
	config := f.shell("readlink /proc/self/ns/net; exec sleep 1000")
	config.Network = &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: "/var/run/netns/" + name}
	f.start(config)
	f.awaitOutput(config, "net:")
	own := testkit.Value(os.Readlink("/proc/self/ns/net"))(t)
	theirs := f.output(config)
	if theirs == own+"\n" {
		t.Errorf("the task is in the host's namespace %s", own)
	}
	result, err := f.ExecTask(t.Context(), config.ID, []string{"readlink", "/proc/self/ns/net"}, 10*time.Second)
	must(t, err)
	if string(result.Output) != theirs {
		t.Errorf("a command in the task is in %s, the task in %s", result.Output, theirs)
	}
}

func TestFingerprint(t *testing.T) {
	f := newFixture(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := f.Fingerprint(ctx)
	must(t, err)
	print := testkit.Value(stream.Recv())(t)
	if print.Health != driver.Healthy || print.Attributes["driver.tacho.version"] != "0.0.0-test" {
		t.Errorf("health %d (%s), attributes %v", print.Health, print.Description, print.Attributes)
	}
	if _, ok := print.Attributes["driver.tacho.cgroup"]; !ok {
		t.Errorf("nothing is said of cgroups: %v", print.Attributes)
	}
	// A driver that the operator disabled is no driver of the node, and starts nothing.
	must(t, f.SetConfig(ctx, msgpack(t, map[string]any{"enabled": false}), 0))
	print, err = stream.Recv()
	must(t, err)
	if print.Health != driver.Undetected || print.Description != "disabled" || print.Attributes != nil {
		t.Errorf("disabled: health %d (%s), attributes %v", print.Health, print.Description, print.Attributes)
	}
	if _, err := f.StartTask(ctx, &driver.TaskConfig{ID: "a"}); !errors.Is(err, driver.ErrDisabled) {
		t.Errorf("start of a task: %v", err)
	}
	// A configuration under which no task can run is reported without waiting.
	blocked := filepath.Join(f.dir, "file")
	must(t, os.WriteFile(blocked, nil, 0o600))
	must(t, f.SetConfig(ctx, msgpack(t, map[string]any{"runtime_dir": filepath.Join(blocked, "run")}), 0))
	print, err = stream.Recv()
	must(t, err)
	if print.Health != driver.Unhealthy || !strings.Contains(print.Description, "sockets") {
		t.Errorf("health %d (%s), want unhealthy", print.Health, print.Description)
	}
	config := map[string]any{"runtime_dir": f.options.Config.RuntimeDir, "cgroup_parent": "/no-such-group"}
	must(t, f.SetConfig(ctx, msgpack(t, config), 0))
	print, err = stream.Recv()
	must(t, err)
	if print.Health != driver.Unhealthy || !strings.Contains(print.Description, "/no-such-group: no such group in any hierarchy") {
		t.Errorf("health %d (%s), want unhealthy", print.Health, print.Description)
	}
}

func TestEndpoint(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("")
	// Not by way of a shell: it would be seen until it has become the command.
	config.DriverConfig = msgpack(t, map[string]any{"command": "sleep", "args": []string{"1000"}})
	f.start(config)
	socket := filepath.Join(f.dir, "metrics.sock")
	client := f.serveOnSocket()
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket %v, %v; want it for its owner alone", info, err)
	}
	get := func(path string, status int) string {
		t.Helper()
		response, err := client.Get("http://tacho" + path)
		must(t, err)
		text, err := io.ReadAll(response.Body)
		must(t, errors.Join(err, response.Body.Close()))
		if response.StatusCode != status {
			t.Fatalf("%s: %s: %s", path, response.Status, text)
		}
		return string(text)
	}
	if page := get("/metrics", 200); !strings.Contains(page, `tacho_task_cpu_seconds_total{alloc_id="alloc"`) {
		t.Errorf("no CPU seconds in\n%s", page)
	}
	var tasks []struct {
		ID      string
		Running bool
	}
	if err := json.Unmarshal([]byte(get("/v1/tasks", 200)), &tasks); err != nil || len(tasks) != 1 || tasks[0].ID != config.ID || !tasks[0].Running {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
	var sample struct {
		Measurements map[string]any
		Processes    struct{ Rows []struct{ Command string } }
	}
	must(t, json.Unmarshal([]byte(get("/v1/task/"+config.ID+"/stats", 200)), &sample))
	if len(sample.Measurements) == 0 || len(sample.Processes.Rows) != 1 || sample.Processes.Rows[0].Command != "sleep" {
		t.Errorf("sample %+v", sample)
	}
	get("/v1/task/unknown/stats", 404)
	get("/v1/task/"+config.ID, 404)
	must(t, f.StopTask(t.Context(), config.ID, 0, ""))
	get("/v1/task/"+config.ID+"/stats", 409)
	if page := get("/metrics", 200); strings.Contains(page, "tacho_task_cpu") {
		t.Errorf("gauges of an ended task:\n%s", page)
	}

	// Over TCP no other host name is accepted, which is what a web page could do.
	must(t, f.SetConfig(t.Context(), msgpack(t, map[string]any{"metrics": map[string]any{"address": "127.0.0.1:0"}}), 0))
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}
