// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"maps"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// lenient evaluates a string in which unknown variables stand for their own text.
func (d *decoder) lenient(expr hclsyntax.Expression) (string, bool) {
	v, diags := expr.Value(withLiterals(d.vars, d.text, expr))
	if d.add(diags); diags.HasErrors() || d.consequence(v) {
		return "", false
	}
	v, err := convert.Convert(v, cty.String)
	if err != nil || v.IsNull() || !v.IsKnown() {
		d.errorf(expr.Range(), "Invalid value", "a string is required")
		return "", false
	}
	return v.AsString(), true
}

// withLiterals returns a scope in which each unknown variable of an expression stands for its own text, ${NAME}, as in
// Nomad: the shell of a task has variables too. The file's own variables (var, local) have to be known.
func withLiterals(scope *hcl.EvalContext, text string, expr hclsyntax.Expression) *hcl.EvalContext {
	added := make(map[string]cty.Value)
	visitNames(expr, func(e *hclsyntax.ScopeTraversalExpr) {
		root := e.Traversal.RootName()
		if ofFile(root) {
			return
		}
		known, found := added[root]
		if !found {
			known = lookup(scope, root)
		}
		literal := cty.StringVal("${" + text[e.SrcRange.Start.Byte:e.SrcRange.End.Byte] + "}")
		if v, ok := graft(known, e.Traversal[1:], literal); ok {
			added[root] = v
		}
	})
	if len(added) == 0 {
		return scope
	}
	child := scope.NewChild()
	child.Variables = added
	return child
}

// visitNames visits the variables in an expression.
func visitNames(expr hclsyntax.Expression, visit func(*hclsyntax.ScopeTraversalExpr)) {
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if e, ok := n.(*hclsyntax.ScopeTraversalExpr); ok {
			visit(e)
		}
		return nil
	})
}

// lookup returns a variable; the zero Value if it does not exist.
func lookup(scope *hcl.EvalContext, name string) cty.Value {
	for ; scope != nil; scope = scope.Parent() {
		if v, ok := scope.Variables[name]; ok {
			return v
		}
	}
	return cty.NilVal
}

// graft returns a value with a literal at the end of a path of names. ok is false if the path has a value, or leads
// through something without names.
func graft(v cty.Value, path hcl.Traversal, literal cty.Value) (with cty.Value, ok bool) {
	if len(path) == 0 {
		return literal, v == cty.NilVal
	}
	name, ok := nameOf(path[0])
	if !ok || v != cty.NilVal && !hasNames(v) {
		return v, false
	}
	attributes := make(map[string]cty.Value)
	if v != cty.NilVal {
		maps.Copy(attributes, v.AsValueMap())
	}
	if attributes[name], ok = graft(attributes[name], path[1:], literal); !ok {
		return v, false
	}
	return cty.ObjectVal(attributes), true
}

func nameOf(step hcl.Traverser) (name string, ok bool) {
	switch step := step.(type) {
	case hcl.TraverseAttr:
		return step.Name, true
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String {
			return step.Key.AsString(), true
		}
	}
	return "", false
}

func hasNames(v cty.Value) bool {
	return (v.Type().IsObjectType() || v.Type().IsMapType()) && v.IsKnown() && !v.IsNull()
}
