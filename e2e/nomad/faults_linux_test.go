// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// kills is how often a process is killed in one test.
var kills = flag.Int("kills", 5, "how often a process is killed in one test")

// TestPluginKilled kills the plugin again and again while a task counts to its log.
func TestPluginKilled(t *testing.T) {
	a := start(t, true)
	al, before := a.counting()
	total := al.cpuTotal()
	for range *kills {
		a.replacePlugin()
		a.await("counters that go on", time.Minute, func() bool { return al.cpuTotal() > 0 })
		if now := al.cpuTotal(); now < total {
			t.Errorf("CPU seconds went down from %f to %f", total, now)
		} else {
			total = now
		}
	}
	al.checkUndisturbed(before["pid"])
}

// TestLogsByHost has the host's own collector write the logs, through FIFOs, and nothing enforced.
func TestLogsByHost(t *testing.T) {
	a := startWith(t, true, "log_collection = \"host\"\n    enforce = false")
	hello := a.submit("hello")
	hello.awaitStatus("complete")
	testkit.Equal(t, hello.logs("stdout"), "hello from hello\n", "stdout")
	al, before := a.counting()
	for key, value := range before {
		if strings.HasPrefix(key, "limit.") && value == "64 MiB" {
			t.Errorf("a limit although none is to be enforced: %v", before)
		}
	}
	a.replacePlugin()
	al.checkUndisturbed(before["pid"])
}

// TestAgentKilled kills the agent again and again, and once the plugin with it.
func TestAgentKilled(t *testing.T) {
	a := start(t, false)
	al, before := a.counting()
	for i := range *kills {
		plugin := a.pluginProcess()
		a.kill()
		if i == *kills-1 {
			testkit.Must(t, syscall.Kill(plugin, syscall.SIGKILL))
		}
		count := al.count()
		a.run()
		a.await("counting", time.Minute, func() bool { return al.count() > count })
	}
	al.checkUndisturbed(before["pid"])
}

// TestExecutorKilled kills the executor of a task: the task goes with it, and its end says so.
func TestExecutorKilled(t *testing.T) {
	a := start(t, true)
	al, attributes := a.counting()
	executor := testkit.Value(strconv.Atoi(attributes["executor.pid"]))(t)
	testkit.Must(t, syscall.Kill(executor, syscall.SIGKILL))
	began := time.Now()
	a.await("end of the task", time.Minute, func() bool { return !runs(attributes["pid"]) })
	if took := time.Since(began); took > time.Second {
		t.Errorf("the task outlived its executor for %s", took)
	}
	al.awaitEvent("Terminated", "executor_lost")
}

// TestBinaryReplaced puts another binary in the place of the running one, as an upgrade does: tasks go on, and a
// plugin that is started from it serves them.
func TestBinaryReplaced(t *testing.T) {
	a := start(t, true)
	al, before := a.counting()
	path := filepath.Join(a.dir, "plugins", "tacho")
	a.copyFile(path, path+".new")
	testkit.Must(t, os.Rename(path+".new", path))
	a.replacePlugin()
	a.await("stats by the other plugin", time.Minute, func() bool { _, ok := al.stats(); return ok })
	al.checkUndisturbed(before["pid"])
}

// counting submits a job whose task counts to its log, and returns what the plugin says of it.
func (a *agent) counting() (*allocation, map[string]string) {
	a.t.Helper()
	al := a.submit("counts")
	al.awaitLog("10\n")
	al.awaitEvent("Driver", "started pid ") // which the server learns later than the client has the log
	return al, al.attributes()
}

// replacePlugin kills the plugin and waits for the next one.
func (a *agent) replacePlugin() {
	a.t.Helper()
	plugin := a.pluginProcess()
	testkit.Must(a.t, syscall.Kill(plugin, syscall.SIGKILL))
	a.await("another plugin", time.Minute, func() bool { return a.pluginProcess() != plugin && a.pluginProcess() != 0 })
}

// pluginProcess is the agent's plugin, 0 while there is none; no signal must be sent to that.
func (a *agent) pluginProcess() int {
	stats := testkit.Value(filepath.Glob("/proc/[0-9]*/exe"))(a.t)
	for _, exe := range stats {
		target, err := os.Readlink(exe)
		if err != nil || strings.TrimSuffix(target, " (deleted)") != filepath.Join(a.dir, "plugins", "tacho") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(exe)))
		// An executor has an argument, a plugin none.
		if err == nil && strings.Count(readFile("/proc/"+strconv.Itoa(pid)+"/cmdline"), "\x00") == 1 {
			return pid
		}
	}
	return 0
}

// cpuTotal is the task's CPU time by our plugin's own endpoint, 0 while nobody answers there.
func (al *allocation) cpuTotal() float64 { return al.metric("tacho_task_cpu_seconds_total") }

// metric is a metric of the task by our plugin's own endpoint, 0 while nobody answers there.
func (al *allocation) metric(metric string) float64 {
	page, err := al.agent.read("http://" + al.agent.metrics + "/metrics")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(page)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "} "); strings.HasPrefix(name, metric+"{alloc_id=\""+al.id) {
			number := testkit.Value(strconv.ParseFloat(value, 64))(al.agent.t)
			return number
		}
	}
	return 0
}

// count is how far the task has counted, by the file that it keeps.
func (al *allocation) count() int {
	n, err := strconv.Atoi(strings.TrimSpace(readFile(filepath.Join(al.dir(), al.task, "local", "count"))))
	if err != nil {
		return 0
	}
	return n
}

// checkUndisturbed looks whether the same process still counts, was never restarted, and has every number in its log.
func (al *allocation) checkUndisturbed(pid string) {
	t := al.agent.t
	t.Helper()
	count := al.count()
	al.agent.await("counting", time.Minute, func() bool { return al.count() > count+10 })
	if !runs(pid) {
		t.Errorf("process %s of the task is gone", pid)
	}
	if state := al.state().TaskStates[al.task]; state.Restarts != 0 || state.State != "running" {
		t.Errorf("the task is %s after %d restarts", state.State, state.Restarts)
	}
	count = al.count()
	// A line is on its way for a moment.
	var lines []string
	al.agent.await("all lines in the log", time.Minute, func() bool {
		lines = al.logLines()
		return len(lines) >= count
	})
	for i, line := range lines {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d of the log is %q", i+1, line)
		}
	}
}

// logLines are all whole lines of the task's log files.
func (al *allocation) logLines() []string {
	t := al.agent.t
	t.Helper()
	var text strings.Builder
	for n := 0; ; n++ {
		content, err := os.ReadFile(filepath.Join(al.dir(), "alloc", "logs", al.task+".stdout."+strconv.Itoa(n)))
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		testkit.Must(t, err)
		text.Write(content)
	}
	whole := text.String()
	return strings.Fields(whole[:strings.LastIndexByte(whole, '\n')+1])
}

// runs reports whether a process lives; a zombie does not.
func runs(pid string) bool {
	_, rest, found := strings.Cut(readFile("/proc/"+pid+"/stat"), ") ")
	return found && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
