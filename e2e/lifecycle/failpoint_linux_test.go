// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// witness says when it starts and ends, and when it runs beside another of its name.
const witness = `exec 9>$0.lock; flock -n 9 || echo doubled >>$0.doubled
echo $$ >>$0.starts; echo ready; trap 'exit 9' TERM; i=0
while [ $i -lt $1 ]; do sleep 0.05; i=$((i+1)); done
echo $$ >>$0.ends; exit 7`

// TestFailpoints lets tacho run, attach, stop, prune or an executor die, hang or get an error at each step. Whatever
// happens, a command runs once, to its end unless a process of ours was killed, and nothing is left. A selection is
// tried; with TACHO_CHAOS=all it is all.
func TestFailpoints(t *testing.T) {
	rig.Require(t)
	needShell(t)
	binary := rig.BuildWithFailpoints(t)
	all := rig.Failpoints(t, func(name string) bool {
		return slices.ContainsFunc([]string{"run.", "client.", "executor."}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	rig.TryEach(t, all, 8, func(t *testing.T, f rig.Failpoint) { tryRuns(t, binary, f) })
}

// lives is how often runs are taken through their lives until a step is reached: an executor whose leash was closed
// is sometimes gone before it can be asked to end.
const lives = 3

// chaos is a place where a step fails.
type chaos struct {
	*rig.Place
	rig.Failpoint
	t       *testing.T
	chaotic rig.Chaotic
	parent  *rig.Parent
	flags   []string
}

// tryRuns takes runs through their lives.
func tryRuns(t *testing.T, binary rig.Chaotic, f rig.Failpoint) {
	mode := rig.Mode{User: rig.Unprivileged(), Placement: rig.Below}
	place := rig.NewPlace(t, mode.User)
	c := &chaos{Place: place, Failpoint: f, t: t, chaotic: binary.CopyTo(t, place.Path("tacho"))}
	c.flags, c.parent = mode.Place(t)
	ctx, cancel := context.WithCancel(t.Context())
	var resuming sync.WaitGroup
	resuming.Go(func() { c.resume(ctx) })
	defer func() { cancel(); resuming.Wait() }()
	for life := 0; life < lives && c.chaotic.Reached(f) == 0; life++ {
		c.forget()
		for _, scenario := range []func(){c.attached, c.detached, c.refused, c.lost, c.orphaned, c.pruned} {
			if err := c.chaotic.Arm(f); c.chaotic.Reached(f) == 0 && err != nil {
				t.Fatal(err)
			}
			scenario()
		}
	}
	if c.chaotic.Reached(f) == 0 {
		t.Error("the step was never reached")
	}
	testkit.Must(t, c.chaotic.Disarm())
	c.checkNothingLeft()
}

// stoppedFor is how long a process is stopped.
func stoppedFor() time.Duration {
	if rig.Exhaustive() {
		return 10 * time.Second
	}
	return time.Second
}

// resume lets stopped processes go on after a while.
func (c *chaos) resume(ctx context.Context) {
	for ctx.Err() == nil {
		for _, p := range c.Strays() {
			if !rig.Stopped(p.PID) {
				continue
			}
			select {
			case <-time.After(stoppedFor()):
			case <-ctx.Done():
			}
			_ = syscall.Kill(p.PID, syscall.SIGCONT) // it may be gone
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// run is tacho run of the witness for a while.
func (c *chaos) run(name, rounds string) *session { return start(c.t, c.command(name, rounds)) }

func (c *chaos) command(name, rounds string, flags ...string) *exec.Cmd {
	args := slices.Concat([]string{"run", "--output-dir", c.Out, "--kill-grace", "2s", "--quiet"}, c.flags, flags,
		[]string{"--", "/bin/sh", "-c", witness, c.Path(name), rounds})
	return c.Command(c.t.Context(), c.chaotic.Binary, args...)
}

// tacho runs another command to its end.
func (c *chaos) tacho(args ...string) rig.Output {
	out := rig.Capture(c.t, c.Command(c.t.Context(), c.chaotic.Binary, append(args, "--output-dir", c.Out)...))
	c.t.Logf("tacho %s: %d %s", strings.Join(args, " "), out.Code, out.Stderr)
	return out
}

// forget removes what witnesses have written.
func (c *chaos) forget() {
	for _, kind := range []string{"starts", "ends"} {
		files, err := filepath.Glob(c.Path("*." + kind))
		for _, file := range files {
			err = errors.Join(err, os.Remove(file))
		}
		testkit.Must(c.t, err)
	}
}

// count is how many lines the witness has written.
func (c *chaos) count(name string) int {
	text, err := os.ReadFile(c.Path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// attached runs a command to its end.
func (c *chaos) attached() {
	c.t.Helper()
	code, stderr := c.run("attached", "6").wait(c.t, 4*deadline)
	c.t.Logf("run: %d %s", code, stderr)
	starts, ends := c.count("attached.starts"), c.count("attached.ends")
	switch {
	case code == 7 && starts == 1 && ends == 1:
	case c.Action == "kill":
	case code == 125 && starts == 0 && c.Action != "stop": // an error before the start
		if stderr == "" {
			c.t.Error("nothing was said about an error")
		}
	default:
		c.t.Errorf("exit code %d after %d starts and %d ends: %s", code, starts, ends, stderr)
	}
}

// detached starts a run, attaches to it and stops it.
func (c *chaos) detached() {
	c.t.Helper()
	out := rig.Capture(c.t, c.command("detached", "100000", "--detach"))
	code, name, stderr := out.Code, strings.TrimSpace(out.Stdout), out.Stderr
	c.t.Logf("run --detach: %d %q %s", code, name, stderr)
	if code != 0 {
		if c.Action == "stop" {
			c.t.Errorf("exit code %d: %s", code, stderr)
		}
		c.tacho("stop", "last") // it may have been killed before it printed the name
		return
	}
	attached := start(c.t, c.Command(c.t.Context(), c.chaotic.Binary, "attach", name, "--output-dir", c.Out))
	if c.Action == "kill" { // the executor may be the victim
		_, _ = c.tacho("stop", name), c.tacho("stop", name)
		attached.wait(c.t, 4*deadline)
		return
	}
	rig.Eventually(c.t, 2*deadline, "the command runs", func() bool { return c.count("detached.starts") > 0 })
	if out := c.tacho("stop", name); out.Code != 0 {
		c.t.Errorf("stop: %d %s", out.Code, out.Stderr)
	}
	if left := c.processesOf("detached"); len(left) > 0 {
		c.t.Errorf("after the stop: %v", left)
	}
	if code, stderr := attached.wait(c.t, 4*deadline); code != 9 && code != 143 {
		c.t.Errorf("attach: %d %s", code, stderr)
	}
	testkit.Equal(c.t, c.count("detached.starts"), 1, "starts")
}

// refused starts what is no program: its executor has no task, and is asked to end.
func (c *chaos) refused() {
	c.t.Helper()
	testkit.Must(c.t, os.WriteFile(c.Path("refused"), nil, 0o755))
	code, stderr := start(c.t, c.Command(c.t.Context(), c.chaotic.Binary,
		slices.Concat([]string{"run", "--output-dir", c.Out, "--quiet"}, c.flags, []string{"--", c.Path("refused")})...)).wait(c.t, 4*deadline)
	c.t.Logf("run of no program: %d %s", code, stderr)
	if (code != 126 && code != 125 || stderr == "") && c.Action != "kill" {
		c.t.Errorf("exit code %d of no program: %s", code, stderr)
	}
}

// processesOf lists the processes of a witness.
func (c *chaos) processesOf(name string) (left []string) {
	for _, p := range c.Strays() {
		if strings.Contains(p.Command, "/bin/sh -c") && strings.Contains(p.Command, c.Path(name)+" ") {
			left = append(left, p.String())
		}
	}
	return left
}

// lost kills the executor of a run.
func (c *chaos) lost() {
	c.t.Helper()
	s := c.run("lost", "100000")
	if !c.killExecutor(s, false) {
		return
	}
	code, stderr := s.wait(c.t, 4*deadline)
	c.t.Logf("run, whose executor was killed: %d %s", code, stderr)
	if code != 125 && c.Action != "kill" {
		c.t.Errorf("exit code %d after the executor was killed: %s", code, stderr)
	}
}

// orphaned kills the executor of a run, and tacho run.
func (c *chaos) orphaned() {
	c.t.Helper()
	s := c.run("orphaned", "100000")
	if !c.killExecutor(s, true) {
		return
	}
	s.wait(c.t, 4*deadline)
	c.tacho("ls")
	c.tacho("ls")
}

// killExecutor kills the executor of a witness that runs, with its tacho run perhaps; false if the run ends before.
func (c *chaos) killExecutor(s *session, both bool) bool {
	c.t.Helper()
	var executor int
	for executor == 0 {
		select {
		case _, open := <-s.lines:
			if !open {
				s.wait(c.t, 4*deadline)
				return false
			}
		case <-s.ended:
			return false
		case <-time.After(4 * deadline):
			c.t.Fatal("the command does not start")
		}
		for _, p := range c.Strays() {
			if strings.Contains(p.Command, "executor") && strings.HasSuffix(p.Command, "-"+strconv.Itoa(s.cmd.Process.Pid)) {
				executor = p.PID
			}
		}
	}
	if both {
		_ = s.cmd.Process.Kill() // it may have ended
	}
	_ = syscall.Kill(executor, syscall.SIGKILL)
	return true
}

// pruned deletes the records, which have each start: they are written before it.
func (c *chaos) pruned() {
	c.t.Helper()
	runs, err := record.ListBriefly(c.Out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	for _, name := range []string{"attached", "detached", "lost", "orphaned"} {
		i := slices.IndexFunc(runs, func(run record.Entry) bool {
			return run.Err == nil && slices.Contains(run.Record.Command, c.Path(name))
		})
		starts := c.count(name + ".starts")
		switch {
		case i < 0 && starts > 0:
			c.t.Errorf("%s was started %d times and has no record", name, starts)
		case i >= 0 && starts != 1 && c.Action != "kill": // which ends a command at once
			c.t.Errorf("%s was started %d times and has a record: %s, process %d", name, starts, runs[i].Record.State, runs[i].Record.PID)
		}
	}
	c.tacho("prune", "--keep", "0")
}

// checkNothingLeft looks for what must not be there 5 s after the last command.
func (c *chaos) checkNothingLeft() {
	c.t.Helper()
	limit := 5 * time.Second
	if c.Action == "stop" {
		limit += stoppedFor()
	}
	out := c.tacho("prune", "--keep", "0")
	if out.Code != 0 {
		c.t.Errorf("prune: %d %s", out.Code, out.Stderr)
	}
	rig.Eventually(c.t, limit, "nothing runs", func() bool { return len(c.Strays()) == 0 })
	rig.Eventually(c.t, limit, "no cgroup is left", func() bool { return len(c.parent.Below()) == 0 })
	for _, left := range c.Leftovers() {
		c.t.Errorf("left behind: %s", left)
	}
	for _, name := range []string{"attached", "detached", "lost", "orphaned"} {
		if n := c.count(name + ".starts"); n > 1 {
			c.t.Errorf("%s was started %d times", name, n)
		}
		if n := c.count(name + ".doubled"); n > 0 {
			c.t.Errorf("%s ran beside itself", name)
		}
	}
	runs, err := record.ListBriefly(c.Out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	for _, run := range runs {
		files, _ := filepath.Glob(filepath.Join(run.Dir, "*"))
		c.t.Errorf("left behind: run %s, %v, %v", run.Name, files, run.Err)
	}
}
