// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/procstats"
)

// config makes the task's directories and files and returns what the driver is to start.
func (t *Task) config() (*driver.TaskConfig, error) {
	a := t.alloc
	s, err := t.inputs()
	if err != nil {
		return nil, err
	}
	owner, err := ownerOf(t.spec.User)
	if err != nil {
		return nil, err
	}
	if err := a.Dir.MakeShared(t.owners()); err != nil {
		return nil, err
	}
	if err := a.Dir.Make(t.spec.Name, owner); err != nil {
		return nil, err
	}
	env, err := s.environment()
	if err != nil {
		return nil, err
	}
	if err := s.render(env, owner); err != nil {
		return nil, err
	}
	config := &driver.TaskConfig{
		ID: newRunID(a.ID, t.spec.Name), Name: t.spec.Name, AllocID: a.ID, JobID: t.job.ID, JobName: t.job.Name,
		TaskGroupName: t.group.Name, Namespace: t.job.Namespace, NodeName: t.host.Node.Name,
		Env: env, Resources: resources(t.spec.Resources, s.cores),
		User: t.spec.User, AllocDir: string(a.Dir), Persisted: true,
		Sampled: t.host.Config().Telemetry.PublishAllocationMetrics,
	}
	if err := s.configure(config, env); err != nil {
		return nil, err
	}
	if t.spec.Logs != nil && t.spec.Logs.Disabled {
		config.StdoutPath, config.StderrPath = os.DevNull, os.DevNull
	}
	return config, nil
}

// owners are those of the tasks of the allocation.
func (t *Task) owners() []*datadir.Owner {
	var owners []*datadir.Owner
	for i := range t.group.Tasks {
		owner, err := ownerOf(t.group.Tasks[i].User)
		if err != nil {
			owner = &datadir.Owner{UID: -1, GID: -1}
		}
		owners = append(owners, owner)
	}
	return owners
}

// configure decodes the task's config block into the driver's request, and refuses what the driver would not start.
func (s *start) configure(into *driver.TaskConfig, env map[string]string) error {
	task := s.task
	encoded, diags := driver.TaskSchema().Encode(s.expressions.Config(s.scope(env)))
	if diags.HasErrors() {
		return job.Mistakes(diags)
	}
	if err := driver.CheckSignal(task.KillSignal); err != nil {
		return task.Places.Fault("kill_signal", err)
	}
	block, err := driver.DecodeBlock(encoded)
	if err != nil {
		return task.Places.Fault("config", err)
	}
	if l := task.Logs; l != nil && block.MaxFiles == 0 && block.MaxFileBytes == 0 {
		block.MaxFiles, block.MaxFileBytes = l.MaxFiles, int64(l.MaxFileSizeMB)<<20
	}
	into.Block = block
	return nil
}

// resources are a task's limits in the kernel's terms. MHz are v1's shares, one for one, as hosts have it.
func resources(r job.Resources, cores string) *driver.Resources {
	return &driver.Resources{Linux: &driver.LinuxResources{
		CPUShares: int64(r.CPU), MemoryLimitBytes: r.MemoryLimitBytes(), CpusetCPUs: cores,
	}}
}

// coreList writes cores as 0-3,7.
func coreList(cores []int) string { return cgroup.FormatCPUs(slices.Sorted(slices.Values(cores))) }

// inputs are what a start of the task is made of. Its expressions are read from the job file once more, so that
// only a start holds them in memory.
func (t *Task) inputs() (*start, error) {
	a, name := t.alloc, t.spec.Name
	file, err := job.Read(t.job.Source)
	if err != nil {
		return nil, err
	}
	group := file.Group(a.Group)
	if group == nil || group.Task(name) == nil {
		return nil, fmt.Errorf("job %s has no task %s in group %s", a.JobID, name, a.Group)
	}
	spec := group.Task(name)
	return &start{
		job: file.Job, group: group, task: spec, expressions: file.Expressions(spec),
		allocID: a.ID, allocName: a.Name(), index: a.Index, dir: a.Dir, node: *a.host.NodeNow(),
		cores: coreList(a.persisted.Cores[name]), ports: a.persisted.Ports,
	}, nil
}

// ownerOf is whose a task's directories are; nil where the task runs as this process does.
func ownerOf(name string) (*datadir.Owner, error) {
	if name == "" {
		return nil, nil
	}
	uid, gid, err := driver.LookupUser(name)
	return &datadir.Owner{UID: int(uid), GID: int(gid)}, err
}

// progress is how far one task of an allocation is.
type progress struct {
	name      string
	lifecycle *job.Lifecycle
	leader    bool
	// launched tasks have a runner at work; started ones have run at least once.
	launched, started bool
	// stuck tasks run on although they were signaled to end.
	dead, failed, stuck bool
}

func (p *progress) hook() string {
	if p.lifecycle == nil {
		return ""
	}
	return p.lifecycle.Hook
}

// rank orders tasks by when they end, as on Nomad's clients: those of a rank do together, when those before are gone.
func (p *progress) rank() int { return rankOf(p.leader, p.lifecycle) }

const (
	leaderRank = iota
	mainRank   // with prestart and poststart tasks that are to end by themselves
	sidecarRank
	poststopRank // it begins when the others are gone
)

func rankOf(leader bool, l *job.Lifecycle) int {
	switch {
	case l != nil && l.Hook == job.HookPoststop:
		return poststopRank
	case leader:
		return leaderRank
	case l != nil && l.Sidecar:
		return sidecarRank
	}
	return mainRank
}

// ready reports whether the tasks that wait for a prestart task may begin.
func (p *progress) ready() bool {
	if p.lifecycle.Sidecar {
		return p.started
	}
	return p.dead && !p.failed
}

// steps is what has to be done for an allocation now.
type steps struct {
	launch []string
	// stop are launched tasks that must end, for the reason.
	stop   []string
	skip   []string // tasks that must end without having begun
	reason string
	// done is set when all tasks are dead.
	done bool
}

// plan decides what comes next:
//
//	prestart ──► main ──► poststart        each begins when the one before is ready
//	main dead, a task failed, the leader dead, or a stop ──► all others end ──► poststop
//
// Sidecars serve the others until these are gone, and are restarted until then. The others are told to end at once, so
// that none is started again; the turn of each to be signaled comes with [Task.turn].
func plan(tasks []progress, stopping string) steps {
	var s steps
	s.reason = endReason(tasks, stopping)
	ended := s.reason != ""
	prestartReady, mainsStarted, othersDead, allDead := true, true, true, true
	for i := range tasks {
		p := &tasks[i]
		switch hook := p.hook(); {
		case hook == job.HookPrestart && !p.ready():
			prestartReady = false
		case hook == "" && !p.started:
			mainsStarted = false
		}
		allDead = allDead && p.dead
		othersDead = othersDead && (p.dead || p.hook() == job.HookPoststop)
	}
	if s.done = allDead; s.done {
		return s
	}
	served := slices.ContainsFunc(tasks, func(p progress) bool {
		return p.rank() < sidecarRank && p.launched && !p.dead && !p.stuck
	})
	for i := range tasks {
		p := &tasks[i]
		switch {
		case p.dead:
		case p.hook() == job.HookPoststop:
			if !p.launched && othersDead {
				s.launch = append(s.launch, p.name)
			}
		case ended && p.launched && served && p.rank() == sidecarRank:
		case ended && p.launched:
			s.stop = append(s.stop, p.name)
		case ended:
			s.skip = append(s.skip, p.name)
		case !p.launched && mayBegin(p, prestartReady, mainsStarted):
			s.launch = append(s.launch, p.name)
		}
	}
	return s
}

// mayBegin reports whether a task may begin now. A task that ran before the agent was restarted may at once.
func mayBegin(p *progress, prestartReady, mainsStarted bool) bool {
	switch p.hook() {
	case "":
		return p.started || prestartReady
	case job.HookPoststart:
		return p.started || prestartReady && mainsStarted
	}
	return true
}

// endReason says why an allocation's tasks must end; empty if they need not.
func endReason(tasks []progress, stopping string) string {
	if stopping != "" {
		return stopping
	}
	mainsDead := true
	for i := range tasks {
		p := &tasks[i]
		switch {
		case p.failed && p.hook() != job.HookPoststop:
			return fmt.Sprintf("task %s failed", p.name)
		case p.leader && p.dead:
			return fmt.Sprintf("the leader %s has ended", p.name)
		}
		mainsDead = mainsDead && (p.hook() != "" || p.dead)
	}
	if mainsDead {
		return "the main tasks have ended"
	}
	return ""
}

// maxFaulty is how many tasks with mistakes are named when a job is checked.
const maxFaulty = 20

// Check does what starts of a job's tasks would do, and starts nothing. The error names the mistakes of all tasks.
func (h *Host) Check(ctx context.Context, file *job.File) error {
	var errs []error
	for _, g := range file.Groups {
		for _, t := range g.Tasks {
			err := job.EachMistake(h.checkTask(ctx, h.probe(file, g, t)), func(cause error) error {
				if _, hasPlace := errors.AsType[*hcl.Diagnostic](cause); hasPlace {
					return cause
				}
				return fmt.Errorf("task %s of group %s: %w", t.Name, g.Name, cause)
			})
			if err == nil {
				continue
			}
			if errs = append(errs, err); len(errs) == maxFaulty {
				return job.JoinMistakes(append(errs, errors.New("other tasks were not checked"))...)
			}
		}
	}
	return job.JoinMistakes(errs...)
}

// FirstPort and LastPort bound the ports that are chosen for allocations.
const (
	FirstPort = 20_000
	LastPort  = 32_000
)

// probe is a start of a task for an allocation that does not exist.
func (h *Host) probe(file *job.File, g *job.Group, t *job.Task) *start {
	const id = "00000000-0000-4000-8000-000000000000"
	ports := make(map[string]int, len(g.Ports))
	for _, p := range g.Ports {
		ports[p.Label] = cmp.Or(p.Value, FirstPort)
	}
	return &start{
		job: file.Job, group: g, task: t, expressions: file.Expressions(t), allocID: id,
		allocName: file.ID + "." + g.Name + "[0]", node: *h.NodeNow(), dir: datadir.In(h.Dir, id), ports: ports,
	}
}

// checkTask does what a start would do.
func (h *Host) checkTask(ctx context.Context, s *start) error {
	t := s.task
	other := CheckDriver(t.Driver)
	_, unknown := ownerOf(t.User)
	errs := []error{t.Places.Fault("driver", other), t.Places.Fault("user", unknown)}
	if wanted, there := t.Resources.Cores, len(h.Node.Resources.Cores); wanted > there {
		err := fmt.Errorf("requests %s; this machine has %d", procstats.Counted(wanted, "core", "cores"), there)
		errs = append(errs, t.Places.Fault("resources.cores", err))
	}
	env, err := s.environment()
	if err != nil {
		return job.JoinMistakes(append(errs, err)...) // the rest refers to it
	}
	errs = append(errs, s.checkTemplates(ctx, env))
	if other == nil {
		var config driver.TaskConfig
		err := s.configure(&config, env)
		if errs = append(errs, err); err == nil && unknown == nil {
			errs = append(errs, t.Places.Fault("user", h.Driver.CheckUser(t.User)),
				t.Places.Fault("config", h.Driver.CheckBlock(config.Block)))
		}
	}
	return job.JoinMistakes(errs...)
}
