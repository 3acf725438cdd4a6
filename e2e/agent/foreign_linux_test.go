// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const (
	// foreignVariable names the executable of another project's driver plugin, whose tasks have a command and args and
	// see the host's /bin/sh.
	foreignVariable = "TACHO_FOREIGN_PLUGIN"
	// foreignConfigVariable has the inside of its config block.
	foreignConfigVariable = "TACHO_FOREIGN_CONFIG"
	// foreignTaskVariable has more lines of the task's block, such as its user.
	foreignTaskVariable = "TACHO_FOREIGN_TASK"
)

const foreignJob = `
job "foreign" {
  group "g" {
    task "t" {
      driver = %q
      %s
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          cd $NOMAD_ALLOC_DIR/data
          echo $$ >> starts; echo here; echo there >&2
          setsid sh -c 'while :; do sleep 1; done' &
          i=0; while :; do i=$((i+1)); echo $i >> beats; echo line $i; sleep 0.1; done
        EOT
        ]
      }
      logs {
        max_files     = 2
        max_file_size = 1
      }
      resources {
        memory = 64
      }
    }
  }
}
`

// foreign is a host with another project's plugin.
type foreign struct {
	*host
	name string
	// settings are the lines of the agent's configuration for the plugin.
	settings string
}

func newForeign(t *testing.T) *foreign {
	t.Helper()
	path := os.Getenv(foreignVariable)
	if path == "" {
		t.Skipf("no driver plugin to try: %s is not set", foreignVariable)
	}
	f := openForeign(t, newHost(t, ""), path, filepath.Base(path), os.Getenv(foreignConfigVariable))
	f.configure(publishing + f.settings)
	return f
}

// openForeign makes a plugin directory with one executable, and the inside of its config block.
func openForeign(t *testing.T, h *host, path, name, config string) *foreign {
	t.Helper()
	f := &foreign{host: h, name: name}
	if err := os.Mkdir(f.plugins(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(f.plugins(), name)); err != nil {
		t.Fatal(err)
	}
	f.settings = fmt.Sprintf("plugin_dir = %q\nplugin %q {\n  config {\n%s\n  }\n}\n", f.plugins(), name, config)
	h.afterwards, h.plugin = f.killPlugin, filepath.Join(f.plugins(), name)
	return f
}

// killPlugin kills the plugin's processes, if there are any.
func (f *foreign) killPlugin() {
	f.t.Helper()
	for _, pid := range f.pluginProcesses() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			f.t.Error(err)
		}
	}
}

func (f *foreign) plugins() string { return filepath.Join(f.dir, "plugins") }

// pluginProcesses are those of the plugin itself, without the ones that it starts for tasks.
func (f *foreign) pluginProcesses() (pids []int) {
	for _, pid := range processesWith(f.t, f.plugins()) {
		if commandLine(pid) == f.plugin {
			pids = append(pids, pid)
		}
	}
	return pids
}

// log reads a stream of the task's.
func (f *foreign) log(id, stream string) string {
	f.t.Helper()
	text, err := f.call("GET", "/v1/client/fs/logs/"+id+"?task=t&plain=true&origin=start&type="+stream, nil)
	if err != nil {
		return ""
	}
	return string(text)
}

// goesOn waits for more of all that comes from the task: what it does, what it writes, what is read of it.
func (f *foreign) goesOn(id, after string) {
	f.t.Helper()
	beats := len(f.lines(id, "beats"))
	f.eventually("the next beat after "+after, func() bool { return len(f.lines(id, "beats")) > beats+1 })
	all := f.lines(id, "beats")
	newest := "line " + all[len(all)-1] + "\n"
	f.eventually("the log after "+after, func() bool { return strings.Contains(f.log(id, "stdout"), newest) })
	var before stats
	f.get("/v1/client/allocation/"+id+"/stats", &before)
	f.eventually("a reading after "+after, func() bool {
		var now stats
		f.get("/v1/client/allocation/"+id+"/stats", &now)
		return now.Tasks["t"].Timestamp > before.Tasks["t"].Timestamp
	})
	a := f.allocations()[0]
	if starts := f.lines(id, "starts"); len(starts) != 1 || a.ClientStatus != "running" || a.TaskStates["t"].Restarts != 0 {
		f.t.Fatalf("after %s: processes %v, allocation %+v", after, starts, a)
	}
}

// checkMemory holds that the memory of a running task is not 0: it is measured, or said to be unknown.
func (f *foreign) checkMemory(id string) {
	f.t.Helper()
	var now struct {
		ResourceUsage struct {
			MemoryStats struct {
				RSS, Usage uint64
				Measured   []string
			}
		}
	}
	f.get("/v1/client/allocation/"+id+"/stats", &now)
	memory := now.ResourceUsage.MemoryStats
	for name, bytes := range map[string]uint64{"RSS": memory.RSS, "Usage": memory.Usage} {
		if slices.Contains(memory.Measured, name) && bytes == 0 {
			f.t.Errorf("%s of a running task is 0", name)
		}
	}
	f.t.Logf("memory: %+v", memory)
}

// TestForeignPlugin runs a task by a driver that is not ours, and kills all that can be killed without it.
func TestForeignPlugin(t *testing.T) {
	f := newForeign(t)
	f.begin()
	id := f.running(fmt.Sprintf(foreignJob, f.name, os.Getenv(foreignTaskVariable)))
	t.Cleanup(func() {
		if t.Failed() && f.cmd != nil {
			t.Logf("stdout %q, stderr %q", f.log(id, "stdout"), f.log(id, "stderr"))
		}
	})
	f.goesOn(id, "the start")
	if text := f.log(id, "stderr"); text != "there\n" {
		t.Errorf("stderr is %q", text)
	}

	f.end(syscall.SIGKILL)
	f.begin()
	f.goesOn(id, "a kill of the agent")

	before := f.pluginProcesses()
	f.killPlugin()
	f.eventually("another plugin process", func() bool {
		now := f.pluginProcesses()
		return len(now) == 1 && !slices.Contains(before, now[0])
	})
	f.goesOn(id, "a kill of the plugin")

	f.end(syscall.SIGTERM)
	if left := f.pluginProcesses(); len(left) > 0 {
		t.Errorf("the plugin is left as %v", left)
	}
	f.begin()
	f.goesOn(id, "a restart of the agent")
	f.checkMemory(id)
	if sockets, err := filepath.Glob(filepath.Join(f.data(), "plugins", "*")); err != nil || len(sockets) == 0 {
		t.Errorf("sockets in the data directory: %v, %v", sockets, err)
	}

	f.end(syscall.SIGKILL)
	f.killPlugin()
	f.begin()
	f.goesOn(id, "a kill of both")

	// Every line is there, once and in order.
	want := []string{"here"}
	lines := strings.Split(strings.TrimSuffix(f.log(id, "stdout"), "\n"), "\n")
	for i := range lines[1:] {
		want = append(want, fmt.Sprintf("line %d", i+1))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the log is\n%s", strings.Join(lines, "\n"))
	}
	if _, err := f.call("DELETE", "/v1/job/foreign", nil); err != nil {
		t.Error(err)
	}
	f.eventually("the end of the task", func() bool { return f.allocations()[0].ClientStatus == "complete" })
	f.eventually("the end of all processes", func() bool { return len(f.processes()) == 0 })
}
