// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const (
	// MaxCount bounds how many allocations a job can ask for, and each of its groups.
	MaxCount = 10_000
	// maxTasks bounds the tasks of a job, of all its groups together.
	maxTasks = 1000
	maxName  = 128
	// maxInt bounds numbers that no machine reaches.
	maxInt = 1 << 30
)

// File is a job file that was read: its job, and the expressions that are evaluated at a start.
type File struct {
	*Job
	expressions map[*Task]*Expressions
}

// Expressions returns those of one of the job's tasks.
func (f *File) Expressions(t *Task) *Expressions { return f.expressions[t] }

// Read reads a job file. The error names every mistake, a line each, with file, line and column.
func Read(source Source) (*File, error) {
	f, diags := read(source)
	if diags.HasErrors() {
		return nil, Mistakes(diags)
	}
	return f, nil
}

func read(source Source) (*File, hcl.Diagnostics) {
	if diags := checkText([]byte(source.Text), source.Filename); diags != nil {
		return nil, diags
	}
	size := len(source.Text)
	for _, value := range source.Variables {
		size += len(value)
	}
	if size > MaxSource {
		return nil, tooLarge(startOf(source.Filename), fmt.Sprintf(
			"%d bytes with the values of its variables; a job can have %d: let tasks read large data from files",
			size, MaxSource))
	}
	file, diags := hclsyntax.ParseConfig([]byte(source.Text), source.Filename, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Not native syntax"}}
	}
	d := &decoder{
		text: source.Text, counts: source.Counts, expressions: make(map[*Task]*Expressions),
		deferred: make(map[string]hclsyntax.Expression),
	}
	j := d.file(body, source)
	if d.diags.HasErrors() {
		return nil, d.diags
	}
	return &File{Job: j, expressions: d.expressions}, nil
}

// file reads the top of a job file: inputs first, then the job that refers to them.
func (d *decoder) file(body *hclsyntax.Body, source Source) *Job {
	if d.inputs(body, source); d.diags.HasErrors() {
		return nil // errors in the job may follow from these
	}
	var j *Job
	ignore := func(*hclsyntax.Block) {}
	d.body("a job file", body, fields{
		blocks: map[string]func(*hclsyntax.Block){
			"job": func(b *hclsyntax.Block) {
				if j != nil {
					d.errorf(b.TypeRange, "Duplicate block", "a job file must have exactly one job")
					return
				}
				j = d.job(b)
			},
			"variable": ignore, "locals": ignore,
		},
		labelled: []string{"job", "variable"}, repeated: []string{"locals"},
		elsewhere: []string{"variables"},
	})
	if j == nil {
		d.need(d.diags.HasErrors(), startOf(source.Filename), "the file", "job \"NAME\" { … }")
		return nil
	}
	j.Source = source
	return j
}

func (d *decoder) job(b *hclsyntax.Block) *Job {
	j := &Job{
		Places: Places{}.With(b.Body), ID: b.Labels[0], Name: b.Labels[0], Namespace: "default",
		Region: "global", Type: TypeService, Priority: 50, Datacenters: []string{"*"},
	}
	metaAttribute, metaBlock := d.meta(&j.Meta)
	var groups []*hclsyntax.Block
	var rescheduled *hclsyntax.Block
	d.body("a job", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"id": d.str(&j.ID), "name": d.str(&j.Name), "namespace": d.str(&j.Namespace), "region": d.str(&j.Region),
			"type": d.word(&j.Type, TypeService, TypeBatch, TypeSystem, TypeSysbatch), "priority": d.number(&j.Priority, 1, 100),
			"datacenters": d.list(&j.Datacenters), "meta": metaAttribute,
		},
		blocks: map[string]func(*hclsyntax.Block){
			"meta": metaBlock, "group": func(g *hclsyntax.Block) { groups = append(groups, g) },
			"task":       func(t *hclsyntax.Block) { groups = append(groups, implicitGroup(t)) },
			"constraint": d.constraint(&j.Constraints), "update": d.update,
			"reschedule": func(r *hclsyntax.Block) { rescheduled = r },
		},
		labelled: []string{"group", "task"}, repeated: []string{"constraint"},
		placed: []string{"affinity", "all_at_once", "migrate", "node_pool", "spread", "ui", "version_tag"},
		elsewhere: []string{
			"consul", "consul_token", "multiregion", "parameterized", "periodic", "vault", "vault_token", "dynamic",
		},
	})
	d.identifier(b.LabelRanges[0], "job", j.ID)
	for _, g := range groups {
		if j.Group(g.Labels[0]) != nil {
			d.errorf(g.LabelRanges[0], "Duplicate name", "duplicate group %q", g.Labels[0])
			continue
		}
		j.Groups = append(j.Groups, d.group(g, j, rescheduled))
	}
	d.need(len(groups) > 0, b.TypeRange, "the job", "group")
	d.checkSize(b, j)
	j.Notes = d.notes()
	for _, g := range j.Groups {
		g.Digest = digest(j, g)
	}
	return j
}

// checkSize refuses jobs that no machine runs.
func (d *decoder) checkSize(b *hclsyntax.Block, j *Job) {
	tasks, count := 0, 0
	for _, g := range j.Groups {
		tasks, count = tasks+len(g.Tasks), count+g.Count
	}
	if tasks > maxTasks {
		d.errorf(b.TypeRange, "Too large", "%d tasks in all groups together; a job can have %d: split it", tasks, maxTasks)
	}
	if count > MaxCount {
		d.errorf(b.TypeRange, "Too large",
			"the counts of all groups come to %d; a job can have %d allocations: split it", count, MaxCount)
	}
}

// identifier checks the id of a job, which stands in addresses and messages.
func (d *decoder) identifier(at hcl.Range, what, id string) {
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f }
	if d.utf8(at, what, id); id == "" || len(id) > maxName || strings.ContainsFunc(id, bad) {
		d.errorf(at, "Invalid name", "the id of a %s must have 1 to %d characters without spaces", what, maxName)
	}
	if slices.Contains([]string{".", "..", "/"}, id) { // RFC 3986, 5.2.4
		d.errorf(at, "Invalid name", "the id of a %s must not be %q: no address can have it in its path", what, id)
	}
}

// name checks the name of a group or a task, which stands in the names of directories and files.
func (d *decoder) name(at hcl.Range, what, name string) {
	bad := func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' }
	if d.utf8(at, what, name); name == "" || len(name) > maxName || name == "." || name == ".." ||
		strings.ContainsFunc(name, bad) {
		d.errorf(at, "Invalid name", "the name of a %s must have 1 to %d characters and no slash", what, maxName)
	}
}

// utf8 rejects a name that was not UTF-8: JSON has U+FFFD in place of such bytes, and different names become one.
func (d *decoder) utf8(at hcl.Range, what, name string) {
	if strings.ContainsRune(name, utf8.RuneError) {
		d.errorf(at, "Invalid name", "the name %q of a %s must be UTF-8, without U+FFFD", name, what)
	}
}

// digest sums up what a group's allocations run; how many there are of them, and when they are replaced, is not part
// of it.
func digest(j *Job, g *Group) string {
	one := *g
	one.Count, one.Reschedule = 0, Reschedule{}
	one.Ports = slices.Clone(g.Ports)
	slices.SortFunc(one.Ports, func(a, b *Port) int { return strings.Compare(a.Label, b.Label) })
	text, err := json.Marshal(struct {
		Type, Namespace string
		Meta            map[string]string
		Group           *Group
	}{j.Type, j.Namespace, j.Meta, &one})
	if err != nil {
		return "" // a value without JSON: equal to nothing
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Same reports whether two jobs come to the same: what runs, how much of it, where, and when it is replaced. What has
// no effect here is not part of it.
func (j *Job) Same(o *Job) bool {
	own, err := json.Marshal(j.essence())
	if err != nil {
		return false
	}
	others, err := json.Marshal(o.essence())
	return err == nil && string(own) == string(others)
}

// essence is what two jobs that are the same have in common; nil of a job with values that cannot be compared.
func (j *Job) essence() any {
	type group struct {
		Name, Digest string
		Count        int
		Reschedule   Reschedule
	}
	groups := make([]group, len(j.Groups))
	for i, g := range j.Groups {
		groups[i] = group{g.Name, g.Digest, g.Count, g.Reschedule}
	}
	one := *j
	one.Groups, one.Notes = nil, nil
	return struct {
		Job    Job
		Groups []group
	}{one, groups}
}
