// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// mostDifferent is how many job files may end differently. How often a failing system job is tried is random in Nomad, and a deployment
// that has failed ends the attempts of its service there.
const mostDifferent = 3

// state is what a job has come to.
type state struct {
	Status string
	// Allocations are the statuses of all allocations, by group.
	Allocations map[string][]string
	// Consul says that the job waits for a node with Consul.
	Consul bool
}

// orchestrator runs jobs: our agent, or Nomad's.
type orchestrator struct {
	client *http.Client
	base   string
	// run registers the job of a file and does not wait; nil is success, other errors have the output.
	run func(ctx context.Context, path string, variables []string) error
}

// TestFinalStates runs the job files of Nomad's repository that our agent accepts on a real Nomad as well, with raw_exec there, and
// compares what becomes of the jobs.
func TestFinalStates(t *testing.T) {
	rig.Require(t)
	nomad, err := exec.LookPath("nomad")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("not measured: no nomad on PATH, or not root")
	}
	files := jobFiles(t, nomadSource(t))
	ours, theirs := ourOrchestrator(t), realNomad(t, nomad)
	var compared, different, checks, refused int
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, 8)
	names := &byName{}
	for _, file := range files {
		running.Go(func() {
			text := file.text
			slots <- struct{}{}
			defer func() { <-slots }()
			defer names.lock(text)()
			path := filepath.Join(t.TempDir(), "job.nomad.hcl")
			got, id, variables, err := ours.final(t.Context(), path, text, nil)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				refused++
				t.Logf("%s is refused: %v", file.path, err)
				return
			}
			want, _, _, err := theirs.final(t.Context(), path, strings.ReplaceAll(text, `"tacho"`, `"raw_exec"`), variables)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Logf("%s (%s) is not taken by Nomad: %v", file.path, id, err)
				return
			}
			if want.Consul {
				t.Logf("%s (%s) needs Consul on Nomad", file.path, id)
				return
			}
			compared++
			switch {
			case reflect.DeepEqual(got, want):
			case strings.Contains(text, "check_restart"): // restarts nothing here, as docs/configuration.md has it
				checks++
			default:
				different++
				t.Logf("%s (%s): %+v, on Nomad %+v\n%s", file.path, id, got, want, text)
			}
		})
	}
	running.Wait()
	report(t, "%d of %d are the same; %d differ by check_restart, %d by chance (at most %d)",
		compared-different-checks, compared, checks, different, mostDifferent)
	if accepted := len(files) - refused; accepted < leastJobs || compared < leastJobs-20 || different > mostDifferent {
		t.Errorf("%d of %d jobs end differently; %d were accepted", different, compared, accepted)
	}
}

var (
	jobName    = regexp.MustCompile(`(?m)^\s*job\s+"?([^"\s]+)"?`)
	staticPort = regexp.MustCompile(`static\s*=`)
)

// byName lets jobs of one name run one after the other, and so those that ask for the same port.
type byName struct{ locks sync.Map }

// lock returns what unlocks the name again.
func (b *byName) lock(text string) func() {
	name := "a port"
	if match := jobName.FindStringSubmatch(text); match != nil && !staticPort.MatchString(text) {
		name = match[1]
	}
	l, _ := b.locks.LoadOrStore(name, &sync.Mutex{})
	l.(*sync.Mutex).Lock()
	return l.(*sync.Mutex).Unlock
}

// final runs a job until its state does not change any more, and removes it. Variables without a default are set to 1.
func (o *orchestrator) final(ctx context.Context, path, text string, variables []string) (s state, id string, used []string, err error) {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return s, "", nil, err
	}
	before := o.jobs(ctx)
	for {
		err := o.run(ctx, path, variables)
		if err == nil {
			break
		}
		missing := noDefault.FindStringSubmatch(err.Error())
		if missing == nil || len(variables) > 20 {
			return s, "", nil, err
		}
		variables = append(variables, missing[1]+"=1")
	}
	match := jobName.FindStringSubmatch(text)
	for _, known := range o.jobs(ctx) {
		if match != nil && known == match[1] || match == nil && !slices.Contains(before, known) {
			id = known
		}
	}
	if id == "" {
		return s, "", nil, fmt.Errorf("no job of the name %v", match)
	}
	s = o.settled(ctx, id)
	o.ask(ctx, http.MethodDelete, "/v1/job/"+id+"?purge=true", nil)
	return s, id, variables, nil
}

// settled waits until the state of a job has not changed for a while. A task is restarted after 15 to 19 s by default.
func (o *orchestrator) settled(ctx context.Context, id string) state {
	const quiet, longest, pause = 22 * time.Second, 100 * time.Second, 500 * time.Millisecond
	var last state
	var restarts uint64 // between two looks a task can have failed and wait as before
	began := time.Now()
	since := began
	for time.Since(since) < quiet && time.Since(began) < longest && ctx.Err() == nil {
		now, counted := o.state(ctx, id)
		if !reflect.DeepEqual(now, last) || counted != restarts {
			last, restarts, since = now, counted, time.Now()
		}
		time.Sleep(pause)
	}
	return last
}

func (o *orchestrator) state(ctx context.Context, id string) (s state, restarts uint64) {
	var job struct{ Status string }
	var allocations []struct {
		TaskGroup, ClientStatus string
		TaskStates              map[string]struct{ Restarts uint64 }
	}
	o.get(ctx, "/v1/job/"+id, &job)
	o.get(ctx, "/v1/job/"+id+"/allocations", &allocations)
	var evaluations json.RawMessage
	o.get(ctx, "/v1/job/"+id+"/evaluations", &evaluations)
	s = state{
		Status: job.Status, Allocations: map[string][]string{},
		Consul: regexp.MustCompile(`"ConstraintFiltered":\{[^}]*consul`).Match(evaluations),
	}
	live := false
	for _, a := range allocations {
		s.Allocations[a.TaskGroup] = append(s.Allocations[a.TaskGroup], a.ClientStatus)
		live = live || a.ClientStatus == "running" || a.ClientStatus == "pending"
		for _, task := range a.TaskStates {
			restarts += task.Restarts
		}
	}
	for _, all := range s.Allocations {
		slices.Sort(all)
	}
	var deployment *struct{ Status string }
	if o.get(ctx, "/v1/job/"+id+"/deployment", &deployment); deployment != nil && deployment.Status == "running" && !live {
		s.Status = "pending" // a deployment counts as something that runs, and there is none here
	}
	return s, restarts
}

func (o *orchestrator) jobs(ctx context.Context) (ids []string) {
	var jobs []struct{ ID string }
	o.get(ctx, "/v1/jobs", &jobs)
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func (o *orchestrator) get(ctx context.Context, path string, into any) {
	o.ask(ctx, http.MethodGet, path, into)
}

// ask leaves the value as it is if there is no answer: the next try finds one.
func (o *orchestrator) ask(ctx context.Context, method, path string, into any) {
	request, err := http.NewRequestWithContext(ctx, method, o.base+path, nil)
	if err != nil {
		return
	}
	answer, err := o.client.Do(request)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK && into != nil {
		_ = json.NewDecoder(answer.Body).Decode(into)
	}
}

func ourOrchestrator(t *testing.T) *orchestrator {
	t.Helper()
	data := startAgent(t, anyPort)
	dial := testkit.DialUnix(filepath.Join(data, "tacho.sock"))
	return &orchestrator{
		base: "http://tacho", client: &http.Client{Transport: &http.Transport{DialContext: dial}},
		run: func(ctx context.Context, path string, variables []string) error {
			return command(ctx, rig.Tacho(), []string{"job", "run", "--detach", "--data-dir", data}, "--var", variables, path)
		},
	}
}

// command runs a command line with variables; its error has the output.
func command(ctx context.Context, name string, args []string, flag string, variables []string, path string) error {
	for _, v := range variables {
		args = append(args, flag, v)
	}
	out, err := exec.CommandContext(ctx, name, append(args, path)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

const nomadConfig = `
bind_addr = "127.0.0.1"
ports {
  http = %d
  rpc  = %d
  serf = %d
}
server {
  default_scheduler_config {
    memory_oversubscription_enabled = true
  }
}
client {
  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean,consul,vault"
  }
}
consul {
  address          = "127.0.0.1:1"
  auto_advertise   = false
  client_auto_join = false
  server_auto_join = false
}
`

// realNomad starts a Nomad agent, server and client in one, which keeps nothing.
func realNomad(t *testing.T, nomad string) *orchestrator {
	t.Helper()
	dir := t.TempDir()
	var ports [3]any
	for i := range ports {
		ports[i] = rig.FreePort(t)
	}
	config := filepath.Join(dir, "agent.hcl")
	testkit.Must(t, os.WriteFile(config, fmt.Appendf(nil, nomadConfig, ports[:]...), 0o600))
	start(t, exec.Command(nomad, "agent", "-dev", "-config", config))
	o := &orchestrator{base: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), client: http.DefaultClient}
	rig.Eventually(t, 60*time.Second, "the node is ready", func() bool {
		var nodes []struct{ Status string }
		o.get(t.Context(), "/v1/nodes", &nodes)
		return len(nodes) == 1 && nodes[0].Status == "ready"
	})
	o.run = func(ctx context.Context, path string, variables []string) error {
		return command(ctx, nomad, []string{"job", "run", "-detach", "-address=" + o.base}, "-var", variables, path)
	}
	return o
}
