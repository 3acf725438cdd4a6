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
	scope := &hcl.EvalContext{Functions: functions(&d.results), Variables: make(map[string]cty.Value)}
	d.vars = scope
	variables := make(map[string]cty.Value)
	for _, b := range body.Blocks {
		if b.Type == "variable" && len(b.Labels) == 1 {
			variables[b.Labels[0]] = d.input(b, source)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(source.Variables)) {
		if _, ok := variables[name]; !ok {
			at := hcl.Range{Filename: source.Filename, Start: hcl.InitialPos, End: hcl.InitialPos}
			d.complain(at, "Unknown variable", "a value was given for %q, and the file has no such variable", name)
		}
	}
	scope.Variables["var"] = cty.ObjectVal(variables)
	d.locals(body)
}

// input returns the value of one input variable: the one given, or its default.
func (d *decoder) input(b *hclsyntax.Block, source Source) cty.Value {
	want, value := cty.DynamicPseudoType, cty.NilVal
	var description string
	d.body("variable", b.Body, fields{attributes: map[string]func(*hclsyntax.Attribute){
		"type": func(a *hclsyntax.Attribute) {
			parsed, diags := typeexpr.TypeConstraint(a.Expr)
			if d.diags = append(d.diags, diags...); !diags.HasErrors() {
				want = parsed
			}
		},
		"default": func(a *hclsyntax.Attribute) {
			if !d.affordable(a.Expr) {
				return
			}
			v, diags := a.Expr.Value(&hcl.EvalContext{Functions: functions(&d.results)})
			if d.diags = append(d.diags, diags...); !diags.HasErrors() {
				value = v
			}
		},
		"description": d.str(&description),
	}, elsewhere: []string{"validation", "sensitive"}})
	if text, given := source.Variables[b.Labels[0]]; given {
		value = d.given(b, text, want)
	}
	if value == cty.NilVal {
		d.complain(b.TypeRange, "Missing", "variable %q has no default, and no value was given", b.Labels[0])
		return cty.DynamicVal
	}
	converted, err := convert.Convert(value, want)
	if err != nil {
		d.complain(b.TypeRange, "Wrong value", "variable %q: %s", b.Labels[0], err)
		return cty.DynamicVal
	}
	return converted
}

// given is a value from the command line: a text stands for itself where a string can be meant, else it is read as
// HCL.
func (d *decoder) given(b *hclsyntax.Block, text string, want cty.Type) cty.Value {
	if want == cty.String || want == cty.DynamicPseudoType {
		return cty.StringVal(text)
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), "variable "+b.Labels[0], hcl.InitialPos)
	if diags.HasErrors() || !d.affordable(expr) {
		d.diags = append(d.diags, diags...)
		return cty.NilVal
	}
	v, diags := expr.Value(nil)
	d.diags = append(d.diags, diags...)
	return v
}

// locals evaluates locals in whatever order they need each other.
func (d *decoder) locals(body *hclsyntax.Body) {
	waiting := make(map[string]*hclsyntax.Attribute)
	for _, b := range body.Blocks {
		if b.Type != "locals" {
			continue
		}
		for name, a := range b.Body.Attributes {
			if _, twice := waiting[name]; twice {
				d.complain(a.NameRange, "Duplicate name", "there are two locals %q", name)
			}
			waiting[name] = a
		}
	}
	if len(waiting) > maxLocals {
		d.complain(body.Range(), "Too many", "a job file has at most %d locals", maxLocals)
		return
	}
	known := make(map[string]cty.Value)
	for len(waiting) > 0 {
		d.vars.Variables["local"] = cty.ObjectVal(known)
		progress := false
		for _, name := range slices.Sorted(maps.Keys(waiting)) {
			if costOf(waiting[name].Expr, d.vars) > maxCost && !d.affordable(waiting[name].Expr) {
				return
			}
			if v, diags := waiting[name].Expr.Value(d.vars); !diags.HasErrors() {
				if !d.affordable(waiting[name].Expr) {
					return
				}
				if sizeOf(v) > maxValue {
					d.complain(waiting[name].Expr.Range(), "Too large", "local %q is larger than %d bytes", name, maxValue)
					return
				}
				known[name], progress = v, true
				delete(waiting, name)
			}
		}
		if progress {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(waiting)) {
			_, diags := waiting[name].Expr.Value(d.vars)
			d.diags = append(d.diags, diags...)
		}
		return
	}
	d.vars.Variables["local"] = cty.ObjectVal(known)
}
