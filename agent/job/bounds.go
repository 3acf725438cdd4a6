// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// maxValue bounds the value of a local and what a function returns, in bytes: a chain of locals that double each other
// would take all memory of the machine.
const maxValue = MaxSource

// bounded is a function that is not called where its result can be larger than maxValue.
func bounded(name string, f function.Function) function.Function {
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
			return f.Call(args)
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
