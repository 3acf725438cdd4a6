// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/procstats"
)

// taskSample is a task with one reading of it.
type taskSample struct {
	config    *TaskConfig
	sample    *procstats.Sample
	startedAt time.Time
}

// families are the tasks' metrics, under the names that the agent has for them. What is absent has no sample.
func families(tasks []taskSample) []exposition.Family {
	slices.SortFunc(tasks, func(a, b taskSample) int { return cmp.Compare(a.config.ID, b.config.ID) })
	headlines := make([][]procstats.HeadlineValue, len(tasks))
	labels := make([]*exposition.Labels, len(tasks))
	for i, t := range tasks {
		headlines[i] = procstats.Headlines(t.sample, procstats.History{Elapsed: t.sample.Wall.Sub(t.startedAt)})
		labels[i] = labelsOf(t.config)
	}
	missing, usual := exposition.AbsentFamily(), procstats.DefaultSelection()
	for i, t := range tasks {
		missing.AddAbsent(labels[i], t.sample, usual)
	}
	all := []exposition.Family{missing}
	for _, m := range procstats.Table() {
		name, ok := exposition.Name(m)
		if !ok {
			continue
		}
		f := exposition.Family{Name: name, Help: m.Help}
		if m.Kind == procstats.Counter {
			f.Type = exposition.Counter
		}
		for i, t := range tasks {
			if value, ok := valueOf(t.sample, headlines[i], m); ok {
				f.Add(labels[i], value)
			}
		}
		all = append(all, f)
	}
	return all
}

func valueOf(s *procstats.Sample, headlines []procstats.HeadlineValue, m procstats.Measurement) (float64, bool) {
	if m.Scope != procstats.HeadlineScope {
		return s.Task.Number(m.ID)
	}
	for _, h := range headlines {
		if h.ID == m.ID {
			return h.Reading.Number()
		}
	}
	return 0, false
}

func labelsOf(c *TaskConfig) *exposition.Labels {
	return exposition.NewLabels("alloc_id", c.AllocID, "job", c.JobName, "namespace", c.Namespace, "task", c.Name,
		"task_group", c.TaskGroupName)
}
