// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/allocdir"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
)

// withPlugin is a configuration with this test binary as the driver plugin "other", configured with more.
func withPlugin(t *testing.T, dir, more string) config.Config {
	t.Helper()
	c := testConfig(filepath.Join(dir, "data"))
	c.PluginDir = filepath.Join(dir, "plugins")
	if err := os.MkdirAll(c.PluginDir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(c.PluginDir, "other")); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("plugin \"other\" {\n config {\n runtime_dir = %q\n enforce = false\n %s\n }\n}\n", filepath.Join(dir, "run"), more)
	if err := c.Merge("test.hcl", []byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

func otherTask(command string) string {
	return strings.Replace(oneTask("service", "", command), "driver = \"tacho\"", "driver = \"other\"", 1)
}

func TestPluginRunsTasksAndIsStartedAgain(t *testing.T) {
	c := withPlugin(t, shortDir(t), "")
	r := begin(t, c)
	if d := r.Snapshot().Node.Drivers["other"]; d.Version != "1.2.3" || d.Plugin == "" {
		t.Errorf("driver %+v", d)
	}
	l := r.submit(otherTask("echo hello; sleep 1000"))[0]
	l = r.await(l.ID, "running", isRunning)
	pid := l.Tasks["t"].Attributes["pid"]
	read := func() bool {
		u := r.usage(l.ID)
		return u.Sample != nil && u.Reason == ""
	}
	r.eventually("reading", read)

	address, err := r.store.Plugin("other")
	if err != nil || address == nil {
		t.Fatal(address, err)
	}
	if err := syscall.Kill(address.Process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.eventually("another plugin process", func() bool {
		now, err := r.store.Plugin("other")
		return err == nil && now.Process != address.Process
	})
	samples := r.Cost().Samples
	r.eventually("fresh reading", func() bool { return r.Cost().Samples > samples && read() })
	r.end(false)

	r = begin(t, c)
	l = r.await(l.ID, "running", isRunning)
	if got := l.Tasks["t"].Attributes["pid"]; got != pid || l.Tasks["t"].State.Restarts != 0 {
		t.Errorf("process %s, was %s; state %+v", got, pid, l.Tasks["t"].State)
	}
	if err := r.StopAlloc(l.ID); err != nil {
		t.Fatal(err)
	}
	r.await(l.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Complete })
	if final, err := r.Record(l.ID, "t"); err != nil || final.Diagnosis.Summary == "" {
		t.Errorf("record %+v, error %v", final, err)
	}
	r.endWithPlugin()
}

// endWithPlugin ends the agent, and with it the plugin: it has no task.
func (r *running) endWithPlugin() {
	r.t.Helper()
	address, err := r.store.Plugin("other")
	if err != nil {
		r.t.Fatal(err)
	}
	r.end(false)
	// The plugin may be a child of this very process, from an agent before, and stay a zombie until go-plugin reaps it.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", address.Process.PID))
	if !errors.Is(err, fs.ErrNotExist) && !strings.Contains(string(stat), ") Z ") {
		r.t.Errorf("the plugin is left: %s (%v)", stat, err)
	}
}

// TestLogsAreRotatedForOtherDrivers is about a driver that leaves log files to its host, over a restart of that.
func TestLogsAreRotatedForOtherDrivers(t *testing.T) {
	c := withPlugin(t, shortDir(t), "log_collection = \"host\"")
	r := begin(t, c)
	text := strings.Replace(otherTask("yes 0123456789abcde | head -c 1500000; while ! [ -e local/go ]; do sleep 0.05; done; "+
		"yes 0123456789abcde | head -c 1500000; echo end; echo bad >&2"), "\n resources {", "\n logs {\n max_files = 2\n max_file_size = 1\n }\n resources {", 1)
	l := r.submit(strings.Replace(text, "\"service\"", "\"batch\"", 1))[0]
	l = r.await(l.ID, "running", isRunning)
	r.end(false)

	r = begin(t, c)
	dir := allocdir.In(r.allocDir(), l.ID)
	if err := os.WriteFile(filepath.Join(dir.Task("t"), "local", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l = r.await(l.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
	if l.ClientStatus != allocation.Complete || l.Tasks["t"].State.Restarts != 0 {
		t.Errorf("allocation %+v, task %+v", l, l.Tasks["t"].State)
	}
	sizes := map[string]int{}
	for _, stream := range []string{"stdout", "stderr"} {
		paths, err := dir.LogFiles("t", stream)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sizes[filepath.Base(path)] = len(content)
		}
	}
	want := map[string]int{"t.stdout.1": 1 << 20, "t.stdout.2": 3000004 - 2<<20, "t.stderr.0": 4}
	if diff := cmp.Diff(want, sizes); diff != "" {
		t.Error(diff)
	}
	r.endWithPlugin()
}

func TestUnknownDriversAreRefused(t *testing.T) {
	r := begin(t, testConfig(shortDir(t)))
	defer r.end(true)
	tests := map[string]struct{ text, want string }{
		"driver": {strings.Replace(oneTask("batch", "", "true"), `"tacho"`, `"tahco"`, 1), "did you mean tacho?"},
		"config": {
			strings.Replace(oneTask("batch", "", "true"), "command =", "comand =", 1),
			`test.hcl:7,2-8: Unsupported argument; An argument named "comand" is not expected here. Did you mean "command"?`,
		},
		"type":       {strings.Replace(oneTask("batch", "", "true"), `"/bin/sh"`, "[]", 1), "test.hcl:7,12-14"},
		"user":       {oneTask("batch", `user = "no such user"`, "true"), "no such user"},
		"template":   {oneTask("batch", "template {\n data = \"{{ key `x` }}\"\n destination = \"local/x\"\n}", "true"), "test.hcl:13: template local/x"},
		"datacenter": {strings.Replace(oneTask("batch", "", "true"), "type =", "datacenters = [\"dc9\"]\ntype =", 1), "dc9"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := r.RunJob(t.Context(), job.Source{Filename: "test.hcl", Text: tt.text}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
	if jobs := r.Snapshot().Jobs; len(jobs) != 0 {
		t.Errorf("jobs %+v", jobs)
	}
}
