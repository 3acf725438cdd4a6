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
