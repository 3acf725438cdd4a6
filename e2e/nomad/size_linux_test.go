// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// sized is a job with one task and a known need.
type sized struct {
	name, driver, kind string
	// script is what a shell runs; more stands in the group.
	script, more string
	count        int
	// memory is what the task needs in MiB, and cores what it keeps busy; 0 if no advice is to be had.
	memory, cores float64
	// runs is how many ends are known.
	runs int
	why  string
}

// hold returns a script that has so many MiB for longer than a second.
func hold(mib int) string {
	return fmt.Sprintf("dd if=/dev/zero of=/dev/null bs=%dM count=1 2>/dev/null; sleep 1.2", mib)
}

const (
	spin       = "timeout 1.5 sh -c 'while :; do :; done'; exit 0"
	again      = "restart {\n      attempts = 2\n      delay = \"1s\"\n      mode = \"fail\"\n    }\n    reschedule {\n      attempts = 0\n      unlimited = false\n    }"
	requested  = 300 // MiB
	management = "6b1f7a52-8f5e-4f0c-9d5b-0d7f3a5a7c11"
)

func sizedJobs() []sized {
	tacho, batch := "tacho", "batch"
	return []sized{
		{name: "small", driver: tacho, kind: batch, script: hold(8), memory: 8, runs: 1},
		{name: "middle", driver: tacho, kind: batch, script: hold(40), memory: 40, runs: 1},
		{name: "large", driver: tacho, kind: batch, script: hold(120), memory: 120, runs: 1},
		{name: "thrice", driver: tacho, kind: batch, script: hold(60), count: 3, memory: 60, runs: 3},
		{name: "restarted", driver: tacho, kind: batch, script: hold(30) + "; exit 1", more: again, memory: 30, runs: 2, why: "no longer has the records of 1 of 3 ends"},
		{name: "busy", driver: tacho, kind: batch, script: spin, memory: 1, cores: 1, runs: 1},
		{name: "killed", driver: tacho, kind: batch, script: hold(400), more: strings.Replace(again, "= 2", "= 0", 1), runs: 1, why: "the need is higher"},
		{name: "serving", driver: tacho, kind: "service", script: hold(50) + "; sleep 1000", runs: 1, why: "Let it run for a day, or to its end"},
		{name: "unseen", driver: "raw_exec", kind: "service", script: "sleep 1000", why: "tacho watch --alloc"},
		{name: "gone", driver: "raw_exec", kind: batch, script: "true", why: "tacho watch --alloc"},
		{name: "watched", driver: "raw_exec", kind: "service", script: "while :; do " + hold(35) + "; done", memory: 35, runs: 1},
		{name: "briefly", driver: "exec", kind: "service", script: "sleep 1000", runs: 1, why: "Let it run to its end, or for a day"},
		{name: "isolated", driver: "exec", kind: "service", script: "while :; do " + hold(25) + "; done", memory: 25, runs: 1},
	}
}

func (s sized) file(t *testing.T) string {
	t.Helper()
	text := fmt.Sprintf(`job %q {
  type = %q
  group "g" {
    count = %d
    %s
    task "t" {
      driver = %q
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      resources {
        cpu    = 100
        memory = %d # MiB
      }
    }
  }
}
`, s.name, s.kind, max(1, s.count), s.more, s.driver, s.script, requested)
	path := filepath.Join(t.TempDir(), s.name+".nomad.hcl")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// advice is what tacho advise --nomad --format json prints.
type advice struct {
	Tasks []advised
}

type advised struct {
	Job, Namespace string
	Runs           int
	Memory         resource `json:"memory_mib"`
	CPU            resource `json:"cpu_mhz"`
	CoreMHz        float64  `json:"core_mhz"`
	OOMKills       int      `json:"oom_kills"`
	Why            []string
}

type resource struct {
	Requested float64
	Peak      *float64 `json:"used_peak"`
	Advised   *float64
}

// runTacho runs tacho; an argument before the command is a variable.
type runTacho func(args ...string) (stdout, stderr string, code int)

// sizer runs tacho advise --nomad as a user with a token for reading.
func (a *agent) sizer(token, dir string) runTacho {
	return func(args ...string) (string, string, int) {
		variable := ""
		if args[0] == "" || strings.HasPrefix(args[0], "NOMAD_") {
			variable, args = args[0], args[1:]
		}
		cmd := exec.CommandContext(a.t.Context(), filepath.Join(a.dir, "plugins", "tacho"), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.address, "NOMAD_TOKEN="+token)
		if variable != "" {
			cmd.Env = append(cmd.Env, variable)
		}
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			a.t.Fatal(err)
		}
		return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	}
}

// TestSizes advises on the jobs of a cluster whose needs are known, with a token that may only read jobs.
func TestSizes(t *testing.T) {
	_, tacho := requireNomad(t)
	a := startIn(t, tacho, true, "", "", management)
	jobs := sizedJobs()
	t.Cleanup(func() { // Nomad leaves the mounts of tasks behind that it still stops when it ends
		for _, s := range jobs {
			testkit.Value(a.cli("job", "stop", "-detach", "-purge", s.name))(t)
		}
		a.await("unmounting", time.Minute, func() bool {
			_, err := a.cli("system", "gc")
			return err == nil && !strings.Contains(readFile("/proc/self/mountinfo"), a.dir+"/")
		})
	})
	for _, s := range jobs {
		testkit.Value(a.cli("job", "run", "-detach", s.file(t)))(t)
	}
	rules := filepath.Join(t.TempDir(), "read.hcl")
	testkit.Must(t, os.WriteFile(rules, []byte(`namespace "default" { capabilities = ["read-job"] }`), 0o600))
	testkit.Value(a.cli("acl", "policy", "apply", "read", rules))(t)
	token := strings.TrimSpace(testkit.Value(a.cli("acl", "token", "create", "-type", "client", "-policy", "read", "-t", "{{ .SecretID }}"))(t))
	dir := t.TempDir()
	run := a.sizer(token, dir)
	a.await("ends of all batch jobs", 2*time.Minute, func() bool {
		return !slices.ContainsFunc(jobs, func(s sized) bool { return s.kind == "batch" && a.statusOf(s.name) != "dead" })
	})
	run("watch", "--quiet", "--alloc", a.allocOf("briefly"), "--timeout", "1s")
	own := map[string]*float64{} // MiB that tacho advise says of what was watched: raw_exec has not always a cgroup for it
	for _, name := range []string{"watched", "isolated"} {
		stopping := time.AfterFunc(3*time.Second, func() { _, _ = a.cli("job", "stop", "-detach", name) })
		_, stderr, _ := run("watch", "--quiet", "--alloc", a.allocOf(name), "--timeout", "1m")
		stopping.Stop()
		stdout, text, code := run("advise", "last", "--format", "json")
		var of struct {
			Command struct {
				MemoryMiB *float64 `json:"memory_mib"`
			}
		}
		if code != 0 || json.Unmarshal([]byte(stdout), &of) != nil || of.Command.MemoryMiB == nil && name == "isolated" {
			t.Fatalf("%s: %s%s%s", name, stderr, stdout, text)
		}
		own[name] = of.Command.MemoryMiB
	}
	var got advice
	a.await("statistics of the running task", time.Minute, func() bool {
		stdout, stderr, code := run("advise", "--nomad", "--format", "json")
		if code != 0 || json.Unmarshal([]byte(stdout), &got) != nil {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
		return !strings.Contains(stdout, "no statistics")
	})
	t.Log(run("advise", "--nomad"))
	for _, s := range jobs {
		s.check(t, &got, own)
	}
	testkit.Equal(t, len(got.Tasks), len(jobs), "tasks")
	a.checkPatch(t, run, &got)
	a.checkErrors(t, run)
}

// check holds the advice on a job against its need, and against what tacho advise says of what was watched.
func (s sized) check(t *testing.T, got *advice, own map[string]*float64) {
	t.Helper()
	i := slices.IndexFunc(got.Tasks, func(task advised) bool { return task.Job == s.name })
	if i < 0 {
		t.Errorf("%s is not there", s.name)
		return
	}
	task := got.Tasks[i]
	why := strings.Join(task.Why, "\n")
	memory, cpu := task.Memory.Advised, task.CPU.Advised
	same, watched := own[s.name]
	if watched {
		testkit.Diff(t, s.name, same, memory)
	} else {
		testkit.Equal(t, memory != nil, s.memory > 0, "%s: memory is advised: %s", s.name, why)
	}
	testkit.Equal(t, task.Runs, s.runs, "%s: runs: %s", s.name, why)
	testkit.Equal(t, task.Memory.Requested, requested, "%s: requested", s.name)
	testkit.Equal(t, task.OOMKills > 0, s.name == "killed", "%s: OOM kills", s.name)
	if memory != nil && (*memory < s.memory || *memory > 1.5*s.memory+10) {
		t.Errorf("%s: %v MiB for a need of %v: %s", s.name, *memory, s.memory, why)
	}
	// On a busy machine the task gets less than it could use.
	if s.cores > 0 && (cpu == nil || *cpu < *task.CPU.Peak || *task.CPU.Peak < 20 || *cpu > 1.3*s.cores*task.CoreMHz) {
		t.Errorf("%s: %+v MHz for %v cores of %v: %s", s.name, task.CPU, s.cores, task.CoreMHz, why)
	}
	if !strings.Contains(why, s.why) {
		t.Errorf("%s: %q, not %q", s.name, why, s.why)
	}
}

// checkPatch applies what --diff prints to the file of a job, and runs it again: then nothing is left to change.
func (a *agent) checkPatch(t *testing.T, run runTacho, got *advice) {
	t.Helper()
	s := sizedJobs()[1]
	file := s.file(t)
	diff, stderr, code := run("advise", "--nomad", s.name, "--diff")
	cmd := exec.Command("patch", file)
	cmd.Stdin = strings.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil || code != 0 {
		t.Fatalf("%v: %s\n%s%s", err, out, diff, stderr)
	}
	i := slices.IndexFunc(got.Tasks, func(task advised) bool { return task.Job == s.name })
	want := fmt.Sprintf("memory = %v # MiB", *got.Tasks[i].Memory.Advised)
	if text := readFile(file); !strings.Contains(text, want) || !strings.Contains(diff, "-        memory = 300 # MiB\n") {
		t.Errorf("no %q in\n%s\nof\n%s", want, text, diff)
	}
	testkit.Value(a.cli("job", "run", "-detach", file))(t)
	a.await("end of the smaller job", time.Minute, func() bool { return a.statusOf(s.name) == "dead" })
	if diff, stderr, code := run("advise", "--nomad", s.name, "--diff"); strings.Contains(diff, "memory = 300") || code != 0 { // another run can need a little more
		t.Errorf("exit code %d, after what was advised: %s%s", code, diff, stderr)
	}
}

// checkErrors checks --fail-if, and what is said of mistakes.
func (a *agent) checkErrors(t *testing.T, run runTacho) {
	t.Helper()
	for _, test := range []struct {
		env, want string
		code      int
		args      []string
	}{
		{"", "budget failed: wasted_memory > 20 %: it is ", 123, []string{"small", "--fail-if", "wasted_memory > 20%"}},
		{"", "", 0, []string{"small", "--fail-if", "missing_memory > 0%"}},
		{"", "budget failed: wasted_memory > 20 %: not known", 123, []string{"unseen", "--fail-if", "wasted_memory > 20%"}},
		{"", `job "nosuch" is unknown in namespace "default"`, 1, []string{"nosuch"}},
		{"NOMAD_NAMESPACE=other", `read-job in namespace "other"`, 1, nil},
		{"NOMAD_TOKEN=", "NOMAD_TOKEN is not set", 1, nil},
		{"NOMAD_TOKEN=" + strings.Replace(management, "6", "7", 1), "NOMAD_TOKEN", 1, nil},
		{"NOMAD_ADDR=http://127.0.0.1:1", "http://127.0.0.1:1: ", 1, nil},
		{"NOMAD_ADDR=" + strings.Replace(a.address, "http", "https", 1), "must begin with http://", 1, nil},
	} {
		stdout, stderr, code := run(append([]string{test.env, "advise", "--nomad"}, test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.want) || test.want == "" && stderr != "" {
			t.Errorf("%s %q: exit code %d, %q; want %d, %q\n%s", test.env, test.args, code, stderr, test.code, test.want, stdout)
		}
	}
}

func (a *agent) statusOf(job string) string {
	var of struct{ Status string }
	testkit.NoError(a.t, a.get("/v1/job/"+job, &of))
	return of.Status
}

func (a *agent) allocOf(job string) (id string) {
	a.t.Helper()
	a.await("running allocation of "+job, 2*time.Minute, func() bool {
		var list []allocState
		if a.get("/v1/job/"+job+"/allocations", &list) != nil || len(list) == 0 || list[0].ClientStatus != "running" {
			return false
		}
		id = list[0].ID
		return true
	})
	return id
}
