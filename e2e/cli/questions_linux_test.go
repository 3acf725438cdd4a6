// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// questions are what people ask, the screens that answer, and the lines that do. A screen is what a terminal of 80 columns
// and 40 lines shows of a command that is given its run.
var questions = []struct{ question, screen, line string }{
	{"did it run out of memory?", "run eats", `^tacho: Killed: out of memory \(limit 32 MiB, peak 32 MiB\)$`},
	{"did it run out of memory?", "show eats", `^  Killed: out of memory \(limit 32 MiB, peak 32 MiB\)$`},
	{"did it run out of memory?", "top", `^eats\.g\[0\]/main +(\S+ +)?↻\d+ oom-killed \d+ s ago `},
	{"did it run out of memory?", "job status", `^eats +(service +)?\S+ +↻\d+ oom-killed \d+ s ago `},
	{"which process?", "run eats", `^tacho: OOM kill: Main process sh\[\d+\] was killed: out of memory`},
	{"which process?", "show eats", `^  1 OOM kill at the task's own limit: sh\[\d+\], [\d.]+ MiB resident`},
	{"what limit should it have?", "run eats", `^  remedy  +Raise the task's memory limit \(try \d+ MiB\)`},
	{"what limit should it have?", "show eats", `^  Raise the task's memory limit \(try \d+ MiB\)`},
	{"what limit should it have?", "show waits", `^Memory: .* ask for \d+ MiB`},
	{"who used the CPU?", "run spins", `^  by +sh`},
	{"who used the CPU?", "show spins", `^  sh +1 +0 +\S+ m?s +9\d`},
	{"is it slower than before?", "show waits", `^  compared +with the 3 runs before: slower \([\d.]+ m?s, they [\d.]+ ms ± [\d.]+ m?s\)`},
	{"what did it wait for?", "run spins", `^  waited +for CPU [\d.]+ %, memory .* of the time`},
	{"what did it wait for?", "show spins", `^  waited +for CPU [\d.]+ %, memory .* of the time`},
	{"what did it wait for?", "top", `^spins\.g\[0\]/main .* [\d.]+ % (cpu|throttled)`},
	{"what did it wait for?", "run thrashes", `^  waited +for CPU [\d.]+ %, memory [1-9][\d.]* %`},
	{"what did it wait for?", "show thrashes", `^  waited +for CPU [\d.]+ %, memory [1-9][\d.]* %`},
	{"what did it wait for?", "run syncs", `^  waited +for CPU .*, I/O [1-9][\d.]* % of the time`},
	{"what did it wait for?", "show syncs", `^  waited +for CPU .*, I/O [1-9][\d.]* % of the time`},
	{"did it write to disk, and how much?", "run writes", `^  i/o .*written (at least )?16 MiB`},
	{"did it write to disk, and how much?", "show writes", `^  i/o .*written (at least )?16 MiB`},
	{"was it throttled?", "run spins", `throttled by its CPU\s+quota for [\d.]+ m?s`},
	{"was it throttled?", "show spins", `throttled by its CPU\s+quota for [\d.]+ m?s`},
	{"was it throttled?", "top", `^spins\.g\[0\]/main .* % throttled`},
	{"why did it end, and when?", "run spins", `^tacho: Completed with exit code 0$`},
	{"why did it end, and when?", "show eats", `^  ended +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`},
	{"which of my tasks is the problem now?", "top", `↻\d+ oom-killed`},
	{"which of my tasks is the problem now?", "job status", `↻\d+ oom-killed`},
	{"what changed between two runs?", "diff waits", `^wall_seconds +[\d.]+ ms +[\d.]+ m?s +\+[\d.]+ m?s`},
	{"is the figure exact?", "run eats", `^  memory +peak 32 MiB \(exact`},
	{"is the figure exact?", "show eats", `^  memory +peak 32 MiB \(exact`},
}

// TestQuestions asks twelve questions of real runs and tasks: one that is killed for its memory, one that reads
// again and again what its limit takes from it, one that its quota holds back, one that writes, one that waits for its
// disk, and one that takes longer than before. Each is answered on the first screen.
func TestQuestions(t *testing.T) {
	parent := rig.NeedMemory(t)
	testkit.Must(t, parent.LimitCPU(10))
	a, done := startAgent(t, fmt.Sprintf("plugin \"tacho\" {\n  config {\n    cgroup_parent = %q\n  }\n}\n", parent.Path))
	t.Cleanup(done)
	screens := map[string]string{}
	var mu sync.Mutex
	see := func(name string, args ...string) {
		text := screenOf(t, a, args)
		mu.Lock()
		defer mu.Unlock()
		screens[name] = text
		if lines := strings.Count(text, "\n"); lines >= 40 {
			t.Errorf("%s: %d lines are more than a screen", name, lines)
		}
	}
	disk := testkit.Value(os.MkdirTemp(".", "disk"))(t) // a file there is on no tmpfs
	t.Cleanup(func() { _ = os.RemoveAll(disk) })
	script := map[string]string{
		"eats":   "x=$(head -c 200000000 /dev/zero | tr '\\0' x)",
		"spins":  "sleep 0; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done",
		"writes": "dd if=/dev/zero of=" + filepath.Join(a.temp, "written") + " bs=1M count=16 conv=fsync 2>/dev/null",
		"thrashes": `cd "$1"; dd if=/dev/zero of=read bs=1M count=24 conv=fsync 2>/dev/null
for i in 1 2 3 4 5; do cat read read read >/dev/null; done`,
		"syncs": `dd if=/dev/zero of="$1/synced" bs=16k count=300 oflag=dsync 2>/dev/null`,
		"waits": "sleep $(cat " + filepath.Join(a.temp, "pause") + ")",
	}
	flags := map[string][]string{"eats": {"--memory", "32M"}, "spins": {"--cpu", "0.05"}, "thrashes": {"--memory", "8M"}}
	for _, name := range []string{"eats", "spins"} { // both below a quota
		file := filepath.Join(a.temp, name+".nomad.hcl")
		job := `job "` + name + `" {
  group "g" {
    restart {
      delay    = "1s"
      attempts = 100
    }
    task "main" {
      driver = "tacho"
      config {
        command = "sh"
        args    = ["-c", "while :; do ` + strings.ReplaceAll(script[name], `\`, `\\`) + `; done"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`
		testkit.Must(t, os.WriteFile(file, []byte(job), 0o600))
		if text, err := a.run("job", "run", "--detach", file).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	runs := filepath.Join(a.temp, "runs")
	testkit.Must(t, os.WriteFile(filepath.Join(a.temp, "pause"), []byte("0.1"), 0o600))
	var running sync.WaitGroup
	for name, text := range script {
		out := filepath.Join(runs, name)
		one := append(append([]string{"run", "--live", "never", "--output-dir", out}, flags[name]...), "--", "sh", "-c", text, "sh", disk)
		running.Go(func() {
			if see("run "+name, one...); name == "waits" {
				for _, pause := range []string{"0.11", "0.1", "0.7"} {
					testkit.NoError(t, os.WriteFile(filepath.Join(a.temp, "pause"), []byte(pause), 0o600))
					see("run waits", one...)
				}
			}
			see("show "+name, "show", "--output-dir", out)
			if name == "waits" {
				see("diff "+name, "diff", "--output-dir", out)
			}
		})
	}
	running.Wait()
	rig.Eventually(t, patience, "the task is killed again", func() bool {
		see("job status", "job", "status")
		return strings.Contains(screens["job status"], "↻")
	})
	rig.Eventually(t, patience, "the quota is what the task waits for", func() bool { // not others, which use the CPUs too
		see("top", "top", "--iterations", "1", "--delay", "1s")
		return strings.Contains(screens["top"], "% throttled")
	})
	for _, q := range questions {
		if !regexp.MustCompile("(?m)" + q.line).MatchString(screens[q.screen]) {
			t.Errorf("%s tacho %s does not say (%s):\n%s", q.question, q.screen, q.line, screens[q.screen])
		}
	}
}

// screenOf is what a terminal of 80 columns and 40 lines shows of a command.
func screenOf(t *testing.T, a *devAgent, args []string) string {
	t.Helper()
	terminal := testkit.Value(pty.StartWithSize(a.run(args...), &pty.Winsize{Rows: 40, Cols: 80}))(t)
	defer terminal.Close()
	text, _ := io.ReadAll(terminal) // EIO is its end
	return strings.ReplaceAll(string(text), "\r", "")
}
