// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// checks has one check for each job of e2e/jobs.
func checks() map[string]func(t *testing.T, al *allocation) {
	return map[string]func(t *testing.T, al *allocation){
		"hello":        checkHello,
		"exit-code":    checkExitCode,
		"environment":  checkEnvironment,
		"busy":         checkBusy,
		"memory":       checkMemory,
		"memory-child": checkMemoryChild,
		"signals":      checkSignals,
		"exec":         checkExec,
		"user":         checkUser,
		"denied-user":  checkDeniedUser,
		"no-network":   checkNoNetwork,
		"logs-rotated": checkLogsRotated,
		"logs-off":     checkLogsOff,
		"limits":       checkLimits,
		"counts":       checkCounts,
		"cores":        checkCores,
		"bad-config":   checkBadConfig,
		"measurements": checkMeasurements,
	}
}

func TestJobs(t *testing.T) {
	requireNomad(t)
	files, err := filepath.Glob(filepath.Join("..", "jobs", "*.nomad.hcl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("jobs %v, %v", files, err)
	}
	a := start(t, true)
	version := testkit.Value(a.cli("version"))(t)
	t.Log(version)
	for _, file := range files {
		job := strings.TrimSuffix(filepath.Base(file), ".nomad.hcl")
		check := checks()[job]
		if check == nil {
			t.Errorf("%s: no test checks what this job does", job)
			continue
		}
		t.Run(job, func(t *testing.T) {
			outer := a.t
			a.t = t
			defer func() { a.t = outer }()
			check(t, a.submit(job))
			if _, err := a.cli("job", "stop", "-detach", job); err != nil {
				t.Error(err)
			}
		})
	}
}

func checkHello(t *testing.T, al *allocation) {
	al.awaitStatus("complete")
	testkit.Equal(t, al.logs("stdout"), "hello from hello\n", "stdout")
	testkit.Equal(t, al.logs("stderr"), "and its errors\n", "stderr")
	al.awaitEvent("Driver", "started pid ")
	al.awaitEvent("Driver", "Completed with exit code 0")
	al.awaitEvent("Terminated", "Exit Code: 0")
}

func checkExitCode(t *testing.T, al *allocation) {
	al.awaitStatus("failed")
	al.awaitEvent("Terminated", "Exit Code: 42")
	al.awaitEvent("Driver", "exit code 42")
	if !al.state().TaskStates[al.task].Failed {
		t.Error("the task has not failed")
	}
}

func checkEnvironment(t *testing.T, al *allocation) {
	al.awaitStatus("complete")
	got := al.logs("stdout")
	for _, want := range []string{"GREETING=hello\n", "rendered for looks\n", "NOMAD_ALLOC_ID=" + al.id + "\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "SECRET=") || !strings.HasSuffix(got, "\n/tmp\n") {
		t.Errorf("a denied variable, or not in /tmp:\n%s", got)
	}
}

func checkBusy(t *testing.T, al *allocation) {
	al.awaitStatus("running")
	// What raw_exec says of such a task is 0.2 %. How busy it really is depends on the machine's other work.
	al.agent.await("stats of a busy task", time.Minute, func() bool {
		s, ok := al.stats()
		return ok && s.ResourceUsage.CPUStats.Percent > 10
	})
	s, _ := al.stats()
	cpu, memory := s.ResourceUsage.CPUStats, s.ResourceUsage.MemoryStats
	if cpu.Percent > 130 || cpu.TotalTicks <= 0 || !slices.Contains(cpu.Measured, "Percent") {
		t.Errorf("CPU %+v", cpu)
	}
	if memory.RSS == 0 || !slices.Contains(memory.Measured, "RSS") || slices.Contains(memory.Measured, "Kernel Max Usage") {
		t.Errorf("memory %+v", memory)
	}
	if len(s.Pids) == 0 {
		t.Error("no process rows")
	}
	if age := time.Since(time.Unix(0, s.Timestamp)); age > 5*time.Second {
		t.Errorf("read %s ago", age)
	}
	page := testkit.Value(al.agent.read(al.agent.address + "/v1/metrics?format=prometheus"))(t)
	if !strings.Contains(string(page), "nomad_client_allocs_cpu_total_percent{alloc_id=\""+al.id) {
		t.Error("no series of the task on the agent's page")
	}
	own := testkit.Value(al.agent.read("http://" + al.agent.metrics + "/metrics"))(t)
	if !strings.Contains(string(own), "tacho_task_cpu_seconds_total{alloc_id=\""+al.id) {
		t.Errorf("no series of the task on our own page:\n%s", own)
	}
	text := testkit.Value(al.agent.cli("alloc", "status", "-stats", al.id))(t)
	if !strings.Contains(text, "CPU Stats") {
		t.Errorf("alloc status -stats:\n%s", text)
	}
	t.Log(text)
}

// checkMeasurements follows a task that fills its directory on our own endpoint: Nomad's stats have no place for that.
func checkMeasurements(t *testing.T, al *allocation) {
	const size, full = "tacho_task_disk_usage_bytes", 15 << 20
	al.agent.await("size of the directory", time.Minute, func() bool { return al.metric(size) > 0 })
	first := al.metric(size)
	al.agent.await("growth of the directory", time.Minute, func() bool { return al.metric(size) > first })
	al.awaitLog("full")
	al.agent.await("the whole directory", time.Minute, func() bool { return al.metric(size) >= full })
	if got := al.metric(size); got > 2*full {
		t.Errorf("%v bytes, the task has written %d", got, full)
	}
	if pss := al.metric("tacho_task_smaps_pss_bytes"); pss < 4096 {
		t.Errorf("%v bytes of proportional memory", pss)
	}
	if s, ok := al.stats(); !ok || s.ResourceUsage.MemoryStats.RSS == 0 {
		t.Errorf("Nomad's own stats: %+v, %v", s, ok)
	}
}

// hasMemoryCgroup skips where the task has no memory cgroup, with the plugin's reason.
func hasMemoryCgroup(t *testing.T, al *allocation) {
	t.Helper()
	al.awaitEvent("Driver", "started pid ")
	if limit := al.attributes()["limit.cgroup_memory_max_bytes"]; limit == "" || limit == "none" {
		t.Skipf("no memory limit here: %s", al.attributes()["notes"])
	}
}

func checkMemory(t *testing.T, al *allocation) {
	hasMemoryCgroup(t, al)
	al.awaitStatus("failed")
	event := al.awaitEvent("Terminated", "Exit Code: 137")
	if event.Details["oom_killed"] != "true" {
		t.Errorf("the host does not know of the OOM kill: %v", event.Details)
	}
	kill := al.awaitEvent("Driver", "was killed: out of memory (limit ")
	if kill.Details["scope"] != "own" || kill.Details["victim_command"] != "dd" {
		t.Errorf("the kill %q, %v", kill.DisplayMessage, kill.Details)
	}
	end := al.awaitEvent("Driver", "of CPU time")
	if end.Details["oom.scope"] != "own" || !strings.Contains(end.DisplayMessage, "limit 32 MiB") {
		t.Errorf("final record %q, %v", end.DisplayMessage, end.Details)
	}
	if kills := end.Details["cgroup_memory_events_oom_kill_total"]; kills == "" || kills != end.Details["oom.kills"] {
		t.Errorf("%q OOM kills counted: %v", kills, end.Details)
	}
}

func checkMemoryChild(t *testing.T, al *allocation) {
	hasMemoryCgroup(t, al)
	al.awaitLog("child ended with 137")
	event := al.awaitEvent("Driver", "was killed: out of memory (limit ")
	if event.Details["scope"] != "own" || event.Details["victim_command"] != "dd" {
		t.Errorf("the kill %q, %v", event.DisplayMessage, event.Details)
	}
	if state := al.state().TaskStates[al.task]; state.State != "running" || state.Restarts != 0 {
		t.Errorf("the parent is %+v after its child's end", state)
	}
}

func checkSignals(t *testing.T, al *allocation) {
	al.awaitLog("ready")
	if _, err := al.agent.cli("alloc", "signal", "-s", "SIGHUP", al.id, al.task); err != nil {
		t.Fatal(err)
	}
	al.awaitLog("noted")
	if _, err := al.agent.cli("job", "stop", "-detach", "signals"); err != nil {
		t.Fatal(err)
	}
	al.awaitStatus("complete")
	al.awaitEvent("Terminated", "Exit Code: 0")
	if got := al.logs("stdout"); !strings.HasSuffix(got, "goodbye\n") {
		t.Errorf("its last words: %q", got)
	}
}

func checkExec(t *testing.T, al *allocation) {
	al.awaitStatus("running")
	run := func(input string, args ...string) (string, error) {
		return al.agent.cliInput(input, append([]string{"alloc", "exec", "-task", al.task}, args...)...)
	}
	got, err := run("", "-i=false", "-t=false", al.id, "sh", "-c", "echo $GREETING; echo oops >&2")
	if err != nil || !strings.Contains(got, "hello\n") || !strings.Contains(got, "oops\n") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := run("", "-i=false", "-t=false", al.id, "sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("exit code 7: %v", err)
	}
	if got, err := run("what goes in\n", "-i=true", "-t=false", al.id, "cat"); err != nil || got != "what goes in\n" {
		t.Errorf("through cat: %q, %v", got, err)
	}
	if _, err := al.agent.cli("alloc", "restart", al.id); err != nil {
		t.Error(err)
	}
	al.agent.await("restart", time.Minute, func() bool {
		state := al.state().TaskStates[al.task]
		return state.Restarts == 1 && state.State == "running"
	})
}

func checkUser(t *testing.T, al *allocation) {
	al.awaitStatus("complete")
	nobody := testkit.Value(user.Lookup("nobody"))(t)
	testkit.Equal(t, al.logs("stdout"), "nobody\n"+nobody.HomeDir+" nobody mine\n", "user, and what says who it is")
}

func checkDeniedUser(t *testing.T, al *allocation) {
	al.awaitStatus("failed")
	al.awaitEvent("Driver Failure", "disallowed by denied_host_uids")
}

func checkNoNetwork(t *testing.T, al *allocation) {
	al.agent.await("end", time.Minute, func() bool {
		for _, event := range al.state().TaskStates[al.task].Events {
			if event.Type == "Setup Failure" {
				t.Skipf("this host cannot make network namespaces: %s", event.DisplayMessage)
			}
		}
		return al.state().ClientStatus == "complete"
	})
	if got := strings.Fields(al.logs("stdout")); len(got) == 0 || slices.ContainsFunc(got, func(name string) bool {
		return strings.HasPrefix(name, "eth") || strings.HasPrefix(name, "en")
	}) {
		t.Errorf("interfaces %q", got)
	}
}

func checkLogsRotated(t *testing.T, al *allocation) {
	al.awaitStatus("complete")
	files, err := filepath.Glob(filepath.Join(al.dir(), "alloc", "logs", "talks.stdout.*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("log files %v, %v; want two", files, err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > 1<<20 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	text, err := al.agent.cli("alloc", "logs", "-task", al.task, "-tail", "-n", "1", al.id)
	if err != nil || !strings.HasSuffix(text, "line 300000\n") {
		t.Errorf("the last line is %q, %v", text, err)
	}
}

func checkLogsOff(t *testing.T, al *allocation) {
	al.awaitStatus("complete")
	if files, err := filepath.Glob(filepath.Join(al.dir(), "alloc", "logs", "talks.*")); err != nil || len(files) > 0 {
		t.Errorf("log files %v, %v; want none", files, err)
	}
}

func checkLimits(t *testing.T, al *allocation) {
	hasMemoryCgroup(t, al)
	attributes := al.attributes()
	if got := attributes["limit.cgroup_memory_max_bytes"]; got != "40 MiB" {
		t.Errorf("memory limit %q, want memory_max", got)
	}
	pid := attributes["pid"]
	testkit.Equal(t, strings.TrimSpace(readFile("/proc/"+pid+"/oom_score_adj")), "300", "oom_score_adj")
	if executor := attributes["executor.pid"]; sharesCgroup(executor, pid) {
		t.Error("the executor is charged to the task")
	}
}

// sharesCgroup reports whether two processes are in the same group of a hierarchy that counts.
func sharesCgroup(a, b string) bool {
	theirs := strings.Split(readFile("/proc/"+b+"/cgroup"), "\n")
	for line := range strings.Lines(readFile("/proc/" + a + "/cgroup")) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "memory") && slices.Contains(theirs, line) {
			return true
		}
	}
	return false
}

func checkCounts(t *testing.T, al *allocation) {
	al.awaitLog("10\n")
	followed := testkit.Value(al.agent.cli("alloc", "logs", "-task", al.task, "-tail", "-n", "3", al.id))(t)
	lines := strings.Fields(followed)
	for i := 1; i < len(lines); i++ {
		before, errBefore := strconv.Atoi(lines[i-1])
		n, err := strconv.Atoi(lines[i])
		if err != nil || errBefore != nil || n != before+1 {
			t.Errorf("lines %q do not count", lines)
		}
	}
}

func checkCores(t *testing.T, al *allocation) {
	al.awaitStatus("complete")
	list := strings.TrimSpace(strings.TrimPrefix(al.logs("stdout"), "Cpus_allowed_list:"))
	if _, err := strconv.Atoi(list); err != nil {
		t.Errorf("it may run on %q, want one CPU", list)
	}
}

func checkBadConfig(t *testing.T, al *allocation) {
	al.awaitStatus("failed")
	al.awaitEvent("Failed Validation", "comand")
}
