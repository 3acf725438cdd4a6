// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/agent/config"
	"github.com/tachograph/tacho/agent/folder"
)

// A damaged state leaves no process behind, and what tasks wrote for as long as that of others is kept.
func TestDamagedState(t *testing.T) {
	c := testConfig(shortDir(t))
	if err := c.Merge("f.hcl", []byte("plugin \"tacho\" {\n config {\n log_collection = \"host\"\n }\n}")); err != nil {
		t.Fatal(err)
	}
	first := begin(t, c)
	l := first.submit(inGroup(1, shell("t", "", "echo ready; exec sleep 1000")))[0]
	first.await(l.ID, "running", isRunning)
	dir := folder.In(first.allocDir(), l.ID)
	first.eventually("the task's word", func() bool {
		text, err := os.ReadFile(filepath.Join(dir.Logs(), "t.stdout.0"))
		return err == nil && string(text) == "ready\n"
	})
	first.end(false)
	// One that is in the midst of execve(2) has no command line for a moment.
	first.eventually("the task, its executor and its log collector", func() bool { return len(processesOf(t, c)) >= 3 })
	if err := os.WriteFile(filepath.Join(c.DataDir, "state.db"), []byte(strings.Repeat("damage ", 3000)), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(c.DataDir, "alloc", "not-ours")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}

	second := begin(t, c)
	defer second.end(false)
	second.eventually("the end of all processes", func() bool { return len(processesOf(t, c)) == 0 })
	if err := second.collectDue(time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir.Logs()); err != nil {
		t.Errorf("the folder is not kept: %v", err)
	}
	if removed, err := second.CollectGarbage(); removed != 1 || err != nil {
		t.Errorf("%d folders were removed, %v", removed, err)
	}
	if _, err := os.Stat(string(dir)); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
}

// processesOf are the processes, but this one, that have the data folder in their command line or environment.
func processesOf(t *testing.T, c config.Config) (pids []string) {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range folders {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // nothing of what has ended
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if len(line) > 0 && strings.Contains(string(line)+string(environ), c.DataDir+"/") {
			pids = append(pids, filepath.Base(dir))
		}
	}
	return pids
}
