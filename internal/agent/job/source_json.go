// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// shown evaluates an expression for the JSON of a job, so that a client can send back what it has read: an expression
// that has a value only at a start becomes ${NAME} or ${(EXPRESSION)}, and a string that looks like that gets another
// dollar in front. literal is the value in which every unknown name stands for itself.
func (d *decoder) shown(expr hclsyntax.Expression, literal cty.Value) cty.Value {
	if v, ok := d.shownValue(expr); ok {
		return v
	}
	return literal
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

// shownValue returns the value of an expression; ok is false if it cannot be written in one line.
func (d *decoder) shownValue(expr hclsyntax.Expression) (v cty.Value, ok bool) {
	if !d.starts(expr) {
		v, diags := expr.Value(d.vars)
		return escaped(v), !diags.HasErrors()
	}
	switch e := expr.(type) {
	case *hclsyntax.TemplateWrapExpr:
		return d.shownValue(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return d.shownValue(e.Expression)
	case *hclsyntax.TemplateExpr:
		return d.shownTemplate(e)
	case *hclsyntax.TupleConsExpr:
		values := make([]cty.Value, len(e.Exprs))
		for i, inner := range e.Exprs {
			if values[i], ok = d.shownValue(inner); !ok {
				return v, false
			}
		}
		return cty.TupleVal(values), true
	case *hclsyntax.ObjectConsExpr:
		return d.shownObject(e)
	case *hclsyntax.ScopeTraversalExpr:
		if local := d.deferredLocal(e.Traversal); local != nil && len(e.Traversal) == 2 {
			return d.shownValue(local)
		}
		if text := "${" + d.source(e) + "}"; reference.FindString(text) == text && !ofFile(e.Traversal.RootName()) {
			return cty.StringVal(text), true
		}
	}
	text, ok := d.written(expr)
	return cty.StringVal("${(" + text + ")}"), ok
}

func (d *decoder) shownTemplate(e *hclsyntax.TemplateExpr) (v cty.Value, ok bool) {
	var text strings.Builder
	for _, part := range e.Parts {
		if strings.HasPrefix(d.source(part), "%") { // a directive
			return v, false
		}
		value, ok := d.shownValue(part)
		if value, err := convert.Convert(value, cty.String); ok && err == nil && value.IsKnown() && !value.IsNull() {
			text.WriteString(value.AsString())
			continue
		}
		return v, false
	}
	return cty.StringVal(text.String()), true
}

func (d *decoder) shownObject(e *hclsyntax.ObjectConsExpr) (v cty.Value, ok bool) {
	values := make(map[string]cty.Value, len(e.Items))
	for _, item := range e.Items {
		key, diags := item.KeyExpr.Value(withLiterals(d.vars, d.text, item.KeyExpr))
		if diags.HasErrors() || d.starts(item.KeyExpr) {
			return v, false
		}
		if key, err := convert.Convert(key, cty.String); err != nil || key.IsNull() || !key.IsKnown() {
			return v, false
		} else if values[key.AsString()], ok = d.shownValue(item.ValueExpr); !ok {
			return v, false
		}
	}
	return cty.ObjectVal(values), true
}

// source returns the text of an expression in the file.
func (d *decoder) source(expr hclsyntax.Expression) string {
	r := expr.Range()
	return d.text[r.Start.Byte:r.End.Byte]
}

// written returns the text of an expression, with the values of the file's own variables in it.
func (d *decoder) written(expr hclsyntax.Expression) (text string, ok bool) {
	var all strings.Builder
	at, ok := expr.Range().Start.Byte, true
	visitNames(expr, func(e *hclsyntax.ScopeTraversalExpr) {
		if !ofFile(e.Traversal.RootName()) || e.SrcRange.Start.Byte < at {
			return
		}
		all.WriteString(d.text[at:e.SrcRange.Start.Byte])
		at = e.SrcRange.End.Byte
		if local := d.deferredLocal(e.Traversal); local != nil {
			inner, whole := d.written(local)
			ok = ok && whole && len(e.Traversal) == 2
			all.WriteString("(" + inner + ")")
			return
		}
		v, diags := e.Value(d.vars)
		inner, known := literalText(v)
		ok = ok && !diags.HasErrors() && known
		all.WriteString(inner)
	})
	all.WriteString(d.text[at:expr.Range().End.Byte])
	text = all.String()
	lines := strings.ContainsAny(text, "\r\n")
	if lines && (strings.Contains(text, "<<") || strings.Contains(text, "#") || strings.Contains(text, "//")) {
		return "", false
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	return text, ok && len(text) <= maxEmbedded
}

// literalText writes a value as an expression.
func literalText(v cty.Value) (text string, ok bool) {
	if !v.IsWhollyKnown() {
		return "", false
	}
	inJSON, err := ctyjson.SimpleJSONValue{Value: v}.MarshalJSON()
	if err != nil {
		return "", false
	}
	var decoded any
	err = newDecoder(inJSON).Decode(&decoded)
	return expression(decoded, false), err == nil
}

// ofFile reports whether a name is one of the file's own.
func ofFile(root string) bool {
	return slices.Contains([]string{"var", "local", "each", "count"}, root)
}

// escaped puts a dollar in front of literal text that looks like an interpolation.
func escaped(v cty.Value) cty.Value {
	with, err := cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if v.Type() != cty.String || v.IsNull() || !v.IsKnown() || !strings.Contains(v.AsString(), "${") {
			return v, nil
		}
		text := v.AsString()
		found := interpolations(text)
		var b strings.Builder
		for i := range len(text) {
			if found[i] > 0 {
				b.WriteByte('$')
			}
			b.WriteByte(text[i])
		}
		return cty.StringVal(b.String()), nil
	})
	if err != nil {
		return v
	}
	return with
}

const (
	// maxEmbedded bounds the length of an expression in a text, and maxEmbeddings how many there are.
	maxEmbedded   = 4096
	maxEmbeddings = 100
)

// interpolations returns the length of each ${NAME} and ${(EXPRESSION)} in a text, by its position.
func interpolations(text string) map[int]int {
	found, tried := map[int]int{}, 0
	for at := strings.Index(text, "${"); at >= 0 && at < len(text); {
		length := len(reference.FindString(text[at:]))
		if length == 0 && strings.HasPrefix(text[at:], "${(") && tried < maxEmbeddings {
			tried++
			length = embedded(text[at:min(len(text), at+maxEmbedded)])
		}
		if length > 0 {
			found[at] = length
		}
		at += max(2, length)
		next := strings.Index(text[at:], "${")
		if next < 0 {
			break
		}
		at += next
	}
	return found
}

// embedded returns the length of the ${(EXPRESSION)} at the beginning of a text, or 0.
func embedded(text string) int {
	tokens, _ := hclsyntax.LexTemplate([]byte(text), "", hcl.InitialPos)
	depth := 0
	for _, token := range tokens {
		switch token.Type { //nolint:exhaustive // only what opens and ends an interpolation
		case hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenTemplateSeqEnd:
			if depth--; depth > 0 {
				continue
			}
			inner := text[len("${") : token.Range.End.Byte-len("}")]
			if _, diags := hclsyntax.ParseExpression([]byte(inner), "", hcl.InitialPos); diags.HasErrors() ||
				!strings.HasSuffix(inner, ")") || strings.ContainsAny(inner, "\r\n") {
				return 0
			}
			return token.Range.End.Byte
		}
	}
	return 0
}
