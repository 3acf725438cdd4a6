// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/config"
	"github.com/tachograph/tacho/agent/job"
)

// withPlugin is a configuration with this test binary as the driver plugin "other".
func withPlugin(t *testing.T, dir string) config.Config {
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
	text := fmt.Sprintf("plugin \"other\" {\n config {\n runtime_dir = %q\n enforce = false\n }\n}\n", filepath.Join(dir, "run"))
	if err := c.Merge("test.hcl", []byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

func otherTask(command string) string {
	return strings.Replace(oneTask("service", "", command), "driver = \"tacho\"", "driver = \"other\"", 1)
}

func TestPluginRunsTasksAndIsStartedAgain(t *testing.T) {
	c := withPlugin(t, shortDir(t))
	r := begin(t, c)
	if d := r.Node().Drivers["other"]; d.Version != "1.2.3" || d.Plugin == "" {
		t.Errorf("driver %+v", d)
	}
	l := r.submit(otherTask("echo hello; sleep 1000"))[0]
	l = r.await(l.ID, "running", isRunning)
	pid := l.Tasks["t"].Attributes["pid"]
	read := func() bool {
		usage, err := r.Stats(l.ID)
		return err == nil && usage["t"].Sample != nil && usage["t"].Reason == ""
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
	address, err = r.store.Plugin("other")
	r.end(false)
	if err != nil {
		t.Fatal(err)
	}
	// The plugin itself is left for the next agent.
	if err := syscall.Kill(address.Process.PID, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
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
			_, _, err := r.RunJob(t.Context(), job.Source{Filename: "test.hcl", Text: tt.text})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
	if jobs := r.Jobs(); len(jobs) != 0 {
		t.Errorf("jobs %+v", jobs)
	}
}
