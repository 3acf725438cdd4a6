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

func (d *decoder) env(b *hclsyntax.Block, t *Task) {
	d.noBlocks(b)
	for name, a := range b.Body.Attributes {
		d.variable(t, name, a.Expr)
	}
}

// variable is one variable of a task's environment.
func (d *decoder) variable(t *Task, name string, expr hclsyntax.Expression) {
	text, ok := d.lenient(expr)
	if !ok {
		return
	}
	if t.Env == nil {
		t.Env, t.env = make(map[string]string), make(map[string]hclsyntax.Expression)
	}
	t.Env[name], t.env[name] = text, expr
}

// config keeps the config block for the driver's schema, and what people see of it.
func (d *decoder) config(b *hclsyntax.Block, t *Task) {
	t.ConfigBody = b.Body
	t.Config = d.loose(b.Body, withLiterals(b.Body, d.vars, d.text))
}

// loose is a body as a tree, in which a repeated block is a list.
func (d *decoder) loose(body *hclsyntax.Body, vars *hcl.EvalContext) map[string]any {
	tree := make(map[string]any)
	for name, a := range body.Attributes {
		v, diags := a.Expr.Value(vars)
		if d.diags = append(d.diags, diags...); diags.HasErrors() {
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
func (t *Task) Environment(start map[string]cty.Value) (map[string]string, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	env := make(map[string]string, len(t.env))
	for _, name := range slices.Sorted(maps.Keys(t.env)) { // so that mistakes are named in one order
		expr := t.env[name]
		v, problems := expr.Value(withLiterals(expr, t.scope(start), t.text))
		if diags = append(diags, problems...); problems.HasErrors() {
			continue
		}
		if v, err := convert.Convert(v, cty.String); err == nil && !v.IsNull() {
			env[name] = v.AsString()
		}
	}
	return env, diags
}

// ConfigScope returns what expressions in the config block may refer to at a start.
func (t *Task) ConfigScope(start map[string]cty.Value) *hcl.EvalContext {
	scope := t.scope(start)
	if body, ok := t.ConfigBody.(*hclsyntax.Body); ok {
		return withLiterals(body, scope, t.text)
	}
	return scope
}

func (t *Task) scope(start map[string]cty.Value) *hcl.EvalContext {
	scope := t.Variables.NewChild()
	scope.Variables = start
	return scope
}

// withLiterals returns a scope in which every variable that is not known stands for its own text, ${NAME}, as in
// Nomad: the shell of a task has variables too. The file's own (var, local) have to be known.
func withLiterals(node hclsyntax.Node, scope *hcl.EvalContext, text string) *hcl.EvalContext {
	unknown := make(map[string]cty.Value)
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		expr, ok := n.(*hclsyntax.ScopeTraversalExpr)
		if !ok {
			return nil
		}
		root := expr.Traversal.RootName()
		if slices.Contains([]string{"var", "local", "each", "count"}, root) {
			return nil
		}
		if _, diags := expr.Traversal.TraverseAbs(scope); !diags.HasErrors() {
			return nil
		}
		known, ok := unknown[root]
		if !ok {
			known = lookup(scope, root)
		}
		literal := cty.StringVal("${" + string(expr.Range().SliceBytes([]byte(text))) + "}")
		if value, ok := graft(known, expr.Traversal[1:], literal); ok {
			unknown[root] = value
		}
		return nil
	})
	if len(unknown) == 0 {
		return scope
	}
	child := scope.NewChild()
	child.Variables = unknown
	return child
}

// lookup returns a variable; the zero Value where there is none.
func lookup(scope *hcl.EvalContext, name string) cty.Value {
	for ; scope != nil; scope = scope.Parent() {
		if v, ok := scope.Variables[name]; ok {
			return v
		}
	}
	return cty.NilVal
}

// graft returns a value with a literal at the end of a path of names; ok is false where the path leads elsewhere.
func graft(value cty.Value, path hcl.Traversal, literal cty.Value) (grafted cty.Value, ok bool) {
	if len(path) == 0 {
		return literal, value == cty.NilVal
	}
	var name string
	switch step := path[0].(type) {
	case hcl.TraverseAttr:
		name = step.Name
	case hcl.TraverseIndex:
		if step.Key.Type() != cty.String {
			return value, false
		}
		name = step.Key.AsString()
	default:
		return value, false
	}
	attributes := make(map[string]cty.Value)
	if value != cty.NilVal {
		if !value.Type().IsObjectType() && !value.Type().IsMapType() {
			return value, false
		}
		for it := value.ElementIterator(); it.Next(); {
			k, v := it.Element()
			attributes[k.AsString()] = v
		}
	}
	inner, has := attributes[name]
	if !has {
		inner = cty.NilVal
	}
	if attributes[name], ok = graft(inner, path[1:], literal); !ok {
		return value, false
	}
	return cty.ObjectVal(attributes), true
}
