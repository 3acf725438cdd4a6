// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

const (
	// interpolation begins a name that only a start knows, where it stands for itself.
	interpolation = "${"
	// marked begins such a name while literal text is told apart from it. Unicode has no such character.
	marked = "\ufdd0{"
)

// shown evaluates an expression for the JSON of a job, so that a client can send back what it has read: a name that
// has a value only at a start becomes ${NAME}, and literal text that looks like that gets another dollar in front.
// literal is the value without that dollar, for an expression that cannot compute with the marks.
func (d *decoder) shown(expr hclsyntax.Expression, literal cty.Value) cty.Value {
	v, diags := expr.Value(withLiterals(d.marks, d.text, expr, marked))
	if diags.HasErrors() {
		return literal
	}
	shown, err := cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
			return v, nil
		}
		text := reference.ReplaceAllStringFunc(v.AsString(), func(name string) string { return "$" + name })
		return cty.StringVal(strings.ReplaceAll(text, marked, interpolation)), nil
	})
	if err != nil {
		return literal
	}
	return shown
}

// starts reports whether an expression refers to what only a start knows.
func (d *decoder) starts(expr hclsyntax.Expression) bool {
	var bound []string // the names of loops
	var names []hcl.Traversal
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		switch e := n.(type) {
		case *hclsyntax.ForExpr:
			bound = append(bound, e.KeyVar, e.ValVar)
		case *hclsyntax.ScopeTraversalExpr:
			names = append(names, e.Traversal)
		}
		return nil
	})
	return slices.ContainsFunc(names, func(t hcl.Traversal) bool {
		return !slices.Contains(bound, t.RootName()) && (!ofFile(t.RootName()) || d.deferredLocal(t) != nil)
	})
}

// deferredLocal returns the expression of a local that has its value at a start; nil for any other name.
func (d *decoder) deferredLocal(t hcl.Traversal) hclsyntax.Expression {
	if t.RootName() != "local" || len(t) < 2 {
		return nil
	}
	name, _ := nameOf(t[1])
	return d.deferred[name]
}

// computes reports whether an expression makes another value of what only a start knows: the value that is shown does
// not tell such expressions apart.
func (d *decoder) computes(expr hclsyntax.Expression) bool {
	if !d.starts(expr) {
		return false
	}
	switch e := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		local := d.deferredLocal(e.Traversal)
		return local != nil && d.computes(local)
	case *hclsyntax.TemplateWrapExpr:
		return d.computes(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return d.computes(e.Expression)
	case *hclsyntax.TemplateExpr:
		return slices.ContainsFunc(e.Parts, d.computes)
	case *hclsyntax.TupleConsExpr:
		return slices.ContainsFunc(e.Exprs, d.computes)
	case *hclsyntax.ObjectConsExpr:
		return slices.ContainsFunc(e.Items, func(item hclsyntax.ObjectConsItem) bool {
			return d.starts(item.KeyExpr) || d.computes(item.ValueExpr)
		})
	}
	return true
}

// noteComputed adds an expression to what makes a task another one.
func (d *decoder) noteComputed(x *Expressions, expr hclsyntax.Expression) {
	if d.computes(expr) {
		x.computed = append(x.computed, d.source(expr))
	}
}

// computed lists what the tasks of a group compute at their starts, with all that this may refer to in the file.
func (d *decoder) computed(g *Group) (list []string) {
	for _, t := range g.Tasks {
		list = append(list, d.expressions[t].computed...)
	}
	slices.Sort(list) // attributes come in no order
	if len(list) == 0 {
		return nil
	}
	for _, l := range d.locals {
		list = append(list, l.name, d.source(l.expr))
	}
	return append(list, fmt.Sprintf("%#v", d.vars.Variables["var"]))
}

// source returns the text of an expression in the file.
func (d *decoder) source(expr hclsyntax.Expression) string {
	r := expr.Range()
	return d.text[r.Start.Byte:r.End.Byte]
}

// ofFile reports whether a name is one of the file's own.
func ofFile(root string) bool {
	return slices.Contains([]string{"var", "local", "each", "count"}, root)
}
