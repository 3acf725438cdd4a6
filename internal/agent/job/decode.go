// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"
)

// fields are the attributes and blocks that a block may contain, and their handlers.
type fields struct {
	attributes map[string]func(*hclsyntax.Attribute)
	// blocks without labels, each at most once, besides those in labelled and repeated.
	blocks   map[string]func(*hclsyntax.Block)
	labelled []string
	repeated []string
	// optional blocks may be repeated, and have a label or none.
	optional []string
	// placed are attributes and blocks that are accepted, and have no effect on one node.
	placed []string
	// elsewhere are names that Nomad supports and this agent does not.
	elsewhere []string
}

// decoder reads a file and collects its mistakes, instead of stopping at the first.
type decoder struct {
	text  string
	vars  *hcl.EvalContext
	diags hcl.Diagnostics
	// counts replace those of groups, by name.
	counts map[string]int
	// placed are the names met that have no effect on one node; services says that there is a service.
	placed   []string
	services bool
	// locals are those of the file, if one of them has its value at a start only.
	locals []localValue
	// deferred are the expressions of those that have their value at a start, by name.
	deferred map[string]hclsyntax.Expression
	// expressions are what a start evaluates, by task.
	expressions map[*Task]*Expressions
}

func (d *decoder) errorf(at hcl.Range, summary, format string, args ...any) {
	if len(d.diags) >= maxMistakes {
		return
	}
	d.diags = append(d.diags, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: at.Ptr(),
	})
}

// add reports mistakes in an expression.
func (d *decoder) add(diags hcl.Diagnostics) {
	d.diags = append(d.diags, diags[:min(len(diags), max(0, maxMistakes-len(d.diags)))]...)
}

// body passes every attribute and block of a body to its handler. where names the body in messages.
func (d *decoder) body(where string, body *hclsyntax.Body, f fields) {
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		attribute := body.Attributes[name]
		switch set := f.attributes[name]; {
		case set != nil:
			set(attribute)
		case slices.Contains(f.placed, name):
			d.elsewhereOnly(name)
		case f.blocks[name] != nil:
			d.errorf(attribute.NameRange, "Not an attribute", "%s is a block: %s { … }", name, name)
		default:
			d.unknown(attribute.NameRange, name, "attribute", where, f)
		}
	}
	seen := make(map[string]hcl.Range)
	for _, block := range body.Blocks {
		set := f.blocks[block.Type]
		switch first, twice := seen[block.Type]; {
		case slices.Contains(f.placed, block.Type):
			d.elsewhereOnly(block.Type)
		case set == nil && f.attributes[block.Type] != nil:
			d.errorf(block.TypeRange, "Not a block", "%s is an attribute: %s = …", block.Type, block.Type)
		case set == nil:
			d.unknown(block.TypeRange, block.Type, "block", where, f)
		case slices.Contains(f.optional, block.Type) && len(block.Labels) < 2:
			set(block)
		case slices.Contains(f.labelled, block.Type) != (len(block.Labels) == 1) || len(block.Labels) > 1:
			d.labels(block, slices.Contains(f.labelled, block.Type))
		case twice && !slices.Contains(f.labelled, block.Type) && !slices.Contains(f.repeated, block.Type):
			d.errorf(block.TypeRange, "Duplicate block", "%s is allowed once in %s; already set at line %d",
				block.Type, where, first.Start.Line)
		default:
			set(block)
		}
		seen[block.Type] = block.TypeRange
	}
}

// DecodeStruct reads a body into a struct whose fields have the tags "name,optional" for attributes, "name,block" for
// blocks, "name,labelled" for maps of pointers to structs by the label of their blocks, and "name,body" for blocks that
// stay as they are. What the body does not set keeps its value. gohcl also writes HCL, and what it links for that would
// run at the start of every executor.
func DecodeStruct(where string, body *hclsyntax.Body, into any) error {
	d := &decoder{}
	d.structure(where, body, reflect.ValueOf(into).Elem())
	return Mistakes(d.diags)
}

func (d *decoder) structure(where string, body *hclsyntax.Body, v reflect.Value) {
	f := fields{
		attributes: make(map[string]func(*hclsyntax.Attribute)), blocks: make(map[string]func(*hclsyntax.Block)),
	}
	for i := range v.NumField() {
		name, kind, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ",")
		switch field := v.Field(i); kind {
		case "optional":
			f.attributes[name] = d.attribute(field.Addr().Interface())
		case "body":
			f.blocks[name] = func(b *hclsyntax.Block) { field.Set(reflect.ValueOf(b.Body)) }
		case "block":
			f.blocks[name] = func(b *hclsyntax.Block) { d.structure(name, b.Body, field) }
		case "labelled":
			f.labelled = append(f.labelled, name)
			f.blocks[name] = func(b *hclsyntax.Block) {
				element := reflect.New(field.Type().Elem().Elem())
				d.structure(name, b.Body, element.Elem())
				field.SetMapIndex(reflect.ValueOf(b.Labels[0]), element)
			}
		}
	}
	d.body(where, body, f)
}

// attribute returns what reads an attribute into a field of a struct. A map keeps what it had.
func (d *decoder) attribute(into any) func(*hclsyntax.Attribute) {
	switch into := into.(type) {
	case *string:
		return d.str(into)
	case *bool:
		return d.flag(into)
	case *int:
		return d.number(into, -maxInt, maxInt)
	case *time.Duration:
		return d.duration(into)
	case *[]string:
		return d.list(into)
	case *map[string]string:
		return func(a *hclsyntax.Attribute) {
			v, ok := d.value(a, cty.Map(cty.String))
			if !ok {
				return
			}
			all := make(map[string]string)
			maps.Copy(all, *into)
			for key, value := range v.AsValueMap() {
				all[key] = value.AsString()
			}
			*into = all
		}
	}
	return nil
}

func (d *decoder) labels(block *hclsyntax.Block, wanted bool) {
	if wanted {
		d.errorf(block.TypeRange, "Invalid labels", "%s requires one name: %s \"NAME\" { … }", block.Type, block.Type)
		return
	}
	d.errorf(block.TypeRange, "Invalid labels", "%s takes no name: %s { … }", block.Type, block.Type)
}

func (d *decoder) unknown(at hcl.Range, name, kind, where string, f fields) {
	if slices.Contains(f.elsewhere, name) {
		d.unsupported(at, "%s is not supported by the embedded agent", name)
		return
	}
	known := slices.AppendSeq(slices.Concat(f.placed, f.elsewhere), maps.Keys(f.attributes))
	known = slices.AppendSeq(known, maps.Keys(f.blocks))
	hint := ""
	if near := nearest(name, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	d.errorf(at, "Unknown "+kind, "unknown %s %q in %s%s", kind, name, where, hint)
}

// unsupported reports what only a cluster supports.
func (d *decoder) unsupported(at hcl.Range, format string, args ...any) {
	d.errorf(at, "Not supported", format+"; run this job on a Nomad cluster", args...)
}

// value evaluates an expression to a type. ok is false after a mistake, which has been reported.
func (d *decoder) value(attribute *hclsyntax.Attribute, want cty.Type) (v cty.Value, ok bool) {
	v, diags := attribute.Expr.Value(d.vars)
	d.add(diags)
	if diags.HasErrors() || d.consequence(v) {
		return v, false
	}
	v, err := convert.Convert(v, want)
	if err == nil && (v.IsNull() || !v.IsWhollyKnown()) {
		err = fmt.Errorf("a value is required")
	}
	if err != nil {
		d.errorf(attribute.Expr.Range(), "Invalid value", "%s: %s", attribute.Name, err)
		return v, false
	}
	return v, true
}

// consequence reports whether a value is unknown because of a mistake that was reported.
func (d *decoder) consequence(v cty.Value) bool { return !v.IsWhollyKnown() && d.diags.HasErrors() }

// reads has an attribute's value taken if it has one of a type.
func (d *decoder) reads(of cty.Type, take func(*hclsyntax.Attribute, cty.Value)) func(*hclsyntax.Attribute) {
	return func(a *hclsyntax.Attribute) {
		if v, ok := d.value(a, of); ok {
			take(a, v)
		}
	}
}

func (d *decoder) str(into *string) func(*hclsyntax.Attribute) {
	return d.reads(cty.String, func(_ *hclsyntax.Attribute, v cty.Value) { *into = v.AsString() })
}

// word reads one of some words.
func (d *decoder) word(into *string, words ...string) func(*hclsyntax.Attribute) {
	return d.reads(cty.String, func(a *hclsyntax.Attribute, v cty.Value) {
		text := v.AsString()
		if !slices.Contains(words, text) {
			d.errorf(a.Expr.Range(), "Invalid value", "%s must be %s, not %q", a.Name, strings.Join(words, " or "), text)
			return // an invalid word would be an error again where the block is checked as a whole
		}
		*into = text
	})
}

func (d *decoder) flag(into *bool) func(*hclsyntax.Attribute) {
	return d.reads(cty.Bool, func(_ *hclsyntax.Attribute, v cty.Value) { *into = v.True() })
}

// number reads a whole number from least to most.
func (d *decoder) number(into *int, least, most int) func(*hclsyntax.Attribute) {
	return d.reads(cty.Number, func(a *hclsyntax.Attribute, v cty.Value) {
		var n int
		if err := gocty.FromCtyValue(v, &n); err != nil || n < least || n > most {
			d.errorf(a.Expr.Range(), "Invalid value", "%s must be a whole number from %d to %d", a.Name, least, most)
			return
		}
		*into = n
	})
}

// leastNumber is the shortest duration that may be written as a number: a smaller one was meant in seconds.
const leastNumber = time.Millisecond

// duration reads a duration such as "10s", or a number of nanoseconds as in Nomad. A string without a unit is
// invalid.
func (d *decoder) duration(into *time.Duration) func(*hclsyntax.Attribute) {
	return d.reads(cty.DynamicPseudoType, func(a *hclsyntax.Attribute, v cty.Value) {
		parsed, err := durationOf(v)
		switch {
		case err != nil || parsed < 0:
		case v.Type() == cty.Number && parsed > 0 && parsed < leastNumber:
			d.errorf(a.Expr.Range(), "Invalid value",
				"%s = %d is %[2]dns; did you mean \"%[2]ds\"?", a.Name, parsed.Nanoseconds())
			return
		default:
			*into = parsed
			return
		}
		d.errorf(a.Expr.Range(), "Invalid value", "%s must be a duration such as \"10s\" or \"1h30m\"", a.Name)
	})
}

func durationOf(v cty.Value) (d time.Duration, err error) {
	if v.Type() == cty.Number {
		var nanoseconds int64
		err = gocty.FromCtyValue(v, &nanoseconds)
		return time.Duration(nanoseconds), err
	}
	var text string
	if err := gocty.FromCtyValue(v, &text); err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

func (d *decoder) list(into *[]string) func(*hclsyntax.Attribute) {
	return d.reads(cty.List(cty.String), func(_ *hclsyntax.Attribute, v cty.Value) {
		*into = nil
		for _, element := range v.AsValueSlice() {
			*into = append(*into, element.AsString())
		}
	})
}

// meta reads metadata, from an attribute or from a block.
func (d *decoder) meta(into *map[string]string) (func(*hclsyntax.Attribute), func(*hclsyntax.Block)) {
	return d.pairs(func(name string, expr hclsyntax.Expression) {
		if text, ok := d.lenient(expr); ok {
			if *into == nil {
				*into = make(map[string]string)
			}
			(*into)[name] = text
		}
	})
}

// pairs reads NAME = VALUE, from an attribute that is a map or from a block.
func (d *decoder) pairs(
	pair func(string, hclsyntax.Expression),
) (func(*hclsyntax.Attribute), func(*hclsyntax.Block)) {
	return func(a *hclsyntax.Attribute) { d.eachPair(a, pair) }, func(b *hclsyntax.Block) {
		for _, inner := range b.Body.Blocks {
			d.errorf(inner.TypeRange, "Unknown block", "%s must contain only NAME = VALUE", b.Type)
		}
		for name, a := range b.Body.Attributes {
			pair(name, a.Expr)
		}
	}
}

// eachPair visits the items of an object without evaluating them.
func (d *decoder) eachPair(a *hclsyntax.Attribute, pair func(string, hclsyntax.Expression)) {
	object, ok := a.Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		d.errorf(a.Expr.Range(), "Invalid value", "%s must be { NAME = VALUE … }", a.Name)
		return
	}
	for _, item := range object.Items {
		key, diags := item.KeyExpr.Value(d.vars)
		if d.add(diags); diags.HasErrors() {
			continue
		}
		if key, err := convert.Convert(key, cty.String); err == nil && !key.IsNull() && key.IsKnown() {
			pair(key.AsString(), item.ValueExpr)
		}
	}
}

// need reports a missing attribute or block.
func (d *decoder) need(present bool, at hcl.Range, where, name string) {
	if !present {
		d.errorf(at, "Missing", "%s has no %s", where, name)
	}
}
