// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

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
	after := text
	for _, s := range sizes {
		if s.Cores == 0 {
			err = errors.Join(err, s.set(&after, &notes, name, "cpu", s.CPU.Advised, s.CPU.Requested))
		}
		most := s.MemoryMax
		if advised := s.Memory.Advised; most == nil && advised != nil && 0 < s.RequestedMax && s.RequestedMax < *advised {
			most = advised // which memory_max may not be below
		}
		if err = cmp.Or(err, s.set(&after, &notes, name, "memory", s.Memory.Advised, s.Memory.Requested),
			s.set(&after, &notes, name, "memory_max", most, s.RequestedMax)); err != nil {
			return "", notes, err
		}
	}
	return difference(name, text, after), notes, nil
}

// find returns the first block of a type, with the labels; nil if there is none.
func find(in *hclsyntax.Body, name string, labels ...string) *hclsyntax.Block {
	for _, block := range in.Blocks {
		if block.Type == name && slices.Equal(block.Labels, labels) {
			return block
		}
	}
	return nil
}

// resources returns the block of a task, to which its file gets one if add is set; nil if it has none.
func (s *Size) resources(text *string, file string, add bool) (task, resources *hclsyntax.Block, err error) {
	parsed, problems := hclsyntax.ParseConfig([]byte(*text), file, hcl.InitialPos)
	if problems.HasErrors() {
		return nil, nil, problems
	}
	for _, job := range parsed.Body.(*hclsyntax.Body).Blocks { //nolint:forcetypeassert // it is what ParseConfig returns
		if job.Type != "job" {
			continue
		}
		group := cmp.Or(find(job.Body, "group", s.Group), job) // a task can stand in the job
		if task = find(group.Body, "task", s.Task); task != nil {
			break
		}
	}
	if task == nil {
		return nil, nil, nil
	}
	if resources = find(task.Body, "resources"); resources == nil && add {
		if err = addLine(text, task, "resources {", "}"); err == nil {
			return s.resources(text, file, false)
		}
	}
	return task, resources, err
}

// set sets one of the resources of a task, unless the file computes it.
func (s *Size) set(text *string, notes *[]string, file, name string, advised *int64, requested int64) error {
	if advised == nil || *advised == requested {
		return nil
	}
	task, block, err := s.resources(text, file, true)
	if task == nil && err == nil {
		note := fmt.Sprintf("%s has no block of the task %s/%s; it may be dynamic", file, s.Group, s.Task)
		if !slices.Contains(*notes, note) {
			*notes = append(*notes, note)
		}
	}
	if block == nil || err != nil {
		return err
	}
	value := strconv.FormatInt(*advised, 10)
	before := block.Body.Attributes[name]
	switch {
	case before == nil:
		err = addLine(text, block, name+" = "+value)
	case len(before.Expr.Variables()) > 0:
		*notes = append(*notes, fmt.Sprintf("task %s/%s: %s is computed; it should be %d", s.Group, s.Task, name, *advised))
		return nil
	default:
		at := before.Expr.Range()
		*text = (*text)[:at.Start.Byte] + value + (*text)[at.End.Byte:]
	}
	if err == nil {
		if _, block, err = s.resources(text, file, false); err == nil {
			align(text, block.Body)
		}
	}
	return err
}

// addLine adds lines at the end of a block.
func addLine(text *string, to *hclsyntax.Block, lines ...string) error {
	end := to.CloseBraceRange.Start
	if to.OpenBraceRange.Start.Line == end.Line {
		return errors.New("its resources stand in one line, to which nothing can be added")
	}
	brace := strings.LastIndexByte((*text)[:end.Byte], '\n') + 1
	indent := "\n" + (*text)[brace:end.Byte] + "  "
	*text = (*text)[:brace] + (indent + strings.Join(lines, indent) + "\n")[1:] + (*text)[brace:]
	return nil
}

// align aligns the values of attributes as hclfmt does.
func align(text *string, body *hclsyntax.Body) {
	widest, lines := 0, strings.Split(*text, "\n")
	for name := range body.Attributes {
		widest = max(widest, len(name))
	}
	for _, a := range body.Attributes {
		line := &lines[a.NameRange.Start.Line-1]
		name, value, _ := strings.Cut(*line, "=")
		*line = strings.TrimRight(name, " ") + strings.Repeat(" ", widest-len(a.Name)) + " =" + value
	}
	*text = strings.Join(lines, "\n")
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
