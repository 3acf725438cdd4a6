// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tachograph/tacho/agent/places"
	"github.com/tachograph/tacho/errlist"
)

const (
	// MaxSource bounds the text of a job file in bytes.
	MaxSource = 1 << 20
	// maxCount bounds how many allocations a group can ask for.
	maxCount = 10_000
	maxName  = 128
	// maxInt bounds numbers that no machine reaches.
	maxInt = 1 << 30
)

// Parse reads a job file. The error names every mistake, a line each, with file, line and column.
func Parse(source Source) (*Job, error) {
	j, diags := parse(source)
	if diags.HasErrors() {
		return nil, errlist.Join(diags.Errs()...)
	}
	return j, nil
}

func parse(source Source) (*Job, hcl.Diagnostics) {
	if len(source.Text) > MaxSource {
		return nil, hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Too long", Detail: "a job file has at most 1 MiB",
			Subject: &hcl.Range{Filename: source.Filename, Start: hcl.InitialPos, End: hcl.InitialPos},
		}}
	}
	file, diags := hclsyntax.ParseConfig([]byte(source.Text), source.Filename, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Not native syntax"}}
	}
	d := &decoder{text: source.Text, results: results{left: maxResults}}
	j := d.file(body, source)
	d.results.read = true
	if d.diags.HasErrors() {
		return nil, d.diags
	}
	return j, nil
}

// file reads the top of a job file: inputs first, then the job that refers to them.
func (d *decoder) file(body *hclsyntax.Body, source Source) *Job {
	d.inputs(body, source)
	if !d.affordAll(body) {
		return nil
	}
	var j *Job
	ignore := func(*hclsyntax.Block) {}
	d.body("a job file", body, fields{
		blocks: map[string]func(*hclsyntax.Block){
			"job": func(b *hclsyntax.Block) {
				if j != nil {
					d.complain(b.TypeRange, "Duplicate block", "a job file has one job")
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
		at := hcl.Range{Filename: source.Filename, Start: hcl.InitialPos, End: hcl.InitialPos}
		d.need(d.diags.HasErrors(), at, "the file", "job \"NAME\" { … }")
		return nil
	}
	j.Source = source
	return j
}

func (d *decoder) job(b *hclsyntax.Block) *Job {
	j := &Job{
		Places: places.Places{}.With(b.Body), ID: b.Labels[0], Name: b.Labels[0], Namespace: "default", Region: "global", Type: TypeService, Priority: 50,
		Datacenters: []string{"*"},
	}
	metaAttribute, metaBlock := d.pairs(&j.Meta)
	var groups []*hclsyntax.Block
	d.body("a job", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"id": d.str(&j.ID), "name": d.str(&j.Name), "namespace": d.str(&j.Namespace), "region": d.str(&j.Region),
			"type": d.word(&j.Type, TypeService, TypeBatch, TypeSysbatch), "priority": d.number(&j.Priority, 1, 100),
			"datacenters": d.list(&j.Datacenters), "meta": metaAttribute,
		},
		blocks: map[string]func(*hclsyntax.Block){
			"meta": metaBlock, "group": func(g *hclsyntax.Block) { groups = append(groups, g) },
		},
		labelled: []string{"group"},
		elsewhere: []string{
			"affinity", "all_at_once", "constraint", "consul", "consul_token", "migrate", "multiregion", "node_pool",
			"parameterized", "periodic", "reschedule", "spread", "task", "ui", "update", "vault", "vault_token",
			"version_tag", "dynamic",
		},
	})
	d.identifier(b.LabelRanges[0], "job", j.ID)
	for _, g := range groups {
		if j.Group(g.Labels[0]) != nil {
			d.complain(g.LabelRanges[0], "Duplicate name", "there are two groups %q", g.Labels[0])
			continue
		}
		j.Groups = append(j.Groups, d.group(g, j))
	}
	d.need(len(groups) > 0, b.TypeRange, "the job", "group")
	for _, g := range j.Groups {
		g.Digest = digest(j, g)
	}
	return j
}

// identifier checks the id of a job, which stands in addresses and messages.
func (d *decoder) identifier(at hcl.Range, what, id string) {
	if id == "" || len(id) > maxName || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		d.complain(at, "Wrong name", "the id of a %s has 1 to %d characters without spaces", what, maxName)
	}
}

// name checks the name of a group or a task, which stands in the names of folders and files.
func (d *decoder) name(at hcl.Range, what, name string) {
	bad := func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' }
	if name == "" || len(name) > maxName || name == "." || name == ".." || strings.ContainsFunc(name, bad) {
		d.complain(at, "Wrong name", "the name of a %s has 1 to %d characters and no slash", what, maxName)
	}
}

// digest sums up what a group's allocations run; how many there are of them is not part of it.
func digest(j *Job, g *Group) string {
	one := *g
	one.Count = 0
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
