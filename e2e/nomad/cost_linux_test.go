// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// costVariable is for how long a test measures what tasks cost; without it nothing is measured.
	costVariable = "TACHO_COST_TIME"
	// sleepersVariable is how many tasks sleep; 50 if it is not set.
	sleepersVariable = "TACHO_COST_SLEEPERS"
	// forkingVariable, if it is set, has each of them start a process a second.
	forkingVariable = "TACHO_COST_FORKING"

	shorts = 100
)

// manyJob is a job of many tasks of one driver.
const manyJob = `
job %q {
  type = %q
  group "g" {
    count = %d
    ephemeral_disk {
      size = 10
    }
    task "t" {
      driver = %q
      logs {
        max_files     = 1
        max_file_size = 1
      }
      config {
        command = %q
        args    = [%s]
      }
      resources {
        cpu    = 1
        memory = 10
      }
    }
  }
}
`

// cost is what the processes of a driver hold and take, and how long its short tasks last.
type cost struct {
	driver      string
	processes   int
	percent     float64 // of a core
	memory      int     // private, in KiB
	shortMedian time.Duration
}

// TestCostBesideRawExec prints what sleeping tasks cost with our driver, its plugin included, and with raw_exec, its
// log collectors included, and how long a hundred short ones take from Started to Terminated, in one agent, one after
// the other.
func TestCostBesideRawExec(t *testing.T) {
	over, err := time.ParseDuration(os.Getenv(costVariable))
	if err != nil {
		t.Skipf("%s does not say for how long: make cost does", costVariable)
	}
	sleepers, err := strconv.Atoi(cmp.Or(os.Getenv(sleepersVariable), "50"))
	if err != nil {
		t.Fatalf("%s: %v", sleepersVariable, err)
	}
	a := start(t, true) // in development raw_exec is enabled
	ours, theirs := a.costOf("tacho", sleepers, over), a.costOf("raw_exec", sleepers, over)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "DRIVER\tPROCESSES\tCPU OF %d SLEEPING\tPRIVATE MEMORY\tSTARTED TO TERMINATED, %d × TRUE\n", sleepers, shorts)
	for _, c := range []cost{ours, theirs} {
		fmt.Fprintf(w, "%s\t%d\t%.2f %%\t%.1f MiB\t%s\n", c.driver, c.processes, c.percent, float64(c.memory)/1024, c.shortMedian.Round(time.Millisecond))
	}
	fmt.Fprintf(w, "raw_exec : tacho\t\t%.1f\t%.1f\t%.2f\n", theirs.percent/ours.percent, float64(theirs.memory)/float64(ours.memory),
		theirs.shortMedian.Seconds()/ours.shortMedian.Seconds())
	_ = w.Flush() // to memory
	t.Logf("over %s:\n%s", over, table.String())
}

// costOf runs the tasks of a driver.
func (a *agent) costOf(driver string, sleepers int, over time.Duration) (c cost) {
	a.t.Helper()
	c.driver = driver
	command, args := "/bin/sleep", `"100000"`
	if os.Getenv(forkingVariable) != "" {
		command, args = "/bin/sh", `"-c", "while :; do sleep 1; done"`
	}
	a.runMany("sleepers", "service", sleepers, driver, command, args)
	a.await("start of all tasks", 2*time.Minute, func() bool { return a.runningOf("sleepers") == sleepers })
	<-time.After(10 * time.Second) // what a start takes is not what a task does
	pids := a.helpers(driver == "tacho")
	if c.processes = len(pids); c.processes < sleepers {
		a.t.Fatalf("%s has %d processes", driver, c.processes)
	}
	before, began := a.cpuOf(pids), time.Now()
	<-time.After(over)
	c.percent = 100 * (a.cpuOf(pids) - before).Seconds() / time.Since(began).Seconds()
	for _, pid := range pids {
		c.memory += a.privateOf(pid)
	}
	a.stopMany("sleepers", driver)

	a.runMany("shorts", "batch", shorts, driver, "/bin/true", "")
	var took []time.Duration
	a.await("end of all tasks", 3*time.Minute, func() bool {
		took = a.startedToTerminated("shorts")
		return len(took) == shorts
	})
	a.stopMany("shorts", driver)
	slices.Sort(took)
	c.shortMedian = took[len(took)/2]
	return c
}

func (a *agent) runMany(name, kind string, count int, driver, command, args string) {
	a.t.Helper()
	if _, err := a.cliInput(fmt.Sprintf(manyJob, name, kind, count, driver, command, args), "job", "run", "-detach", "-"); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) stopMany(name, driver string) {
	a.t.Helper()
	if _, err := a.cli("job", "stop", "-detach", "-purge", name); err != nil {
		a.t.Fatal(err)
	}
	// With their allocations go mounts, which would outlive the agent. Nomad does not try again to remove one that
	// was busy.
	var left []os.DirEntry
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		_, _ = a.cli("system", "gc") // those that have not ended are left for the next time
		var err error
		if left, err = os.ReadDir(filepath.Join(a.dir, "data", "alloc")); err == nil && len(left) == 0 {
			return
		}
	}
	report := a.t.Logf
	if driver == "tacho" {
		report = a.t.Errorf
	}
	report("%d directories of %s of %s are left", len(left), name, driver)
}

// helpers lists the processes beside the agent that run its executable, or the plugin's if that is asked for.
func (a *agent) helpers(plugin bool) (pids []int) {
	a.t.Helper()
	nomad := testkit.Value(os.Readlink(fmt.Sprintf("/proc/%d/exe", a.process.Process.Pid)))(a.t)
	files := testkit.Value(filepath.Glob("/proc/[0-9]*/exe"))(a.t)
	for _, file := range files {
		exe, err := os.Readlink(file)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == a.process.Process.Pid {
			continue
		}
		if exe == nomad || plugin && exe == filepath.Join(a.dir, "plugins", "tacho") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cpuOf is the CPU time of processes so far.
func (a *agent) cpuOf(pids []int) (sum time.Duration) {
	a.t.Helper()
	for _, pid := range pids {
		used := testkit.Value(kernel.ProcessCPU(pid))(a.t)
		sum += used
	}
	return sum
}

// privateOf is Private_Dirty of a process, in KiB: what it alone holds, without the pages of a binary that nobody
// else runs.
func (a *agent) privateOf(pid int) int {
	a.t.Helper()
	text := testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)))(a.t)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "Private_Dirty:"); found {
			n := testkit.Value(strconv.Atoi(strings.Fields(rest)[0]))(a.t)
			return n
		}
	}
	a.t.Fatalf("process %d: no Private_Dirty", pid)
	return 0
}

// startedToTerminated lists how long the ended tasks of a job took by Nomad's own events.
func (a *agent) startedToTerminated(job string) (took []time.Duration) {
	var list []struct {
		TaskStates map[string]struct {
			Events []struct {
				Type string
				Time int64
			}
		}
	}
	if a.get("/v1/job/"+job+"/allocations?task_states=true", &list) != nil {
		return nil
	}
	for _, l := range list {
		var started, terminated int64
		for _, e := range l.TaskStates["t"].Events {
			switch e.Type {
			case "Started":
				started = e.Time
			case "Terminated":
				terminated = e.Time
			}
		}
		if started != 0 && terminated != 0 {
			took = append(took, time.Duration(terminated-started))
		}
	}
	return took
}
