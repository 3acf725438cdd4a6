// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestMain runs more tests at a time than there are CPUs: they mostly wait.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestStopped stops processes with SIGSTOP for longer than anybody waits for an answer: nothing is lost, and no task is
// killed. The agent stays within its heartbeat's grace.
func TestStopped(t *testing.T) {
	t.Parallel()
	a := start(t, true)
	al, before := a.counting()
	executor := testkit.Value(strconv.Atoi(before["executor.pid"]))(t)
	plugin, agent := a.pluginProcess(), a.process.Process.Pid
	for _, pids := range [][]int{{executor}, {plugin}, {agent}, {agent, plugin, executor}} {
		for _, pid := range pids {
			rig.Stop(t, pid)
		}
		<-time.After(8 * time.Second)
		for _, pid := range pids {
			testkit.Must(t, syscall.Kill(pid, syscall.SIGCONT))
		}
		al.checkUndisturbed(before["pid"])
	}
	testkit.Equal(t, a.pluginProcess(), plugin, "the plugin")
}

// TestPluginHangs kills an agent whose plugin hangs: the next starts a plugin of its own, which takes the task over.
func TestPluginHangs(t *testing.T) {
	t.Parallel()
	a := start(t, false)
	al, before := a.counting()
	plugin := a.pluginProcess()
	rig.Stop(t, plugin)
	t.Cleanup(func() { _ = syscall.Kill(plugin, syscall.SIGKILL) }) // it has ended if all is well
	a.kill()
	a.run()
	a.await("end of the plugin that hangs", time.Minute, func() bool { return !runs(strconv.Itoa(plugin)) })
	al.checkUndisturbed(before["pid"])
}

// TestBinaryBroken breaks the plugin's executable and kills the plugin. Nomad gives the allocation up; the task runs until
// there is a plugin again and the allocation is removed.
func TestBinaryBroken(t *testing.T) {
	t.Parallel()
	a := start(t, false)
	const once = "restart {\n attempts = 0\n mode = \"fail\"\n}\nreschedule {\n attempts = 0\n unlimited = false\n}\n"
	al := a.submitText("broken", once, "exec sleep 100000")
	al.awaitEvent("Driver", "started pid ")
	pid := al.attributes()["pid"]
	path, plugin := filepath.Join(a.dir, "plugins", "tacho"), a.pluginProcess()
	good := testkit.Value(os.ReadFile(path))(t)
	replace := func(content []byte) {
		testkit.Must(t, os.WriteFile(path+".new", content, 0o755))
		testkit.Must(t, os.Rename(path+".new", path))
	}
	replace([]byte("no program\n"))
	testkit.Must(t, syscall.Kill(plugin, syscall.SIGKILL))
	al.awaitEvent("Not Restarting", "")
	testkit.Equal(t, runs(pid), true, "the task runs after its plugin was killed")
	replace(good)
	a.await("another plugin", 2*time.Minute, func() bool { return a.pluginProcess() != 0 })
	if _, err := a.cli("job", "stop", "-detach", "-purge", "broken"); err != nil {
		t.Fatal(err)
	}
	a.await("end of the task", 3*time.Minute, func() bool {
		_, _ = a.cli("system", "gc") // until the allocation is removed
		return !runs(pid)
	})
}

// TestTwoClients has two agents on one machine whose plugins share a runtime directory, although each needs its own. One
// and its plugin are killed, and the other connects again meanwhile: it leaves the task of the first alone.
func TestTwoClients(t *testing.T) {
	t.Parallel()
	_, tacho := requireNomad(t)
	first := start(t, false)
	second := startIn(t, tacho, false, "", first.runtime, "")
	al, before := first.counting()
	other, otherBefore := second.counting()
	plugin := first.pluginProcess()
	first.kill()
	testkit.Must(t, syscall.Kill(plugin, syscall.SIGKILL))
	second.replacePlugin()
	<-time.After(70 * time.Second) // a minute after it has connected, a plugin ends what no host knows of
	count := al.count()
	second.await("counting", time.Minute, func() bool { return al.count() > count })
	first.run()
	al.checkUndisturbed(before["pid"])
	other.checkUndisturbed(otherBefore["pid"])
	if _, err := first.cli("job", "stop", "-detach", "-purge", "counts"); err != nil {
		t.Fatal(err)
	}
	first.await("end of its task", time.Minute, func() bool { return !runs(before["pid"]) })
	other.checkUndisturbed(otherBefore["pid"])
}

// TestDrain drains the node: each task is stopped in its turn, with its grace, and nothing is left.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]string{"deadline": {"-deadline", "2m"}, "force": {"-force"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, false)
			log := filepath.Join(a.dir, "order")
			al := a.submitText("drained", fmt.Sprintf(hooks, log, log),
				fmt.Sprintf("trap 'sleep 2; echo main >> %s; exit 0' INT; echo began >> %s; while :; do sleep 0.1; done", log, log))
			al.awaitStatus("running")
			a.await("start", time.Minute, func() bool { return readFile(log) == "began\n" })
			var nodes []struct{ ID string }
			testkit.Must(t, a.get("/v1/nodes", &nodes))
			args := append([]string{"node", "drain", "-enable", "-yes"}, options...)
			if text, err := a.cli(append(args, nodes[0].ID)...); err != nil {
				t.Fatal(text, err)
			}
			al.awaitStatus("complete")
			testkit.Equal(t, readFile(log), "began\nmain\nsidecar\npoststop\n", "order of the ends")
			a.await("end of all executors", time.Minute, func() bool { return len(a.executors()) == 0 })
		})
	}
}

// hooks are tasks around a main task, each with a log of its end.
const hooks = `
task "sidecar" {
  driver       = "tacho"
  kill_timeout = "20s"
  lifecycle {
    hook    = "prestart"
    sidecar = true
  }
  config {
    command = "/bin/sh"
    args    = ["-c", "trap 'echo sidecar >> %s; exit 0' INT; while :; do sleep 0.1; done"]
  }
  resources {
    memory = 16
  }
}
task "poststop" {
  driver = "tacho"
  lifecycle {
    hook = "poststop"
  }
  config {
    command = "/bin/sh"
    args    = ["-c", "echo poststop >> %s"]
  }
  resources {
    memory = 16
  }
}
`

// submitText registers a job with one main task, a shell, and with more in its group, and waits for its allocation.
func (a *agent) submitText(name, more, script string) *allocation {
	a.t.Helper()
	text := fmt.Sprintf(`
job %q {
  group "main" {
    %s
    task "main" {
      driver       = "tacho"
      kill_timeout = "20s"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      resources {
        memory = 16
      }
    }
  }
}
`, name, more, script)
	if _, err := a.cliInput(text, "job", "run", "-detach", "-"); err != nil {
		a.t.Fatal(err)
	}
	al := &allocation{agent: a, task: "main"}
	a.await("allocation of "+name, time.Minute, func() bool {
		var list []allocState
		if a.get("/v1/job/"+name+"/allocations", &list) != nil || len(list) == 0 {
			return false
		}
		al.id = list[0].ID
		return true
	})
	return al
}
