// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// withLiterals returns a scope in which every variable that is not known stands for its own text, ${NAME}, as in
// Nomad: the shell of a task has variables too. The file's own (var, local) have to be known.
func withLiterals(scope *hcl.EvalContext, text string, nodes ...hclsyntax.Node) *hcl.EvalContext {
	unknown := make(map[string]*grafted)
	visit := func(n hclsyntax.Node) hcl.Diagnostics {
		expr, ok := bare(n).(*hclsyntax.ScopeTraversalExpr)
		if !ok {
			return nil
		}
		root := expr.Traversal.RootName()
		if ofFile(root) {
			return nil
		}
		tree := unknown[root]
		if tree == nil {
			tree = &grafted{known: lookup(scope, root)}
		}
		literal := cty.StringVal("${" + text[expr.SrcRange.Start.Byte:expr.SrcRange.End.Byte] + "}")
		if tree.graft(expr.Traversal[1:], literal) {
			unknown[root] = tree
		}
		return nil
	}
	for _, node := range nodes {
		_ = hclsyntax.VisitAll(node, visit)
	}
	if len(unknown) == 0 {
		return scope
	}
	child := scope.NewChild()
	child.Variables = make(map[string]cty.Value, len(unknown))
	for name, tree := range unknown {
		child.Variables[name] = tree.value()
	}
	return child
}

// lookup returns a variable; the zero Value if there is none.
func lookup(scope *hcl.EvalContext, name string) cty.Value {
	for ; scope != nil; scope = scope.Parent() {
		if v, ok := scope.Variables[name]; ok {
			return v
		}
	}
	return cty.NilVal
}

// grafted is a value in which literals stand for what it does not have.
type grafted struct {
	// known is the zero Value if there is none.
	known   cty.Value
	literal *cty.Value
	names   map[string]*grafted
}

// graft puts a literal at the end of a path of names; false if something is there or the path leads elsewhere.
func (g *grafted) graft(path hcl.Traversal, literal cty.Value) bool {
	if g.literal != nil {
		return false
	}
	if len(path) == 0 {
		if g.known != cty.NilVal || g.names != nil {
			return false
		}
		g.literal = &literal
		return true
	}
	name, ok := nameOf(path[0])
	if !ok || g.known != cty.NilVal && !hasNames(g.known) {
		return false
	}
	inner := g.names[name]
	if inner == nil {
		inner = &grafted{known: attributeOf(g.known, name)}
	}
	if !inner.graft(path[1:], literal) {
		return false
	}
	if g.names == nil {
		g.names = make(map[string]*grafted)
	}
	g.names[name] = inner
	return true
}

// value is the whole.
func (g *grafted) value() cty.Value {
	switch {
	case g.literal != nil:
		return *g.literal
	case g.names == nil:
		return g.known
	}
	attributes := make(map[string]cty.Value)
	if g.known != cty.NilVal {
		attributes = g.known.AsValueMap()
		if attributes == nil {
			attributes = make(map[string]cty.Value)
		}
	}
	for name, inner := range g.names {
		attributes[name] = inner.value()
	}
	return cty.ObjectVal(attributes)
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

// attributeOf is a part of a value; the zero Value if it has none of the name.
func attributeOf(v cty.Value, name string) cty.Value {
	switch {
	case v == cty.NilVal:
	case v.Type().IsObjectType() && v.Type().HasAttribute(name):
		return v.GetAttr(name)
	case v.Type().IsMapType() && v.HasIndex(cty.StringVal(name)).True():
		return v.Index(cty.StringVal(name))
	}
	return cty.NilVal
}
