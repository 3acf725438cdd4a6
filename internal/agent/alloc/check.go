// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/procstats"
)

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
