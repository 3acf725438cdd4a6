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

// Expressions are the expressions of a task that have a value only at a start.
type Expressions struct {
	text   string
	vars   *hcl.EvalContext
	env    map[string]hclsyntax.Expression
	config hcl.Body
	// locals are those of the file in the order of evaluation; nil if all of them have a value without a start.
	locals []localValue
}

// localValue is a local that may refer to what only a start knows.
type localValue struct {
	name string
	expr hclsyntax.Expression
}

// variable reads one variable of a task's environment.
func (d *decoder) variable(t *Task, x *Expressions, name string, expr hclsyntax.Expression) {
	text, ok := d.lenient(expr)
	if !ok {
		return
	}
	if t.Env == nil {
		t.Env = make(map[string]string)
	}
	shown, err := convert.Convert(d.shown(expr, cty.StringVal(text)), cty.String)
	if err == nil && !shown.IsNull() && shown.IsKnown() {
		text = shown.AsString()
	}
	t.Env[name], x.env[name] = text, expr
}

// config stores the config block for the driver's schema, and what the API shows of it.
func (d *decoder) config(b *hclsyntax.Block, t *Task, x *Expressions) {
	x.config = b.Body
	t.Config = d.loose(b.Body)
}

// loose returns a body as a tree, in which a repeated block is a list.
func (d *decoder) loose(body *hclsyntax.Body) map[string]any {
	tree := make(map[string]any)
	for name, a := range body.Attributes {
		v, diags := a.Expr.Value(withLiterals(d.vars, d.text, a.Expr))
		if d.add(diags); diags.HasErrors() || v.IsNull() {
			continue
		}
		tree[name] = ctyjson.SimpleJSONValue{Value: d.shown(a.Expr, v)}
	}
	for _, b := range body.Blocks {
		inner := d.loose(b.Body)
		for _, label := range slices.Backward(b.Labels) {
			inner = map[string]any{label: inner}
		}
		list, _ := tree[b.Type].([]any)
		tree[b.Type] = append(list, inner)
	}
	return tree
}

// Environment evaluates the env block with the variables of a start. A variable may refer to others of the block, and
// by its own name to the value that it replaces. Unknown names stay as they are, as in Nomad: programs may expand
// them.
func (x *Expressions) Environment(start map[string]cty.Value) (map[string]string, hcl.Diagnostics) {
	e := &environment{x: x, scope: x.scope(maps.Clone(start)), values: make(map[string]string, len(x.env))}
	for _, name := range slices.Sorted(maps.Keys(x.env)) { // so that mistakes are named in one order
		e.evaluate(name, nil)
	}
	return e.values, e.diags
}

// environment is an env block while it is evaluated.
type environment struct {
	x      *Expressions
	scope  *hcl.EvalContext
	values map[string]string
	seen   []string
	diags  hcl.Diagnostics
}

// evaluate gives a variable its value, after those that it refers to. within are the variables that are being
// evaluated.
func (e *environment) evaluate(name string, within []string) {
	expr := e.x.env[name]
	if expr == nil || slices.Contains(e.seen, name) || slices.Contains(within, name) {
		return
	}
	visitNames(expr, func(reference *hclsyntax.ScopeTraversalExpr) {
		e.evaluate(reference.Traversal.RootName(), append(within, name))
	})
	e.seen = append(e.seen, name)
	v, problems := expr.Value(withLiterals(e.scope, e.x.text, expr))
	if e.diags = append(e.diags, problems...); problems.HasErrors() {
		return
	}
	if v, err := convert.Convert(v, cty.String); err == nil && !v.IsNull() && v.IsKnown() {
		e.values[name] = v.AsString()
		if !slices.Contains(reserved(), name) {
			e.scope.Variables[name] = v
		}
	}
}

// reserved returns the names in expressions that are not variables of the environment.
func reserved() []string {
	return []string{"var", "local", "env", "attr", "node", "meta", "each", "count"}
}

// IsVariable reports whether expressions can refer to a variable of the environment by its name.
func IsVariable(name string) bool {
	return hclsyntax.ValidIdentifier(name) && !slices.Contains(reserved(), name)
}

// Config returns the config block, or an empty body, and the variables for its expressions at a start.
func (x *Expressions) Config(start map[string]cty.Value) (hcl.Body, *hcl.EvalContext) {
	return x.config, x.scope(maps.Clone(start))
}

// scope returns the variables for expressions at a start, and evaluates the locals that depend on it.
func (x *Expressions) scope(start map[string]cty.Value) *hcl.EvalContext {
	scope := x.vars.NewChild()
	scope.Variables = start
	if len(x.locals) == 0 {
		return scope
	}
	known := make(map[string]cty.Value, len(x.locals))
	for _, l := range x.locals {
		start["local"] = cty.ObjectVal(known)
		v, diags := l.expr.Value(withLiterals(scope, x.text, l.expr))
		if diags.HasErrors() {
			v = cty.DynamicVal
		}
		known[l.name] = v
	}
	start["local"] = cty.ObjectVal(known)
	return scope
}
