// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// inputs evaluates the variable and locals blocks and makes the scope of everything else.
func (d *decoder) inputs(body *hclsyntax.Body, source Source) {
	scope := &hcl.EvalContext{Functions: functions(), Variables: make(map[string]cty.Value)}
	d.vars = scope
	variables := make(map[string]cty.Value)
	for _, b := range body.Blocks {
		if b.Type == "variable" && len(b.Labels) == 1 {
			variables[b.Labels[0]] = d.input(b, source)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(source.Variables)) {
		if _, ok := variables[name]; !ok {
			d.errorf(startOf(source.Filename), "Unknown variable", "unknown variable %q: the job file does not declare it", name)
		}
	}
	scope.Variables["var"] = cty.ObjectVal(variables)
	d.readLocals(body)
}

// input returns the value of one input variable: the one given, or its default.
func (d *decoder) input(b *hclsyntax.Block, source Source) cty.Value {
	want, value := cty.DynamicPseudoType, cty.NilVal
	var description string
	d.body("variable", b.Body, fields{attributes: map[string]func(*hclsyntax.Attribute){
		"type": func(a *hclsyntax.Attribute) {
			parsed, diags := typeexpr.TypeConstraint(a.Expr)
			if d.add(diags); !diags.HasErrors() {
				want = parsed
			}
		},
		"default": func(a *hclsyntax.Attribute) {
			v, diags := a.Expr.Value(&hcl.EvalContext{Functions: d.vars.Functions})
			if d.add(diags); !diags.HasErrors() {
				value = v
			}
		},
		"description": d.str(&description),
	}, elsewhere: []string{"validation", "sensitive"}})
	if text, given := source.Variables[b.Labels[0]]; given {
		value = d.given(b, text, want)
	}
	switch {
	case value != cty.NilVal:
	case d.diags.HasErrors(): // it may be there, and not be read
		return cty.DynamicVal
	default:
		d.errorf(b.TypeRange, "Missing", "variable %q has no default, and no value was given", b.Labels[0])
		return cty.DynamicVal
	}
	converted, err := convert.Convert(value, want)
	if err != nil {
		d.errorf(b.TypeRange, "Invalid value", "variable %q: %s", b.Labels[0], err)
		return cty.DynamicVal
	}
	return converted
}

// given is a value from the command line: a text stands for itself if a string can be meant, else it is read as
// HCL.
func (d *decoder) given(b *hclsyntax.Block, text string, want cty.Type) cty.Value {
	if want == cty.String || want == cty.DynamicPseudoType {
		return cty.StringVal(text)
	}
	name := "variable " + b.Labels[0]
	if diags := checkText([]byte(text), name); diags != nil {
		d.add(diags)
		return cty.NilVal
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), name, hcl.InitialPos)
	if diags.HasErrors() {
		d.add(diags)
		return cty.NilVal
	}
	v, diags := expr.Value(nil)
	d.add(diags)
	return v
}

// readLocals evaluates locals, each after those that it refers to.
func (d *decoder) readLocals(body *hclsyntax.Body) {
	l := &locals{decoder: d, waiting: make(map[string]*hclsyntax.Attribute), known: make(map[string]cty.Value)}
	for _, b := range body.Blocks {
		if b.Type != "locals" {
			continue
		}
		for name, a := range b.Body.Attributes {
			if _, twice := l.waiting[name]; twice {
				d.errorf(a.NameRange, "Duplicate name", "duplicate local %q", name)
			}
			l.waiting[name] = a
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.waiting)) {
		l.evaluate(name, nil)
	}
	d.vars.Variables["local"] = cty.ObjectVal(l.known)
	if len(d.deferred) > 0 {
		d.locals = l.order
	}
}

// locals are the locals of a file while they are evaluated.
type locals struct {
	decoder *decoder
	waiting map[string]*hclsyntax.Attribute
	known   map[string]cty.Value
	// order lists the locals as they were evaluated.
	order []localValue
}

// evaluate gives a local its value, after those that it refers to. within are the locals that are being evaluated.
func (l *locals) evaluate(name string, within []string) {
	a, d := l.waiting[name], l.decoder
	if a == nil {
		return // it has a value, or there is no such local, which the expression says
	}
	if slices.Contains(within, name) {
		d.errorf(a.NameRange, "Invalid value", "local %q refers to itself", name)
		delete(l.waiting, name)
		l.known[name] = cty.DynamicVal
		return
	}
	needed, deferred := make(map[string]cty.Value), false
	for _, other := range referredLocals(a.Expr) {
		l.evaluate(other, append(within, name))
		deferred = deferred || d.deferred[other] != nil
		if v, ok := l.known[other]; ok {
			needed[other] = v
		}
	}
	if l.waiting[name] == nil {
		return // it refers to itself
	}
	delete(l.waiting, name)
	scope := d.vars.NewChild()
	scope.Variables = map[string]cty.Value{"local": cty.ObjectVal(needed)}
	lenient := withLiterals(scope, d.text, a.Expr)
	l.order = append(l.order, localValue{name, a.Expr})
	if deferred || lenient != scope {
		d.deferred[name] = a.Expr
	}
	v, diags := a.Expr.Value(lenient)
	d.add(diags)
	if diags.HasErrors() {
		v = cty.DynamicVal // so that nothing is said of those that refer to it
	}
	l.known[name] = v
}

// referredLocals are the locals that an expression refers to by name.
func referredLocals(expr hclsyntax.Expression) []string {
	var names []string
	visitNames(expr, func(e *hclsyntax.ScopeTraversalExpr) {
		if e.Traversal.RootName() != "local" || len(e.Traversal) == 1 {
			return
		}
		if name, ok := nameOf(e.Traversal[1]); ok {
			names = append(names, name)
		}
	})
	return names
}
