// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

const (
	// maxCost bounds what evaluating the expressions of a file costs, about in bytes.
	maxCost = 16 << 20
	// maxValue bounds the value of a local and what a function returns, in bytes: locals that double each other would
	// take all memory of the machine.
	maxValue = MaxSource
	// elementCost is that of each value besides its text, numberSize the memory that a number takes more.
	elementCost = 64
	numberSize  = 192
	// numberCost is that of a number which may be written as text: that takes 40 µs.
	numberCost = 1536
	// mistakeCost is that of a diagnostic.
	mistakeCost = 1024
	// maxExponent bounds numbers, in powers of two. It is beyond those of floating point. At each multiple of doubledAt a
	// number costs as much again.
	maxExponent = 4096
	doubledAt   = 96
)

// errTooCostly is returned for what has not been evaluated.
var errTooCostly = fmt.Errorf("the values of this file come to more than %d bytes, those in between included", maxCost)

// meter adds up what the evaluation of a file costs, and ends it at maxCost. Neither an expression nor a function can be
// stopped from outside.
type meter struct {
	left int
	// at is the expression at which nothing was left; nil while something is.
	at *hcl.Range
}

func newMeter() *meter { return &meter{left: maxCost} }

// spend pays for something, if enough is left.
func (m *meter) spend(cost int) error {
	if m.left -= min(cost, maxCost); m.left < 0 {
		return errTooCostly
	}
	return nil
}

// exceeded is the mistake of a file that costs too much; nil if it does not.
func (m *meter) exceeded() hcl.Diagnostics {
	if m.at == nil {
		return nil
	}
	return tooLarge(*m.at, errTooCostly.Error()+"; let the task compute them, or split the job")
}

// afford pays for what costs something besides the value of an expression.
func (d *decoder) afford(at hcl.Range, cost int) bool {
	err := d.meter.spend(cost)
	if err != nil && d.meter.at == nil {
		d.meter.at = &at
	}
	return err == nil
}

// metered is an expression whose value is paid for. Once nothing is left it has no value.
type metered struct {
	hclsyntax.Expression
	meter *meter
	use   use
}

// use is what becomes of a value.
type use int

const (
	operand use = iota // another value is made of it
	written            // its numbers may be written as text: an attribute, an argument, a part of a template, a key
	unified            // a type is sought for it and another, and it is converted
)

// Value implements hcl.Expression.
func (e *metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if e.meter.at != nil {
		return cty.DynamicVal, nil
	}
	v, diags := e.Expression.Value(ctx)
	cost := 0
	switch e.use {
	case operand:
		cost = sizeOf(v, e.meter.left)
	case unified:
		cost = pairs(v)
		fallthrough
	case written:
		cost += weigh(v, e.meter.left, numberCost)
	}
	if diags.HasErrors() { // names that are not known are compared with all that are
		r := e.Range()
		cost += mistakeCost + elementCost*(r.End.Byte-r.Start.Byte)
	}
	if err := e.meter.spend(cost); err != nil && e.meter.at == nil {
		r := e.Range()
		e.meter.at = &r
		return cty.DynamicVal, e.meter.exceeded()
	}
	return v, diags
}

// UnwrapExpression lets package hcl see the expression itself, for keywords and types.
func (e *metered) UnwrapExpression() hcl.Expression { return e.Expression }

// bare is an expression without its meter.
func bare(node hclsyntax.Node) hclsyntax.Node {
	if e, ok := node.(*metered); ok {
		return e.Expression
	}
	return node
}

// body puts meters into all expressions of a body.
func (m *meter) body(body *hclsyntax.Body) {
	for _, a := range body.Attributes {
		m.put(&a.Expr, written)
	}
	for _, b := range body.Blocks {
		m.body(b.Body)
	}
}

// put puts meters into an expression and all that it consists of.
func (m *meter) put(expr *hclsyntax.Expression, use use) {
	switch e := (*expr).(type) {
	case nil:
		return
	case *hclsyntax.LiteralValueExpr:
		if e.Val.Type() != cty.Number {
			return // it is as long as its text
		}
	case *hclsyntax.ObjectConsKeyExpr: // it looks at what is in it
		m.putAll(e.Wrapped)
	default:
		m.putAll(e)
	}
	*expr = &metered{Expression: *expr, meter: m, use: use}
}

// putAll puts meters into the parts of an expression.
func (m *meter) putAll(expr hclsyntax.Expression) {
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		m.put(&e.Expression, operand)
	case *hclsyntax.RelativeTraversalExpr:
		m.put(&e.Source, operand)
	case *hclsyntax.FunctionCallExpr:
		m.list(e.Args, written)
	case *hclsyntax.ConditionalExpr:
		m.put(&e.Condition, operand)
		m.put(&e.TrueResult, unified)
		m.put(&e.FalseResult, unified)
	case *hclsyntax.IndexExpr:
		m.put(&e.Collection, operand)
		m.put(&e.Key, written)
	case *hclsyntax.TupleConsExpr:
		m.list(e.Exprs, operand)
	case *hclsyntax.ObjectConsExpr:
		for i := range e.Items {
			m.put(&e.Items[i].KeyExpr, written)
			m.put(&e.Items[i].ValueExpr, operand)
		}
	case *hclsyntax.ForExpr:
		m.put(&e.CollExpr, operand)
		m.put(&e.KeyExpr, written)
		m.put(&e.ValExpr, operand)
		m.put(&e.CondExpr, operand)
	case *hclsyntax.SplatExpr:
		m.put(&e.Source, operand)
		m.put(&e.Each, operand)
	case *hclsyntax.TemplateExpr:
		m.list(e.Parts, written)
	case *hclsyntax.TemplateJoinExpr:
		m.put(&e.Tuple, written)
	case *hclsyntax.TemplateWrapExpr:
		m.put(&e.Wrapped, operand)
	case *hclsyntax.BinaryOpExpr:
		m.put(&e.LHS, operand)
		m.put(&e.RHS, operand)
	case *hclsyntax.UnaryOpExpr:
		m.put(&e.Val, operand)
	}
}

func (m *meter) list(exprs []hclsyntax.Expression, use use) {
	for i := range exprs {
		m.put(&exprs[i], use)
	}
}

// sizeOf is what a value takes, about in bytes, or some number above most.
func sizeOf(v cty.Value, most int) int { return weigh(v, most, numberSize) }

// weigh adds up the elements of a value, its texts and a price for each number, or returns some number above most.
func weigh(v cty.Value, most, number int) int {
	v, _ = v.Unmark()
	switch {
	case v == cty.NilVal || v.IsNull() || !v.IsKnown():
		return elementCost
	case v.Type() == cty.String:
		return elementCost + sizeOfText(v.AsString())
	case v.Type() == cty.Number:
		exponent := v.AsBigFloat().MantExp(nil)
		if exponent = max(exponent, -exponent); exponent > maxExponent {
			return maxCost + 1
		}
		return elementCost + number + number*exponent/doubledAt
	case v.CanIterateElements():
		size := elementCost
		for it := v.ElementIterator(); it.Next() && size <= most; {
			key, element := it.Element()
			if size += weigh(element, most, number); v.Type().IsMapType() || v.Type().IsObjectType() {
				size += weigh(key, most, number)
			}
		}
		return size
	}
	return elementCost
}

// pairs is what it takes to find a type for all elements of a value: each is compared with each.
func pairs(v cty.Value) int { return square(countOf(v)) }

func square(n int) int { return min(n, maxCost) * min(n, maxCost) }

// countOf is how many values a value consists of.
func countOf(v cty.Value) int {
	if v, _ = v.Unmark(); v == cty.NilVal || v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return 1
	}
	n := 1
	for it := v.ElementIterator(); it.Next() && n <= maxCost; {
		_, element := it.Element()
		n += countOf(element)
	}
	return n
}

// sizeOfText is the length of a text, and of digits more: to read a number takes the square of its length.
func sizeOfText(text string) int {
	size, run := len(text), 0
	for i := range len(text) {
		if c := text[i]; c < '0' || c > '9' {
			run = 0
			continue
		}
		if run++; run > maxNumber {
			size += run / 32
		}
	}
	return size
}
