// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

const (
	tasksVariable   = "TACHO_COST_TASKS"
	workersVariable = "TACHO_COST_WORKERS"
	// taskKiB is what an agent and an executor hold for each of many tasks.
	taskKiB = 6 << 10
	// offPercent of a core is what all of them take while nothing is published.
	offPercent = 0.2
	// cacheLife is how old a reading may be that the statistics answer with.
	cacheLife = time.Second
	// scrapeInterval is how often the metrics are read while nothing else is asked.
	scrapeInterval = 10 * time.Second
)

// fleet is an agent with a job of many sleeping tasks.
type fleet struct {
	t     *testing.T
	place *rig.Place
	agent *exec.Cmd
	// executors are their PIDs.
	executors []int
	// config configures the tasks; empty for a fleet without tasks. watch is a pattern of cgroups.
	config, watch string
	http          *http.Client
}

// sleepers are tasks that do nothing.
const sleepers = `command = "/bin/sleep"
        args    = ["100000"]`

// workers are tasks that work for a millisecond ten times a second.
func workers(t *testing.T) string {
	self := testkit.Value(os.Executable())(t)
	return fmt.Sprintf("command = \"/usr/bin/env\"\n        args    = [\"%s=%s\", %q]", workVariable, ticking, self)
}

const fleetJob = `job "fleet" {
  group "g" {
    count = %d
    task "t" {
      driver = "tacho"
      config {
        %s
      }
      resources {
        memory = 10
      }
    }
  }
}
`

func (f *fleet) path(name string) string { return f.place.Path(name) }
func (f *fleet) socket() string          { return f.path("d/tacho.sock") }

// newFleet starts the agent and its tasks, which end with the test. config says what each runs.
func newFleet(t *testing.T, tasks int, config string) *fleet {
	t.Helper()
	f := &fleet{t: t, place: place(t), config: config}
	f.begin()
	t.Cleanup(f.end)
	f.write("job.nomad.hcl", fmt.Sprintf(fleetJob, tasks, config))
	f.tacho("job", "run", "--detach", f.path("job.nomad.hcl"))
	rig.Eventually(t, time.Minute, "all tasks run", func() bool {
		f.executors = children(t, f.agent.Process.Pid)
		return len(f.executors) == tasks && len(f.running()) == tasks
	})
	return f
}

// begin starts the agent.
func (f *fleet) begin() {
	f.t.Helper()
	f.http = &http.Client{Timeout: deadline, Transport: &http.Transport{
		MaxIdleConnsPerHost: 64, DisableCompression: true,
		DialContext: testkit.DialUnix(f.socket()),
	}}
	f.publish(true)
	f.agent = f.place.Command(context.Background(), rig.Tacho(), "agent", "--config", f.path("agent.hcl"))
	testkit.Must(f.t, f.agent.Start())
	rig.Eventually(f.t, deadline, "the agent answers", func() bool {
		_, _, err := f.get("/v1/agent/health")
		return err == nil
	})
}

// end stops the tasks and the agent.
func (f *fleet) end() {
	f.http.CloseIdleConnections()
	if f.config != "" {
		f.tacho("job", "stop", "fleet")
	}
	rig.Eventually(f.t, time.Minute, "no executor is left", func() bool {
		return len(children(f.t, f.agent.Process.Pid)) == 0
	})
	testkit.NoError(f.t, errors.Join(f.agent.Process.Signal(os.Interrupt), f.agent.Wait()))
}

func (f *fleet) tacho(args ...string) {
	f.t.Helper()
	cmd := f.place.Command(context.Background(), rig.Tacho(), args...)
	cmd.Env = append(cmd.Env, "TACHO_ADDR=unix:"+f.socket())
	if text, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("tacho %v: %v\n%s", args, err, text)
	}
}

func (f *fleet) write(name, text string) {
	f.t.Helper()
	testkit.Must(f.t, os.WriteFile(f.path(name), []byte(text), 0o600))
}

func (f *fleet) watched() string {
	if f.watch == "" {
		return "[]"
	}
	return fmt.Sprintf("[%q]", f.watch)
}

// publish writes the agent's configuration, and has it read where the agent runs.
func (f *fleet) publish(on bool) {
	f.t.Helper()
	f.write("agent.hcl", fmt.Sprintf("data_dir = %q\nports {\n  http = -1\n}\ntelemetry {\n  publish_allocation_metrics = %t\n"+
		"  prometheus_metrics = true\n  collection_interval = \"1s\"\n}\nwatch {\n  cgroups = %s\n}\n", f.path("d"), on, f.watched()))
	if f.agent != nil {
		testkit.Must(f.t, f.agent.Process.Signal(syscall.SIGHUP))
	}
}

// get returns an answer and how long it took.
func (f *fleet) get(path string) (body []byte, took time.Duration, err error) {
	var into bytes.Buffer
	took, err = f.read(path, http.Header{}, &into)
	return into.Bytes(), took, err
}

// read reads an answer into memory that was used before, and returns how long it took.
func (f *fleet) read(path string, header http.Header, into *bytes.Buffer) (took time.Duration, err error) {
	request, err := http.NewRequest(http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return 0, err
	}
	request.Header = header
	began := time.Now()
	response, err := f.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	into.Reset()
	_, err = into.ReadFrom(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return time.Since(began), err
}

// running lists the allocations whose task runs.
func (f *fleet) running() (ids []string) {
	body, _, err := f.get("/v1/allocations")
	testkit.Must(f.t, err)
	var all []struct{ ID, ClientStatus string }
	testkit.Must(f.t, json.Unmarshal(body, &all))
	for _, a := range all {
		if a.ClientStatus == "running" {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// percent is how much of a core the agent, and all executors, take in a time. If scraped, its metrics are read every
// 10 s meanwhile.
func (f *fleet) percent(over time.Duration, scraped bool) (agent, executors float64) {
	f.t.Helper()
	sum := func() (agent, executors time.Duration) {
		for _, pid := range f.executors {
			executors += cpuTime(f.t, pid)
		}
		return cpuTime(f.t, f.agent.Process.Pid), executors
	}
	agentBefore, executorsBefore := sum()
	began := time.Now()
	for end := began.Add(over); time.Now().Before(end); {
		if scraped {
			testkit.Value(f.read("/v1/metrics?format=prometheus", scraper(), &bytes.Buffer{}))(f.t)
		}
		time.Sleep(min(scrapeInterval, time.Until(end)))
	}
	agentAfter, executorsAfter := sum()
	share := func(d time.Duration) float64 { return 100 * float64(d) / float64(time.Since(began)) }
	return share(agentAfter - agentBefore), share(executorsAfter - executorsBefore)
}

// reads counts the read calls of all executors so far, and the bytes that they gave.
func (f *fleet) reads() (calls, size int) {
	f.t.Helper()
	for _, pid := range f.executors {
		io := procNumbers(f.t, pid, "io")
		calls, size = calls+io["syscr"], size+io["rchar"]
	}
	return calls, size
}

// eventSize is what a read of an eventfd gives, eventfd(2). Go's runtime wakes once a minute, and may call a thread by
// one; every file of a task is longer.
const eventSize = 8

// children are the executors that an agent has started.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	lists := testkit.Value(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent)))(t)
	for _, list := range lists {
		text, _ := os.ReadFile(list) // of a thread that has ended: none
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// figures are what a fleet costs.
type figures struct {
	tasks int
	// agent and executors are shares of a core, in percent: while stats are published, and offAgent and offExecutors
	// while they are not.
	agent, executors, offAgent, offExecutors float64
	agentKiB, executorKiB                    int // the executor's is the median
	metrics                                  []time.Duration
}

// growth prints fleets of different sizes beside each other.
func growth(t *testing.T, all []figures) {
	t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "tasks\tagent\texecutors\ta task\tagent\tan executor\ta task\t/v1/metrics\tnot publishing\t")
	for _, f := range all {
		fmt.Fprintf(w, "%d\t%.2f %%\t%.2f %%\t%.4f %%\t%.1f MiB\t%.2f MiB\t%.2f MiB\t%s\t%.3f %%\t\n",
			f.tasks, f.agent, f.executors, (f.agent+f.executors)/float64(f.tasks), mib(f.agentKiB), mib(f.executorKiB), mib(f.executorKiB+f.agentKiB/f.tasks),
			spread(f.metrics), f.offAgent+f.offExecutors)
	}
	_ = w.Flush() // into memory
	t.Logf("one reading a second, metrics scraped every 10 s; shares are of one core, memory is private:\n%s", b.String())
}

// TestAgent measures an agent with many sleeping tasks: what it and the executors hold and take, how long the metrics
// and the statistics take to answer, and what is left of it all while nothing is published.
func TestAgent(t *testing.T) {
	var all []figures
	for text := range strings.SplitSeq(cmp.Or(os.Getenv(tasksVariable), "50"), ",") {
		tasks, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", tasksVariable, err)
		}
		t.Run(text, func(t *testing.T) { all = append(all, measure(t, newFleet(t, tasks, sleepers))) })
	}
	growth(t, all)
}

func measure(t *testing.T, f *fleet) (of figures) {
	t.Helper()
	of.tasks = len(f.executors)
	time.Sleep(12 * time.Second) // what starting took is given back, and executors were asked what they have reaped
	f.memory()
	of.agent, of.executors = f.publishing()
	of.metrics = f.metrics()
	f.statistics()
	of.agentKiB, of.executorKiB = f.memory()
	f.publish(false)
	time.Sleep(5 * time.Second)
	callsBefore, sizeBefore := f.reads()
	of.offAgent, of.offExecutors = f.percent(streamingTime(t), false)
	calls, size := f.reads()
	calls, size = calls-callsBefore, size-sizeBefore
	t.Logf("not publishing: %.3f %% for the agent, %.3f %% for the executors, %d reads of theirs, %d bytes",
		of.offAgent, of.offExecutors, calls, size)
	if of.offAgent+of.offExecutors > offPercent || size != eventSize*calls {
		t.Errorf("want below %.1f %% in all, and no read of a file", offPercent)
	}
	return of
}

// TestWorkers measures an agent with tasks that work a little all the time. Five hundred of them need five CPUs:
// TACHO_COST_WORKERS is how many there are.
func TestWorkers(t *testing.T) {
	tasks, err := strconv.Atoi(cmp.Or(os.Getenv(workersVariable), "20"))
	if err != nil {
		t.Fatalf("%s: %v", workersVariable, err)
	}
	f := newFleet(t, tasks, workers(t))
	// What starting took is given back. The processes of a young task are read more often than every ten seconds.
	time.Sleep(max(10*time.Second, streamingTime(t)))
	f.publishing()
}

// publishing prints what the agent and all executors take while the stats are published, and holds that the executors
// take next to nothing: the agent reads their tasks. Those of sleeping tasks sleep.
func (f *fleet) publishing() (agent, executors float64) {
	f.t.Helper()
	window := max(streamingTime(f.t)/2, scrapeInterval/2)
	before := f.activities()
	agent, executors = f.percent(window, true)
	if f.config == sleepers {
		f.asleep(before, window)
	}
	f.t.Logf("publishing: %.2f %% of a core for the agent, %.2f %% for %d executors, %.4f %% a task",
		agent, executors, len(f.executors), (agent+executors)/float64(len(f.executors)))
	if executors > offPercent {
		f.t.Errorf("the executors take %.2f %%; want below %.1f %%", executors, offPercent)
	}
	return agent, executors
}

// memory prints the private memory of the agent, and of the executors the median.
func (f *fleet) memory() (agent, median int) {
	f.t.Helper()
	var all []int
	for _, pid := range f.executors {
		all = append(all, privateKiB(f.t, pid))
	}
	slices.Sort(all)
	agent, median = privateKiB(f.t, f.agent.Process.Pid), all[len(all)/2]
	each := agent / len(all)
	f.t.Logf("private memory: %.2f MiB an executor (at most %.2f), agent %.1f MiB, %.2f MiB a task",
		mib(median), mib(all[len(all)-1]), mib(agent), mib(median+each))
	if median+each > taskKiB {
		f.t.Errorf("want at most %.0f MiB a task", mib(taskKiB))
	}
	return agent, median
}

func mib(kib int) float64 { return float64(kib) / (1 << 10) }

// scraper is how Prometheus asks.
func scraper() http.Header {
	return http.Header{"Accept": {"application/openmetrics-text;version=1.0.0"}, "Accept-Encoding": {"gzip"}}
}

// metrics scrapes every 50 ms, which is at all times of a collection interval. Each page is read into the memory of
// the one before: to have more of it would take longer than the agent does.
func (f *fleet) metrics() (times []time.Duration) {
	f.t.Helper()
	const scrapes = 300
	var page bytes.Buffer
	for range scrapes {
		times = append(times, testkit.Value(f.read("/v1/metrics?format=prometheus", scraper(), &page))(f.t))
		time.Sleep(50 * time.Millisecond)
	}
	zipped := page.Len()
	plain, _, err := f.get("/v1/metrics?format=prometheus")
	testkit.Must(f.t, err)
	f.t.Logf("metrics: %s; %d bytes compressed, %d without, %d series a task",
		spread(times), zipped, len(plain), bytes.Count(plain, []byte("\ntacho_task_"))/len(f.executors))
	return times
}

// statistics asks a thousand times a second.
func (f *fleet) statistics() {
	f.t.Helper()
	const rate, span, askers = 1000, 10 * time.Second, 32
	ids := f.running()
	before, began := f.collections(ids[0]), time.Now()
	type answer struct {
		took time.Duration
		err  error
	}
	due, answers := make(chan string), make(chan answer, rate*int(span/time.Second))
	for range askers {
		go func() {
			for id := range due {
				_, took, err := f.get("/v1/client/allocation/" + id + "/stats")
				answers <- answer{took, err}
			}
		}()
	}
	for i := range cap(answers) {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / rate)))
		due <- ids[i%len(ids)]
	}
	close(due)
	var times []time.Duration
	for range cap(answers) {
		a := <-answers
		if a.err != nil {
			f.t.Fatal(a.err)
		}
		times = append(times, a.took)
	}
	took := time.Since(began)
	made := f.collections(ids[0]) - before
	f.t.Logf("statistics: %d in %.1f s, no error, %s; %d collections of one task",
		len(times), took.Seconds(), spread(times), made)
	// One for each tick of the stream, and one that was due before and after.
	if most := 2 + int(took/cacheLife); made > most {
		f.t.Errorf("%d collections in %s, want at most %d", made, took, most)
	}
}

// collections is how often the executor of an allocation has read its task.
func (f *fleet) collections(id string) int {
	f.t.Helper()
	body, _, err := f.get("/v1/client/allocation/" + id + "/stats")
	testkit.Must(f.t, err)
	var answer struct {
		Tacho struct {
			Tasks map[string]struct {
				Sample struct {
					Measurements map[string]json.Number `json:"measurements"`
				} `json:"sample"`
			} `json:"tasks"`
		}
	}
	testkit.Must(f.t, json.Unmarshal(body, &answer))
	n, err := answer.Tacho.Tasks["t"].Sample.Measurements["executor_collections_total"].Int64()
	if err != nil {
		f.t.Fatalf("no number of collections in %s", body)
	}
	return int(n)
}

// spread says how times are spread.
func spread(times []time.Duration) string {
	slices.Sort(times)
	at := func(percent int) float64 { return float64(times[len(times)*percent/100].Microseconds()) / 1000 }
	return fmt.Sprintf("median %.1f ms, p99 %.1f ms", at(50), at(99))
}
