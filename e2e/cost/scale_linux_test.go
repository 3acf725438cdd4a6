// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

const (
	scaleVariable = "TACHO_SCALE_TASKS"
	// scaleLimit bounds each step of many tasks.
	scaleLimit = 10 * time.Minute
)

// kinds are what tasks of a mixed fleet do. Those that tick start no process for it: that is what forking ones do.
func kinds() map[string]string {
	return map[string]string{
		"sleeping": "exec sleep 100000",
		"ticking":  "exec bash -c 'exec 3<> <(:); while :; do read -rt 0.1 -u 3; done'",
		"busy":     "i=0; while :; do i=$((i+1)); done",
		"forking":  "while :; do /bin/true; sleep 1; done",
		"logging":  "while :; do i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; sleep 1; done",
	}
}

// mixedJob is a job of so many tasks, as many of each kind but for two that are busy: more would leave nothing to
// measure.
func mixedJob(tasks int) string {
	const busy = 2
	others := len(kinds()) - 1
	each := (tasks - busy) / others
	var b strings.Builder
	b.WriteString("job \"mixed\" {\n")
	for kind, script := range kinds() {
		count := each
		switch kind {
		case "busy":
			count = busy
		case "sleeping":
			count += (tasks - busy) % others
		}
		fmt.Fprintf(&b, "  group %q {\n    count = %d\n    task \"t\" {\n      driver = \"tacho\"\n      config {\n        command = \"/bin/sh\"\n"+
			"        args = [\"-c\", %q]\n      }\n      resources {\n        memory = 10\n      }\n    }\n  }\n", kind, count, script)
	}
	b.WriteString("}\n")
	return b.String()
}

// TestScale starts many tasks of mixed kinds at once, kills the agent with SIGKILL, lets another recover them, and
// stops them, and prints how long each took and what the agent held. It holds that no task is lost, started again, or
// left, and that no line of a log is.
func TestScale(t *testing.T) {
	text := os.Getenv(scaleVariable)
	if text == "" {
		t.Skipf("%s is not set: the number of tasks, such as 1000", scaleVariable)
	}
	tasks, err := strconv.Atoi(text)
	if err != nil || tasks < 2*len(kinds()) {
		t.Fatalf("%s=%s: want a number of tasks, such as 1000", scaleVariable, text)
	}
	f := newFleet(t, 1, sleepers)
	f.http.Timeout = time.Minute
	f.write("mixed.nomad.hcl", mixedJob(tasks))
	all := tasks + 1
	awaitAll := func() { rig.Eventually(t, scaleLimit, "all tasks run", func() bool { return len(f.running()) == all }) }
	step := func(name string, do func()) {
		began := time.Now()
		do()
		files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", f.agent.Process.Pid))
		peak := procNumbers(t, f.agent.Process.Pid, "status")["VmHWM"]
		t.Logf("%-28s %6.1f s; agent %.1f MiB private, %.1f MiB peak, %d descriptors", name, time.Since(began).Seconds(),
			mib(privateKiB(t, f.agent.Process.Pid)), mib(peak), len(files))
	}
	step(fmt.Sprintf("start of %d at once", tasks), func() {
		f.tacho("job", "run", "--detach", f.path("mixed.nomad.hcl"))
		awaitAll()
	})
	f.executors = children(t, f.agent.Process.Pid)
	step("all run", func() {
		agent, executors := f.percent(streamingTime(t), true)
		t.Logf("publishing: %.2f %% of a core for the agent, %.2f %% for %d executors", agent, executors, len(f.executors))
	})
	f.metrics()
	executors := f.executors
	step("recovery after SIGKILL", func() {
		_ = f.agent.Process.Kill()
		_ = f.agent.Wait() // killed, as intended
		f.agent = f.place.Command(context.Background(), rig.Tacho(), "agent", "--config", f.path("agent.hcl"))
		testkit.Must(t, f.agent.Start())
		rig.Eventually(t, scaleLimit, "the agent answers", func() bool {
			_, _, err := f.get("/v1/agent/health")
			return err == nil
		})
		awaitAll()
	})
	for _, pid := range executors {
		if !runs(pid) {
			t.Errorf("executor %d is lost", pid)
		}
	}
	f.checkMixed(tasks)
	step(fmt.Sprintf("stop of %d", tasks), func() {
		f.tacho("job", "stop", "--detach", "mixed")
		rig.Eventually(t, scaleLimit, "one task is left", func() bool { return len(f.running()) == 1 })
	})
	rig.Eventually(t, scaleLimit, "one executor is left", func() bool {
		return len(slices.DeleteFunc(slices.Clone(executors), func(pid int) bool { return !runs(pid) })) == 1
	})
}

// checkMixed holds that no task of the mixed job was started again, and that the logs have every line once.
func (f *fleet) checkMixed(tasks int) {
	f.t.Helper()
	body, _, err := f.get("/v1/allocations")
	testkit.Must(f.t, err)
	var all []struct {
		ID, JobID, TaskGroup string
		TaskStates           map[string]struct{ Restarts int }
	}
	testkit.Must(f.t, json.Unmarshal(body, &all))
	found, lines := 0, 0
	for _, a := range all {
		if a.JobID != "mixed" {
			continue
		}
		found++
		if state, known := a.TaskStates["t"]; !known || state.Restarts != 0 {
			f.t.Errorf("task of %s in group %s: known %v, %d restarts", a.ID, a.TaskGroup, known, state.Restarts)
		}
		if a.TaskGroup == "logging" {
			lines += f.checkLog(filepath.Join(f.path("d/alloc"), a.ID, "alloc/logs/t.stdout.0"))
		}
	}
	if found != tasks || lines == 0 {
		f.t.Errorf("%d allocations, want %d; %d lines in their logs", found, tasks, lines)
	}
	f.t.Logf("%d tasks, none started again; %d lines in the logs, none missing", found, lines)
}

// checkLog holds that a log of a task that still writes has line 0 to line 99 again and again, and returns how many
// lines it has.
func (f *fleet) checkLog(path string) (n int) {
	f.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		f.t.Error(err)
		return 0
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range strings.Lines(string(text)) {
		if want := fmt.Sprintf("line %d\n", n%100); line != want {
			f.t.Errorf("%s: line %d is %q, want %q", path, n, line, want)
			return n
		}
		n++
	}
	return n
}

// runs reports whether a process is there, and no zombie.
func runs(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(line) > 0
}
