// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tachograph/tacho/hook"
)

func (d *decoder) group(b *hclsyntax.Block, j *Job, rescheduled *hclsyntax.Block) *Group {
	g := &Group{Name: b.Labels[0], Count: 1, Restart: defaultRestart(j.Type), Reschedule: defaultReschedule(j.Type)}
	if rescheduled != nil {
		d.reschedule(&g.Reschedule)(rescheduled)
	}
	metaAttribute, metaBlock := d.meta(&g.Meta)
	var tasks []*hclsyntax.Block
	d.body("a group", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){"count": d.number(&g.Count, 0, MaxCount), "meta": metaAttribute},
		blocks: map[string]func(*hclsyntax.Block){
			"meta": metaBlock, "task": func(t *hclsyntax.Block) { tasks = append(tasks, t) },
			"restart":    func(r *hclsyntax.Block) { d.restart(r, &g.Restart) },
			"constraint": d.constraint(&g.Constraints), "network": d.network(g), "service": d.service, "update": d.update,
			"ephemeral_disk": d.ephemeralDisk(g), "reschedule": d.reschedule(&g.Reschedule),
			"scaling": d.scaling(b, g),
		},
		labelled: []string{"task"}, repeated: []string{"constraint"}, optional: []string{"service"},
		placed: []string{
			"affinity", "disconnect", "max_client_disconnect", "migrate", "prevent_reschedule_on_lost",
			"shutdown_delay", "spread", "stop_after_client_disconnect",
		},
		elsewhere: []string{"consul", "dynamic", "max_run_duration", "vault", "volume"},
	})
	if count, scaled := d.counts[g.Name]; scaled {
		g.Count = count
	}
	d.name(b.LabelRanges[0], "group", g.Name)
	if (j.Type == TypeSysbatch || j.Type == TypeSystem) && g.Count > 1 {
		d.errorf(b.TypeRange, "Invalid value", "a %s job runs once on a node: count must be 1", j.Type)
	}
	for _, t := range tasks {
		if g.Task(t.Labels[0]) != nil {
			d.errorf(t.LabelRanges[0], "Duplicate name", "duplicate task %q in group %q", t.Labels[0], g.Name)
			continue
		}
		g.Tasks = append(g.Tasks, d.task(t, j, g))
	}
	d.checkTasks(b, g)
	g.capLogs()
	return g
}

// checkTasks holds what tasks must be together.
func (d *decoder) checkTasks(b *hclsyntax.Block, g *Group) {
	d.need(len(g.Tasks) > 0, b.TypeRange, "the group", "task")
	leaders, mains := 0, 0
	for _, t := range g.Tasks {
		if t.Leader {
			leaders++
		}
		if t.Lifecycle == nil {
			mains++
		}
	}
	if leaders > 1 {
		d.errorf(b.TypeRange, "Invalid value", "only one task of a group can be its leader")
	}
	if mains == 0 && len(g.Tasks) > 0 {
		d.errorf(b.TypeRange, "Missing", "group %q has no main task: every task has a lifecycle block", g.Name)
	}
}

func defaultRestart(jobType string) Restart {
	r := Restart{Attempts: 2, Interval: 30 * time.Minute, Delay: 15 * time.Second, Mode: string(hook.RestartModeFail)}
	if jobType != TypeService && jobType != TypeSystem {
		r.Attempts, r.Interval = 3, 24*time.Hour
	}
	return r
}

// Policy is the restart policy of one of the job's tasks.
func (t *Task) Policy(jobType string) hook.RestartPolicy {
	policy := hook.RestartPolicy{
		Attempts: t.Restart.Attempts, Interval: t.Restart.Interval, Delay: t.Restart.Delay,
		Mode: hook.RestartMode(t.Restart.Mode), OnSuccess: jobType == TypeService || jobType == TypeSystem,
	}
	if t.Lifecycle != nil {
		policy.OnSuccess = t.Lifecycle.Sidecar
	}
	return policy
}

func (d *decoder) restart(b *hclsyntax.Block, r *Restart) {
	d.body("restart", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"attempts": d.number(&r.Attempts, 0, maxInt), "interval": d.duration(&r.Interval), "delay": d.duration(&r.Delay),
			"mode": d.word(&r.Mode, string(hook.RestartModeFail), string(hook.RestartModeDelay)),
		},
		elsewhere: []string{"render_templates"},
	})
	policy := (&Task{Restart: *r}).Policy(TypeService)
	if err := policy.Validate(); err != nil {
		d.errorf(b.TypeRange, "Invalid value", "restart: %s", err)
	}
}

func (d *decoder) task(b *hclsyntax.Block, j *Job, g *Group) *Task {
	t := &Task{
		Name: b.Labels[0], KillTimeout: 5 * time.Second, Resources: Resources{CPU: 100, MemoryMB: 300},
		Restart: g.Restart, Places: Places{}.With(b.Body),
	}
	// Without a config block what is missing in it is missing in the task.
	none := &hclsyntax.Body{SrcRange: b.TypeRange, EndRange: b.TypeRange}
	x := &Expressions{
		config: none, text: d.text, vars: d.vars, locals: d.locals, env: make(map[string]hclsyntax.Expression),
	}
	d.expressions[t] = x
	metaAttribute, metaBlock := d.meta(&t.Meta)
	envAttribute, envBlock := d.pairs(func(name string, expr hclsyntax.Expression) { d.variable(t, x, name, expr) })
	d.body("a task", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"driver": d.str(&t.Driver), "user": d.str(&t.User), "kill_timeout": d.duration(&t.KillTimeout),
			"kill_signal": d.str(&t.KillSignal), "leader": d.flag(&t.Leader), "meta": metaAttribute, "env": envAttribute,
		},
		blocks: map[string]func(*hclsyntax.Block){
			"config": func(c *hclsyntax.Block) { d.config(c, t, x) }, "meta": metaBlock,
			"env":        envBlock,
			"resources":  func(r *hclsyntax.Block) { d.resources(r, &t.Resources) },
			"restart":    func(r *hclsyntax.Block) { d.restart(r, &t.Restart) },
			"logs":       func(l *hclsyntax.Block) { d.logs(l, t) },
			"lifecycle":  func(l *hclsyntax.Block) { d.lifecycle(l, t) },
			"template":   func(x *hclsyntax.Block) { d.template(x, t) },
			"constraint": d.constraint(&t.Constraints), "service": d.service,
		},
		repeated: []string{"template", "constraint"}, optional: []string{"service"},
		placed: []string{"affinity", "scaling", "shutdown_delay"},
		elsewhere: []string{
			"action", "artifact", "consul", "csi_plugin", "dispatch_payload", "dynamic", "identity",
			"kind", "schedule", "secret", "vault", "volume_mount",
		},
	})
	d.name(b.LabelRanges[0], "task", t.Name)
	if t.Name == "alloc" || strings.HasPrefix(t.Name, ".") {
		d.errorf(b.LabelRanges[0], "Invalid name", "invalid task name %q: it is a directory of its group", t.Name)
	}
	d.need(t.Driver != "", b.TypeRange, "task \""+t.Name+"\"", "driver")
	own := t.Meta
	t.Meta = make(map[string]string)
	for _, layer := range []map[string]string{j.Meta, g.Meta, own} {
		maps.Copy(t.Meta, layer)
	}
	return t
}

func (d *decoder) resources(b *hclsyntax.Block, r *Resources) {
	var at hcl.Range
	d.body("resources", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"cpu":   func(a *hclsyntax.Attribute) { at = a.NameRange; d.number(&r.CPU, 1, maxInt)(a) },
			"cores": d.number(&r.Cores, 1, 1<<16), "memory": d.number(&r.MemoryMB, 10, maxInt),
			"memory_max": d.number(&r.MemoryMaxMB, -1, maxInt),
		},
		placed:    []string{"disk", "iops"},
		elsewhere: []string{"device", "network", "numa", "secrets"},
	})
	switch {
	case r.Cores > 0 && !at.Empty():
		d.errorf(at, "Invalid value", "resources: set cpu or cores, not both")
	case r.Cores > 0:
		r.CPU = 0
	}
	if r.MemoryMaxMB > 0 && r.MemoryMaxMB < r.MemoryMB {
		d.errorf(b.TypeRange, "Invalid value", "memory_max (%d) is less than memory (%d)", r.MemoryMaxMB, r.MemoryMB)
	}
}

func (d *decoder) logs(b *hclsyntax.Block, t *Task) {
	t.Logs = &Logs{MaxFiles: 10, MaxFileSizeMB: 10}
	d.body("logs", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"max_files": d.number(&t.Logs.MaxFiles, 1, 1000), "max_file_size": d.number(&t.Logs.MaxFileSizeMB, 1, 1<<20),
			"disabled": d.flag(&t.Logs.Disabled),
		},
		elsewhere: []string{"enabled"},
	})
}

func (d *decoder) lifecycle(b *hclsyntax.Block, t *Task) {
	t.Lifecycle = new(Lifecycle)
	d.body("lifecycle", b.Body, fields{attributes: map[string]func(*hclsyntax.Attribute){
		"hook": d.word(&t.Lifecycle.Hook, HookPrestart, HookPoststart, HookPoststop), "sidecar": d.flag(&t.Lifecycle.Sidecar),
	}})
	d.need(t.Lifecycle.Hook != "", b.TypeRange, "lifecycle", "hook")
	if t.Lifecycle.Hook == HookPoststop && t.Lifecycle.Sidecar {
		d.errorf(b.TypeRange, "Invalid value", "a poststop task cannot be a sidecar: the main tasks have ended")
	}
}
