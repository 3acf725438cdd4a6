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
	"github.com/rogpeppe/go-internal/diff"

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
	name := NameOf(tasks[0].Job, tasks[0].Namespace)
	text, err := c.source(ctx, tasks[0])
	if err == nil {
		diff, notes, err = patch(name+".nomad.hcl", text, sizes)
	}
	if err != nil {
		notes = append(notes, fmt.Sprintf("job %s: Nomad's copy of its file: %v", name, c.explain(err)))
	}
	return diff, notes
}

func patch(name, text string, sizes []*Size) (change string, notes []string, err error) {
	f := jobFile{name: name, text: text}
	for _, s := range sizes {
		most := s.MemoryMax
		if advised := s.Memory.Advised; most == nil && advised != nil && 0 < s.RequestedMax && s.RequestedMax < *advised {
			most = advised // which memory_max may not be below
		}
		if s.Cores == 0 {
			err = f.set(s, "cpu", s.CPU.Advised, s.CPU.Requested)
		}
		err = cmp.Or(err, f.set(s, "memory", s.Memory.Advised, s.Memory.Requested),
			f.set(s, "memory_max", most, s.RequestedMax))
		if err != nil {
			return "", f.notes, err
		}
	}
	return string(diff.Diff("a/"+name, []byte(text), "b/"+name, []byte(f.text))), f.notes, nil
}

// jobFile is a job's file while the resources of its tasks are set, and what is left to the reader.
type jobFile struct {
	name, text string
	notes      []string
}

// blocks returns the block of a task and that of its resources; nil where the file has none.
func (f *jobFile) blocks(of *Size) (task, resources *hclsyntax.Block, err error) {
	parsed, problems := hclsyntax.ParseConfig([]byte(f.text), f.name, hcl.InitialPos)
	if problems.HasErrors() {
		return nil, nil, problems
	}
	for _, job := range parsed.Body.(*hclsyntax.Body).Blocks { //nolint:forcetypeassert // it is what ParseConfig returns
		if job.Type != "job" {
			continue
		}
		group := cmp.Or(find(job.Body, "group", of.Group), job) // a task can stand in the job
		if task = find(group.Body, "task", of.Task); task != nil {
			return task, find(task.Body, "resources"), nil
		}
	}
	return nil, nil, nil
}

// find returns the first block of a type, with the labels; nil without such a block.
func find(in *hclsyntax.Body, name string, labels ...string) *hclsyntax.Block {
	for _, block := range in.Blocks {
		if block.Type == name && slices.Equal(block.Labels, labels) {
			return block
		}
	}
	return nil
}

// set sets one of the resources of a task, unless the file computes it.
func (f *jobFile) set(s *Size, name string, advised *int64, requested int64) error {
	if advised == nil || *advised == requested {
		return nil
	}
	task, block, err := f.blocks(s)
	if err != nil {
		return err
	}
	if task == nil {
		note := fmt.Sprintf("%s has no block of the task %s/%s; it may be dynamic", f.name, s.Group, s.Task)
		if !slices.Contains(f.notes, note) {
			f.notes = append(f.notes, note)
		}
		return nil
	}
	if block == nil {
		if err := f.addLines(task, "resources {", "}"); err != nil {
			return err
		}
		if _, block, err = f.blocks(s); err != nil {
			return err
		}
	}
	value := strconv.FormatInt(*advised, 10)
	if before := block.Body.Attributes[name]; before == nil {
		err = f.addLines(block, name+" = "+value)
	} else if len(before.Expr.Variables()) > 0 {
		f.notes = append(f.notes, fmt.Sprintf("task %s/%s: %s is computed; it should be %d", s.Group, s.Task, name, *advised))
		return nil
	} else {
		at := before.Expr.Range()
		f.text = f.text[:at.Start.Byte] + value + f.text[at.End.Byte:]
	}
	return cmp.Or(err, f.align(s))
}

// addLines adds lines at the end of a block.
func (f *jobFile) addLines(to *hclsyntax.Block, lines ...string) error {
	end := to.CloseBraceRange.Start
	if to.OpenBraceRange.Start.Line == end.Line {
		return errors.New("its resources stand in one line, to which nothing can be added")
	}
	brace := strings.LastIndexByte(f.text[:end.Byte], '\n') + 1
	indent := "\n" + f.text[brace:end.Byte] + "  "
	f.text = f.text[:brace] + (indent + strings.Join(lines, indent) + "\n")[1:] + f.text[brace:]
	return nil
}

// align aligns the values of a task's resources as hclfmt does.
func (f *jobFile) align(s *Size) error {
	_, block, err := f.blocks(s)
	if err != nil {
		return err
	}
	widest, lines := 0, strings.Split(f.text, "\n")
	for name := range block.Body.Attributes {
		widest = max(widest, len(name))
	}
	for _, a := range block.Body.Attributes {
		line := &lines[a.NameRange.Start.Line-1]
		name, value, _ := strings.Cut(*line, "=")
		*line = strings.TrimRight(name, " ") + strings.Repeat(" ", widest-len(a.Name)) + " =" + value
	}
	f.text = strings.Join(lines, "\n")
	return nil
}
