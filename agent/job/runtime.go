// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Expressions are those of a task that have a value at a start only.
type Expressions struct {
	text   string
	vars   *hcl.EvalContext
	meter  *meter
	env    map[string]hclsyntax.Expression
	config hcl.Body
}

func (d *decoder) env(b *hclsyntax.Block, t *Task, x *Expressions) {
	d.noBlocks(b)
	for name, a := range b.Body.Attributes {
		d.variable(t, x, name, a.Expr)
	}
}

// variable is one variable of a task's environment.
func (d *decoder) variable(t *Task, x *Expressions, name string, expr hclsyntax.Expression) {
	text, ok := d.lenient(expr)
	if !ok {
		return
	}
	if t.Env == nil {
		t.Env = make(map[string]string)
	}
	t.Env[name], x.env[name] = text, expr
}

// config keeps the config block for the driver's schema, and what people see of it.
func (d *decoder) config(b *hclsyntax.Block, t *Task, x *Expressions) {
	x.config = b.Body
	t.Config = d.loose(b.Body, withLiterals(d.vars, d.text, b.Body))
}

// loose is a body as a tree, in which a repeated block is a list.
func (d *decoder) loose(body *hclsyntax.Body, vars *hcl.EvalContext) map[string]any {
	tree := make(map[string]any)
	for name, a := range body.Attributes {
		v, diags := a.Expr.Value(vars)
		if d.add(diags); diags.HasErrors() {
			continue
		}
		tree[name] = ctyjson.SimpleJSONValue{Value: v}
	}
	for _, b := range body.Blocks {
		inner := d.loose(b.Body, vars)
		for _, label := range slices.Backward(b.Labels) {
			inner = map[string]any{label: inner}
		}
		list, _ := tree[b.Type].([]any)
		tree[b.Type] = append(list, inner)
	}
	return tree
}

// Environment evaluates the env block with the variables of a start.
func (x *Expressions) Environment(start map[string]cty.Value) (map[string]string, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	env := make(map[string]string, len(x.env))
	nodes := make([]hclsyntax.Node, 0, len(x.env))
	for _, expr := range x.env {
		nodes = append(nodes, expr)
	}
	scope := withLiterals(x.scope(start), x.text, nodes...)
	for _, name := range slices.Sorted(maps.Keys(x.env)) { // so that mistakes are named in one order
		v, problems := x.env[name].Value(scope)
		if diags = append(diags, problems...); problems.HasErrors() {
			continue
		}
		if v, err := convert.Convert(v, cty.String); err == nil && !v.IsNull() && v.IsKnown() {
			env[name] = v.AsString()
		}
	}
	if exceeded := x.meter.exceeded(); exceeded != nil {
		diags = exceeded
	}
	return env, diags
}

// Config returns the config block, nil if there is none, and what its expressions may refer to at a start.
func (x *Expressions) Config(start map[string]cty.Value) (hcl.Body, *hcl.EvalContext) {
	scope := x.scope(start)
	if body, ok := x.config.(*hclsyntax.Body); ok {
		return x.config, withLiterals(scope, x.text, body)
	}
	return nil, scope
}

func (x *Expressions) scope(start map[string]cty.Value) *hcl.EvalContext {
	scope := x.vars.NewChild()
	scope.Variables = start
	return scope
}
