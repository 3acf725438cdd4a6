// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/tachograph/tacho/internal/agent/client"
)

// source returns the file of a job, as it was sent to Nomad.
func (c *Cluster) source(ctx context.Context, t *Task) (text string, err error) {
	path := client.Path("v1", "job", t.Job, "submission")
	source, err := client.Get[struct{ Source, Format string }](ctx, c.Client, path,
		"version", strconv.FormatUint(t.Version, 10), "namespace", t.Namespace)
	if err == nil && source.Value.Format != "hcl2" {
		err = fmt.Errorf("its file is %s, not HCL", source.Value.Format)
	}
	return source.Value.Source, err
}

// Patch returns the change of a job's file that gives its tasks what is advised, as a unified diff, empty if nothing
// changes. The notes say what is left to the reader.
func (c *Cluster) Patch(ctx context.Context, tasks []*Task, sizes []*Size) (diff string, notes []string) {
	text, err := c.source(ctx, tasks[0])
	if err == nil {
		diff, notes, err = patch(tasks[0].Job+".nomad.hcl", text, sizes)
	}
	if err != nil {
		notes = append(notes, fmt.Sprintf("job %s: Nomad's copy of its file: %v", tasks[0].Job, c.explain(err)))
	}
	return diff, notes
}

func patch(name, text string, sizes []*Size) (diff string, notes []string, err error) {
	file, problems := hclwrite.ParseConfig([]byte(text), name, hcl.InitialPos)
	if problems.HasErrors() {
		return "", nil, problems
	}
	for _, s := range sizes {
		for _, job := range file.Body().Blocks() {
			if job.Type() != "job" {
				continue
			}
			group := job.Body().FirstMatchingBlock("group", []string{s.Group})
			if group == nil {
				group = job // a task can stand in the job
			}
			task := group.Body().FirstMatchingBlock("task", []string{s.Task})
			if task == nil {
				notes = append(notes, fmt.Sprintf("%s has no block of the task %s/%s; it may be dynamic", name, s.Group, s.Task))
				continue
			}
			notes = append(notes, s.set(task.Body())...)
		}
	}
	if _, problems := hclwrite.ParseConfig(file.Bytes(), name, hcl.InitialPos); problems.HasErrors() {
		return "", notes, errors.New("its resources stand in one line, to which nothing can be added")
	}
	return difference(name, text, string(file.Bytes())), notes, nil
}

// set sets the resources in the block of a task, except those that the file computes.
func (s *Size) set(task *hclwrite.Body) (notes []string) {
	set := func(name string, advised *int64, requested int64) {
		if advised == nil || *advised == requested {
			return
		}
		block := task.FirstMatchingBlock("resources", nil)
		if block == nil {
			block = task.AppendNewBlock("resources", nil)
		}
		before := block.Body().GetAttribute(name)
		if before != nil && len(before.Expr().Variables()) > 0 {
			notes = append(notes, fmt.Sprintf("task %s/%s: %s is computed; it should be %d", s.Group, s.Task, name, *advised))
			return
		}
		block.Body().SetAttributeValue(name, cty.NumberIntVal(*advised))
	}
	if s.Cores == 0 {
		set("cpu", s.CPU.Advised, s.CPU.Requested)
	}
	set("memory", s.Memory.Advised, s.Memory.Requested)
	most := s.MemoryMax
	if advised := s.Memory.Advised; most == nil && advised != nil && 0 < s.RequestedMax && s.RequestedMax < *advised {
		most = advised // which memory_max may not be below
	}
	set("memory_max", most, s.RequestedMax)
	return notes
}

// difference returns a unified diff with all lines of the file: job files are short. Lines are changed or added.
func difference(name, before, after string) string {
	if before == after {
		return ""
	}
	split := func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
	old, now := split(before), split(after)
	var b strings.Builder
	fmt.Fprintf(&b, "--- a/%[1]s\n+++ b/%[1]s\n@@ -1,%[2]d +1,%[3]d @@\n", name, len(old), len(now))
	for added := len(now) - len(old); len(now) > 0; {
		switch {
		case len(old) > 0 && old[0] == now[0]:
			b.WriteString(" " + now[0] + "\n")
			old = old[1:]
		case len(old) > 0 && (added == 0 || len(now) > 1 && len(old) > 1 && now[1] == old[1]):
			b.WriteString("-" + old[0] + "\n+" + now[0] + "\n")
			old = old[1:]
		default:
			b.WriteString("+" + now[0] + "\n")
			added--
		}
		now = now[1:]
	}
	return b.String()
}
