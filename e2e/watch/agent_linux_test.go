// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// watcher is an agent that watches cgroups and runs no job.
type watcher struct {
	t     *testing.T
	place *rig.Place
	cmd   *exec.Cmd
	http  *http.Client
	log   *os.File
}

// newWatcher starts an agent that watches the groups below a parent.
func newWatcher(t *testing.T, parent *rig.Parent) *watcher {
	t.Helper()
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("only root reads what others have started")
	}
	w := &watcher{t: t, place: rig.NewPlace(t, rig.Self())}
	w.log = testkit.Value(os.Create(w.place.Path("log")))(t)
	w.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       testkit.DialUnix(w.socket()),
	}}
	w.configure(strings.Trim(parent.Path, "/")+"/*", true)
	w.start()
	t.Cleanup(func() {
		w.stop()
		text := string(testkit.Value(os.ReadFile(w.log.Name()))(t))
		const late = "a sample took longer than collection_interval" // as on a busy machine
		warned := strings.Count(text, "[WARN]") > strings.Count(text, late) && !guest()
		if t.Failed() || strings.Contains(text, "[ERROR]") || warned {
			t.Errorf("the agent's log:\n%s", text[max(0, len(text)-8000):])
		}
	})
	return w
}

func guest() bool { return os.Getenv("TACHO_GUEST") != "" }

func (w *watcher) socket() string { return w.place.Path("d/tacho.sock") }

func (w *watcher) configure(pattern string, publish bool) {
	w.t.Helper()
	text := fmt.Sprintf("data_dir = %q\nports {\n  http = -1\n}\nwatch {\n  cgroups = [%q]\n  every   = \"200ms\"\n}\n"+
		"plugin \"tacho\" {\n  config {\n    enforce = false\n  }\n}\ntelemetry {\n  publish_allocation_metrics = %v\n  prometheus_metrics = true\n}\n", w.place.Path("d"), pattern, publish)
	testkit.Must(w.t, os.WriteFile(w.place.Path("agent.hcl"), []byte(text), 0o600))
}

func (w *watcher) start() {
	w.t.Helper()
	w.cmd = w.place.Command(context.Background(), rig.Tacho(), "agent", "--config", w.place.Path("agent.hcl"))
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	testkit.Must(w.t, w.cmd.Start())
	rig.Poll(w.t, 20*time.Millisecond, time.Minute, "the agent answers", func() bool {
		status, _ := w.call(http.MethodGet, "/v1/agent/health", "")
		return status == http.StatusOK
	})
}

func (w *watcher) stop() {
	w.t.Helper()
	testkit.Must(w.t, w.cmd.Process.Signal(unix.SIGTERM))
	testkit.Must(w.t, w.cmd.Wait())
}

func (w *watcher) reload() { testkit.Must(w.t, w.cmd.Process.Signal(unix.SIGHUP)) }

func (w *watcher) call(method, path, body string) (status int, text string) {
	request := testkit.Value(http.NewRequestWithContext(context.Background(), method, "http://agent"+path, strings.NewReader(body)))(w.t)
	response, err := w.http.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	all := testkit.Value(io.ReadAll(response.Body))(w.t)
	return response.StatusCode, string(all)
}

func (w *watcher) get(path string, into any) {
	w.t.Helper()
	_, text := w.call(http.MethodGet, path, "")
	if err := json.Unmarshal([]byte(text), into); err != nil {
		w.t.Fatalf("%s: %v: %s", path, err, text)
	}
}

// shown is an allocation as these tests look at it.
type shown struct {
	ID, Name, JobType, ClientStatus string
	TaskStates                      map[string]struct {
		Events []struct{ DisplayMessage string }
		Tacho  struct{ Labels, Attributes map[string]string }
	}
}

// shown returns what is watched, by name of the group.
func (w *watcher) shown() map[string]shown {
	w.t.Helper()
	var list []shown
	w.get("/v1/allocations", &list)
	all := map[string]shown{}
	for _, a := range list {
		for task := range a.TaskStates {
			all[task] = a
		}
	}
	return all
}

// await waits until groups are shown, and no others.
func (w *watcher) await(names ...string) (all map[string]shown) {
	w.t.Helper()
	rig.Poll(w.t, 50*time.Millisecond, 30*time.Second, "these are watched: "+strings.Join(names, ", "), func() bool {
		all = w.shown()
		return len(all) == len(names) && !slices.ContainsFunc(names, func(name string) bool { return all[name].ID == "" })
	})
	return all
}

// number returns a measurement of what is watched.
func (w *watcher) number(id, task, name string) (float64, bool) {
	var stats struct {
		Tacho struct {
			Tasks map[string]struct {
				Reason string
				Sample *struct{ Measurements map[string]any }
			}
		}
	}
	w.get("/v1/client/allocation/"+id+"/stats", &stats)
	if of := stats.Tacho.Tasks[task]; of.Sample != nil {
		v, ok := of.Sample.Measurements[name].(float64)
		return v, ok
	}
	return 0, false
}

// group makes a group below a parent that a test removes by itself, or else its end.
func group(t *testing.T, parent *rig.Parent, name string) (dirs []string) {
	t.Helper()
	for _, above := range folders(parent) {
		dirs = append(dirs, filepath.Join(above, name))
	}
	for _, dir := range dirs {
		testkit.Must(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	return dirs
}

// end ends work and removes its groups.
func (w *work) end(t *testing.T, dirs []string) {
	t.Helper()
	_ = w.Process.Kill()
	_ = w.Wait()
	remove(t, dirs)
}

func remove(t *testing.T, dirs []string) {
	t.Helper()
	for _, dir := range dirs {
		rig.Eventually(t, 10*time.Second, "the group is removed", func() bool { return os.Remove(dir) == nil })
	}
}

// sharedFiles are those of the machine, such as of its huge pages, which stay open once something was read.
const sharedFiles = 16

const (
	nomadAlloc  = "5a1b2c3d-1111-2222-3333-444455556666"
	containerID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

	// The groups of a unit, of a task of Nomad's exec driver, and of a container of its docker driver.
	unitGroup, execGroup, dockerGroup = "db.service", nomadAlloc + ".web.scope", "docker-" + containerID + ".scope"
)

// TestAgent holds what an agent shows of groups that something else has made, that it refuses to act on them, that they
// come and go, and that they are as they were.
func TestAgent(t *testing.T) {
	parent := rig.NeedParent(t)
	testkit.Must(t, parent.Delegate())
	place := rig.NewPlace(t, rig.Self())
	w := newWatcher(t, parent)
	begun := w.descriptors()
	dirs := map[string][]string{}
	works := map[string]*work{}
	for _, name := range []string{unitGroup, execGroup, dockerGroup} {
		dirs[name] = group(t, parent, name)
		script := "exec sleep 1000"
		switch name {
		case dockerGroup:
			script = "NOMAD_ALLOC_ID=" + nomadAlloc + " NOMAD_TASK_NAME=cache exec sleep 1000"
		case unitGroup:
			script = busy() + "; exec sleep 1000"
		}
		works[name] = start(t, w.place, dirs[name], script)
		t.Cleanup(func() { works[name].end(t, nil) })
	}
	works[dockerGroup].goOn(t) // it is watched once it runs its own program
	w.await(unitGroup, execGroup, dockerGroup)
	works[unitGroup].goOn(t)
	works[execGroup].goOn(t)
	w.checkLabels(parent)
	id := w.shown()[unitGroup].ID
	cpu := func() time.Duration {
		sub := testkit.Value(parent.Sub(t, unitGroup, rig.Self()))(t)
		return testkit.Value(sub.CPU())(t)
	}
	rig.Poll(t, 200*time.Millisecond, time.Minute, "the total is the kernel's", func() bool {
		got, ok := w.number(id, unitGroup, "cgroup_cpu_usage_seconds_total")
		return ok && got > 0.1 && seconds(got) == cpu()
	})
	w.checkSurfaces(id, unitGroup)
	w.refuses(id, unitGroup)
	testkit.Equal(t, rig.Alive(works[unitGroup].Process.Pid), true, "what is watched runs on")
	testkit.Equal(t, len(w.children()), 0, "processes beside the agent")

	w.configure(strings.Trim(parent.Path, "/")+"/*", false)
	w.reload()
	w.await()
	w.configure(strings.Trim(parent.Path, "/")+"/*.service", true)
	w.reload()
	testkit.Equal(t, w.await(unitGroup)[unitGroup].ID, id, "the id of the same group")
	w.stop()
	w.start()
	testkit.Equal(t, w.await(unitGroup)[unitGroup].ID, id, "the id after a restart")

	works[unitGroup].end(t, dirs[unitGroup])
	w.await()
	for _, name := range []string{execGroup, dockerGroup} {
		works[name].end(t, dirs[name])
	}
	dirs[unitGroup] = group(t, parent, unitGroup)
	works[unitGroup] = start(t, w.place, dirs[unitGroup], "exec sleep 1000")
	works[unitGroup].goOn(t)
	if again := w.await(unitGroup)[unitGroup].ID; again == id {
		t.Error("a group that has come again has the id of the one before")
	}
	w.checkPrograms(place, dirs[unitGroup], len(parent.Folders("")) > 0)
	works[unitGroup].end(t, dirs[unitGroup])
	rig.Poll(t, 100*time.Millisecond, 20*time.Second, "no descriptor is left", func() bool { return w.descriptors() <= begun+sharedFiles })
}

// checkLabels holds that what is watched says what it is of.
func (w *watcher) checkLabels(parent *rig.Parent) {
	w.t.Helper()
	rig.Poll(w.t, 50*time.Millisecond, 30*time.Second, "the labels are right", func() bool {
		of := func(name string) map[string]string { return w.shown()[name].TaskStates[name].Tacho.Labels }
		return of(unitGroup)["unit"] == unitGroup && of(unitGroup)["cgroup"] == filepath.Join(parent.Path, unitGroup) &&
			of(execGroup)["allocation"] == nomadAlloc && of(execGroup)["allocation_task"] == "web" &&
			of(dockerGroup)["container"] == containerID && of(dockerGroup)["allocation"] == nomadAlloc && of(dockerGroup)["allocation_task"] == "cache"
	})
}

// checkPrograms holds that two watchers of a group have a program each, and that none is left of them.
func (w *watcher) checkPrograms(place *rig.Place, dirs []string, v2 bool) {
	t := w.t
	t.Helper()
	slow := 5 * time.Second // on version 1 it stays without
	if guest() && v2 {
		slow = time.Minute
	}
	attached, same := 0, 0 // the agent attaches one after the other
	for until := time.Now().Add(slow); same < 10 && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		n := programs(t, dirs)
		if same++; n == 0 || n != attached {
			attached, same = n, 0
		}
	}
	wait := watch(t, place, "--cgroup", dirs[0], "--timeout", "1s")
	watching(t, place)
	if n := programs(t, dirs); attached > 0 && n != 2*attached {
		t.Errorf("%d programs of two watchers, %d of one", n, attached)
	}
	wait()
	rig.Poll(t, 50*time.Millisecond, 20*time.Second, "the second watcher's programs are gone", func() bool { // freed later, in a work queue
		return programs(t, dirs) == attached
	})
	w.configure("nothing/here", true)
	w.reload()
	w.await()
	rig.Poll(t, 50*time.Millisecond, 20*time.Second, "no program and no directory is left", func() bool {
		entries := testkit.Value(os.ReadDir(w.place.Path("d/alloc")))(t)
		return programs(t, dirs) == 0 && len(entries) == 0
	})
}

// checkSurfaces holds that metrics, history, commands and the page have what is watched.
func (w *watcher) checkSurfaces(id, task string) {
	w.t.Helper()
	_, metrics := w.call(http.MethodGet, "/v1/metrics?format=prometheus", "")
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "tacho_task_info{") && strings.Contains(line, `unit="`+task+`"`) {
			metrics = ""
		}
	}
	testkit.Equal(w.t, metrics, "", "metrics without the labels of the unit")
	var history struct{ Tasks map[string][]any }
	rig.Poll(w.t, 100*time.Millisecond, 20*time.Second, "there is a history", func() bool {
		w.get("/v1/client/allocation/"+id+"/history", &history)
		return len(history.Tasks[task]) > 2
	})
	for path, want := range map[string]string{
		"/v1/client/allocation/" + id + "/commands": `"rows"`,
		"/alloc/" + id + "/" + task:                 "driver <b>watch</b>",
		"/":                                         task,
	} {
		status, text := w.call(http.MethodGet, path, "")
		if status != http.StatusOK || !strings.Contains(text, want) || strings.Contains(text, "Restart task") {
			w.t.Errorf("%s: %d, without %q or with a button: %s", path, status, want, text)
		}
	}
	top := rig.Capture(w.t, w.place.Command(w.t.Context(), rig.Tacho(), "top", "--data-dir", w.place.Path("d"), "-d", "200ms"))
	if top.Code != 0 || !strings.Contains(top.Stdout, task) {
		w.t.Errorf("tacho top: exit code %d\n%s%s", top.Code, top.Stdout, top.Stderr)
	}
}

// refuses holds that nothing can be done to what is watched.
func (w *watcher) refuses(id, task string) {
	w.t.Helper()
	client := "/v1/client/allocation/" + id
	for path, body := range map[string]string{
		client + "/restart": "", client + "/signal": `{"Signal": "SIGTERM"}`, "/v1/allocation/" + id + "/stop": "",
	} {
		status, text := w.call(http.MethodPut, path, body)
		if status != http.StatusConflict || !strings.Contains(text, "only watched") {
			w.t.Errorf("%s: %d: %s", path, status, text)
		}
	}
	for _, words := range [][]string{
		{"restart", id}, {"stop", id}, {"signal", "-s", "SIGTERM", id}, {"exec", id, "true"},
	} {
		args := append([]string{"alloc", words[0], "--data-dir", w.place.Path("d")}, words[1:]...)
		out := rig.Capture(w.t, w.place.Command(w.t.Context(), rig.Tacho(), args...))
		if out.Code == 0 || !strings.Contains(out.Stderr, "only watched") {
			w.t.Errorf("tacho %v: exit code %d: %s", args, out.Code, out.Stderr)
		}
	}
}

// children lists the processes that the agent has started.
func (w *watcher) children() []string {
	text := testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", w.cmd.Process.Pid)))(w.t)
	return strings.Fields(string(text))
}

func (w *watcher) descriptors() int {
	return len(testkit.Value(os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.cmd.Process.Pid)))(w.t))
}

// programs counts those that are attached to a group.
func programs(t *testing.T, dirs []string) (n int) {
	t.Helper()
	for _, dir := range dirs {
		f := testkit.Value(os.Open(dir))(t)
		for _, hook := range []ebpf.AttachType{ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupInetEgress} {
			if found, err := link.QueryPrograms(link.QueryOptions{Target: int(f.Fd()), Attach: hook}); err == nil { // not of version 1
				n += len(found.Programs)
			}
		}
		_ = f.Close() // of reading
	}
	return n
}

// TestBesideDriver holds that a task of the agent that is watched by the agent, too, and by tacho watch, has the same
// total everywhere, and that no program is left.
func TestBesideDriver(t *testing.T) {
	place := rig.NewPlace(t, rig.Self())
	w := newWatcher(t, rig.NeedParent(t)) // nothing is in it
	job := fmt.Sprintf("job \"busy\" {\n  type = \"batch\"\n  group \"g\" {\n    restart {\n      attempts = 0\n      mode = \"fail\"\n    }\n    task \"t\" {\n"+
		"      driver = \"tacho\"\n      config {\n        command = \"/bin/sh\"\n        args = [\"-c\", %q]\n      }\n    }\n  }\n}\n", busy()+"; : >"+place.Path("used")+"; exec sleep 1000")
	body := string(testkit.Value(json.Marshal(map[string]string{"Source": job}))(t))
	if status, text := w.call(http.MethodPut, "/v1/jobs", body); status != http.StatusOK {
		t.Fatal(text)
	}
	over := func() {
		w.call(http.MethodDelete, "/v1/job/busy", "")
		rig.Poll(t, 50*time.Millisecond, 30*time.Second, "the task has ended", func() bool { return len(w.children()) == 0 })
	}
	t.Cleanup(over)
	var dir, id string
	rig.Poll(t, 50*time.Millisecond, 30*time.Second, "the task runs", func() bool {
		for _, a := range w.shown() {
			var own shown
			w.get("/v1/allocation/"+a.ID, &own)
			if dir = own.TaskStates["t"].Tacho.Attributes["cgroup"]; dir != "" {
				id = a.ID
			}
		}
		return dir != ""
	})
	w.configure(dir, true)
	w.reload()
	name := filepath.Base(dir)
	rig.Poll(t, 50*time.Millisecond, 30*time.Second, "its group is watched", func() bool { return w.shown()[name].ID != "" })
	wait := watch(t, place, "--cgroup", dir)
	watching(t, place)
	watched := w.shown()[name].ID
	rig.Poll(t, 200*time.Millisecond, time.Minute, "both tell the same", func() bool {
		_, err := os.Stat(place.Path("used")) // from then on it takes nothing
		own, ok := w.number(id, "t", "cgroup_cpu_usage_seconds_total")
		theirs, too := w.number(watched, name, "cgroup_cpu_usage_seconds_total")
		return err == nil && ok && too && own > 0.1 && own == theirs
	})
	own, _ := w.number(id, "t", "cgroup_cpu_usage_seconds_total")
	over()
	r, _ := wait()
	if total := r.Headline["cpu_seconds_total"].Value; total == nil || r.Earlier == nil || *total+r.Earlier.CPUSeconds < own-0.001 {
		t.Errorf("tacho watch: %v after %+v, and the task had used %v: %q", r.Headline["cpu_seconds_total"], r.Earlier, own, r.Notes)
	}
	rig.Poll(t, 100*time.Millisecond, 30*time.Second, "the group is gone", func() bool { return w.shown()[name].ID == "" })
	w.call(http.MethodPut, "/v1/system/gc", "")
}

// TestAgentOOM holds that a kill in what is watched is an event that names the victim.
func TestAgentOOM(t *testing.T) {
	parent := rig.NeedMemory(t)
	testkit.Must(t, parent.Delegate())
	sub := testkit.Value(parent.Sub(t, "eater.service", rig.Self()))(t)
	testkit.Must(t, sub.LimitMemory(24<<20))
	w := newWatcher(t, parent)
	eater := start(t, w.place, folders(sub), `sh -c 'x=aaaaaaaa; while :; do x=$x$x; done'; exec sleep 1000`)
	t.Cleanup(func() { eater.end(t, nil) })
	w.await("eater.service")
	eater.goOn(t)
	message := ""
	rig.Poll(t, 100*time.Millisecond, time.Minute, "an event of the kill", func() bool {
		for _, e := range w.shown()["eater.service"].TaskStates["eater.service"].Events {
			message = e.DisplayMessage
		}
		return message != ""
	})
	if !strings.Contains(message, "killed") || !strings.Contains(message, "limit") {
		t.Errorf("the event says %q", message)
	}
	t.Log(message)
	eater.end(t, nil)
}

// TestAgentVanishing has groups appear and vanish while an agent watches: no error, and nothing is left.
func TestAgentVanishing(t *testing.T) {
	parent := rig.NeedParent(t)
	testkit.Must(t, parent.Delegate())
	w := newWatcher(t, parent)
	begun := w.descriptors()
	random := rig.Random(t)
	groups, together := 200, 16
	if guest() {
		groups, together = 30, 4
	}
	slots := make(chan struct{}, together)
	var all sync.WaitGroup
	for n := range rig.Tries(groups) {
		lives := time.Duration(10+random.IntN(rand.IntN(1990)+1)) * time.Millisecond
		name := "g" + strconv.Itoa(n%40) // some come again under the same name
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			name := name
			var dirs []string
			for _, above := range folders(parent) {
				if os.Mkdir(filepath.Join(above, name), 0o755) != nil { // the one before is still there
					name = "h" + strconv.Itoa(n)
					testkit.Must(t, os.Mkdir(filepath.Join(above, name), 0o755))
				}
				dirs = append(dirs, filepath.Join(above, name))
			}
			each := start(t, w.place, dirs, "exec sleep "+strconv.FormatFloat(lives.Seconds(), 'f', 3, 64))
			each.goOn(t)
			_ = each.Wait()
			remove(t, dirs)
		})
	}
	all.Wait()
	w.await()
	rig.Poll(t, 100*time.Millisecond, 20*time.Second, "no descriptor is left", func() bool { return w.descriptors() <= begun+sharedFiles })
	rig.Poll(t, 100*time.Millisecond, 20*time.Second, "no directory is left of what is gone", func() bool {
		return len(testkit.Value(os.ReadDir(w.place.Path("d/alloc")))(t)) == 0
	})
}
