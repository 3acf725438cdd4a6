// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// maxValue bounds the value of a local and what a function returns, in bytes: a chain of locals that double each other
// would take all memory of the machine.
const maxValue = MaxSource

// results is what functions may return together while a file is read, in bytes. A start evaluates nothing else.
type results struct {
	left int
	read bool // the file has been read: nothing is counted any more
}

func (r *results) count(v cty.Value) error {
	if r.read {
		return nil
	}
	if r.left -= sizeOf(v); r.left < 0 {
		return fmt.Errorf("the results of functions come to more than %d bytes", maxResults)
	}
	return nil
}

// bounded is a function that is not called where its result can be larger than maxValue.
func bounded(name string, f function.Function, all *results) function.Function {
	check := func(args []cty.Value) error {
		if resultSize(name, args) > maxValue {
			return fmt.Errorf("the result of %s can be larger than %d bytes", name, maxValue)
		}
		return nil
	}
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.DynamicPseudoType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if err := check(args); err != nil {
				return cty.DynamicVal, err
			}
			v, err := f.Call(args)
			if err == nil {
				err = all.count(v)
			}
			return v, err
		},
	})
}

// resultSize is how large the result of a function is at most; of those that only take their arguments apart it is
// that of the arguments.
func resultSize(name string, args []cty.Value) int {
	total, largest, product := 0, 64, 1
	for _, arg := range args {
		size := sizeOf(arg)
		total, largest, product = total+size, max(largest, size), min(product*max(1, lengthOf(arg)), maxValue+1)
	}
	if total > maxValue || len(args) == 0 {
		return total
	}
	switch name {
	case "replace":
		return total + strings.Count(textOf(args, 0), textOf(args, 1))*len(textOf(args, 2))
	case "regex_replace": // each match can stand in each place of the replacement
		return total + (2*len(textOf(args, 0))+1)*len(textOf(args, 2))
	case "join":
		return total + len(textOf(args, 0))*total/elementSize
	case "indent":
		return total + numberOf(args, 0)*(strings.Count(textOf(args, 1), "\n")+1)
	case "format":
		return formatted(textOf(args, 0), largest)
	case "formatlist":
		return formatted(textOf(args, 0), largest) * product
	case "setproduct":
		return min(product, maxValue) * total
	}
	return total
}

// elementSize is what each value costs besides its text.
const elementSize = 16

// sizeOf is the size of a value in bytes, or one above maxValue.
func sizeOf(v cty.Value) int {
	v, _ = v.Unmark()
	switch {
	case v == cty.NilVal || v.IsNull() || !v.IsKnown():
		return elementSize
	case v.Type() == cty.String:
		return elementSize + len(v.AsString())
	case v.Type() == cty.Number:
		exponent := v.AsBigFloat().MantExp(nil)
		return elementSize + max(exponent, -exponent)/3 // it is written out
	case v.CanIterateElements():
		size := elementSize
		for it := v.ElementIterator(); it.Next() && size <= maxValue; {
			key, element := it.Element()
			size += sizeOf(key) + sizeOf(element)
		}
		return size
	}
	return elementSize
}

func lengthOf(v cty.Value) int {
	v, _ = v.Unmark()
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return 1
	}
	return v.LengthInt()
}

// textOf is an argument that is a text; empty where it is none.
func textOf(args []cty.Value, i int) string {
	if i >= len(args) {
		return ""
	}
	v, _ := args[i].Unmark()
	if v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return ""
	}
	return v.AsString()
}

// numberOf is an argument that is a number, from 0 to just above maxValue.
func numberOf(args []cty.Value, i int) int {
	v, _ := args[i].Unmark()
	if v.IsNull() || !v.IsKnown() || v.Type() != cty.Number {
		return 0
	}
	n, _ := v.AsBigFloat().Float64()
	return int(max(0, min(n, maxValue+1)))
}

// formatted is the size that a format's result has at most: each verb can show the largest argument, with escapes, and
// each number can be a width.
func formatted(format string, largest int) int {
	size := len(format) + 8*largest*strings.Count(format, "%")
	for _, digits := range strings.FieldsFunc(format, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.Atoi(digits)
		if err != nil || n > maxValue {
			return maxValue + 1
		}
		size += n
	}
	if strings.Contains(format, "*") {
		return maxValue + 1 // a width that is an argument
	}
	return size
}

const (
	// maxLocals bounds their number: they are evaluated again and again until all that they need is known.
	maxLocals = 1000
	// maxCost bounds what the values of all expressions of a file come to, in bytes.
	maxCost = 256 << 20
	// maxResults bounds what functions return while a file is read, all together, in bytes.
	maxResults = 32 << 20
	// callElements is how many elements the result of a function counts for.
	callElements = 1024
)

// affordable reports whether an expression is evaluated; that it is not has been said then.
func (d *decoder) affordable(expr hclsyntax.Expression) bool {
	cost := costOf(expr, d.vars)
	if d.cost += min(cost, maxCost+1); d.cost <= maxCost {
		return true
	}
	d.complain(expr.Range(), "Too large", "the values of this file can come to more than %d bytes", maxCost)
	return false
}

// affordAll does so for all that is in a body.
func (d *decoder) affordAll(body *hclsyntax.Body) bool {
	for _, a := range body.Attributes {
		if !d.affordable(a.Expr) {
			return false
		}
	}
	for _, b := range body.Blocks {
		if b.Type != "locals" && b.Type != "variable" && !d.affordAll(b.Body) {
			return false
		}
	}
	return true
}

// costOf is about what evaluating an expression takes in bytes: its own text and the values that it refers to, as often
// as for expressions go through them.
func costOf(node hclsyntax.Node, scope *hcl.EvalContext) int {
	c := costs{scope: scope}
	_ = hclsyntax.Walk(node, &c)
	r := node.Range()
	cost := c.size + r.End.Byte - r.Start.Byte
	elements := c.size/elementSize + 1
	if c.calls {
		elements += callElements
	}
	for range c.deepest {
		cost = min(cost, maxCost+1) * elements
	}
	return min(cost, maxCost+1)
}

// costs walks an expression.
type costs struct {
	scope                *hcl.EvalContext
	size, depth, deepest int
	calls                bool
}

// Enter implements hclsyntax.Walker.
func (c *costs) Enter(node hclsyntax.Node) hcl.Diagnostics {
	switch n := node.(type) {
	case *hclsyntax.ForExpr:
		c.depth++
		c.deepest = max(c.deepest, c.depth)
		if call, ok := n.CollExpr.(*hclsyntax.FunctionCallExpr); ok && call != nil {
			c.calls = true
		}
	case *hclsyntax.LiteralValueExpr:
		if size := sizeOf(n.Val); size > maxValue {
			c.size = maxCost + 1 // 1e99999999: what is made of it is written out more than once
		}
	case *hclsyntax.ScopeTraversalExpr:
		if v, diags := n.Traversal.TraverseAbs(c.scope); !diags.HasErrors() {
			c.size += sizeOf(v)
		}
	}
	c.size = min(c.size, maxCost+1)
	return nil
}

// Exit implements hclsyntax.Walker.
func (c *costs) Exit(node hclsyntax.Node) hcl.Diagnostics {
	if _, ok := node.(*hclsyntax.ForExpr); ok {
		c.depth--
	}
	return nil
}
