// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// bounded is a function that is not called if its result can be larger than maxValue, or if it takes more time
// than the meter has left.
func bounded(name string, f function.Function, m *meter) function.Function {
	prepare := func(given []cty.Value) ([]cty.Value, error) {
		args, err := convertArgs(f, given, m)
		if err != nil {
			return nil, err
		}
		if resultSize(name, args) > maxValue {
			return nil, fmt.Errorf("the result of %s can be larger than %d bytes", name, maxValue)
		}
		return args, m.spend(work(name, args))
	}
	spec := &function.Spec{
		Type: func(given []cty.Value) (cty.Type, error) {
			args, err := prepare(given)
			if err != nil {
				return cty.DynamicPseudoType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(given []cty.Value, _ cty.Type) (cty.Value, error) {
			args, err := prepare(given)
			if err != nil {
				return cty.DynamicVal, err
			}
			return f.Call(args)
		},
	}
	for _, param := range f.Params() {
		spec.Params = append(spec.Params, unconverted(param))
	}
	if param := f.VarParam(); param != nil {
		loose := unconverted(*param)
		spec.VarParam = &loose
	}
	return function.New(spec)
}

// unconverted is a parameter whose arguments are converted once it is known what that takes.
func unconverted(param function.Parameter) function.Parameter {
	if ofAnyElements(param) {
		param.Type, param.AllowDynamicType = cty.DynamicPseudoType, true
	}
	return param
}

// convertArgs converts arguments that are collections of anything, for which a type is sought that all elements have.
func convertArgs(f function.Function, given []cty.Value, m *meter) ([]cty.Value, error) {
	args := slices.Clone(given)
	for i := range args {
		param := f.VarParam()
		if params := f.Params(); i < len(params) {
			param = &params[i]
		}
		if !ofAnyElements(*param) {
			continue
		}
		if err := m.spend(pairs(args[i])); err != nil {
			return nil, err
		}
		var err error
		if args[i], err = convert.Convert(args[i], param.Type); err != nil {
			return nil, function.NewArgError(i, err)
		}
	}
	return args, nil
}

func ofAnyElements(param function.Parameter) bool {
	return param.Type != cty.DynamicPseudoType && param.Type.HasDynamicTypes()
}

// work is the time that a function takes besides that for its arguments and its result, as bytes that could be copied.
func work(name string, args []cty.Value) int {
	switch name {
	case "distinct": // compares each with each
		n := 0
		for _, arg := range args {
			n += lengthOf(arg)
		}
		return square(n)
	case "coalesce", "coalescelist", "concat", "merge", "setunion", "setintersection":
		return square(len(args)) // of types
	case "regex", "regexall":
		return regexWork(textOf(args, 0), textOf(args, 1))
	case "regex_replace":
		return regexWork(textOf(args, 1), textOf(args, 0))
	case "title", "strlen", "strrev", "substr", "upper", "lower", "formatdate":
		return 4 * len(textOf(args, 0)) // by what people take for a character
	}
	return 0
}

// regexWork is the steps of a pattern times the bytes of a text.
func regexWork(pattern, text string) int {
	const longest = 1000 // repeated a thousand times a byte takes a thousand steps
	if len(pattern) > longest {
		return maxCost + 1
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // the function rejects it
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst) * (len(text) + elementCost)
}

// resultSize is how large the result of a function is at most; of those that only take their arguments apart it is
// that of the arguments.
func resultSize(name string, args []cty.Value) int {
	total, largest, product := 0, 64, 1
	for _, arg := range args {
		size := sizeOf(arg, maxValue)
		total, largest, product = total+size, max(largest, size), min(product*max(1, lengthOf(arg)), maxValue+1)
	}
	if total > maxValue || len(args) == 0 {
		return total
	}
	switch name {
	case "base64encode", "urlencode":
		return 3 * total
	case "replace":
		return total + strings.Count(textOf(args, 0), textOf(args, 1))*len(textOf(args, 2))
	case "regex_replace": // each match can stand in each place of the replacement
		return total + (2*len(textOf(args, 0))+1)*len(textOf(args, 2))
	case "split":
		return total + elementCost*(strings.Count(textOf(args, 1), textOf(args, 0))+1)
	case "regexall":
		return total + elementCost*(len(textOf(args, 1))+1)
	case "csvdecode":
		return total + elementCost*parts(textOf(args, 0), ",\n")
	case "jsondecode":
		return decodedSize(textOf(args, 0))
	case "join":
		return total + len(textOf(args, 0))*total/elementCost
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

// parts is how many parts a text has at most that are separated by some bytes.
func parts(text, separators string) int {
	n := 1
	for _, c := range []byte(separators) {
		n += strings.Count(text, string(c))
	}
	return n
}

// decodedSize is the size of what a JSON text means, with what is within itself; too large if it is nested as no
// job file may be.
func decodedSize(text string) int {
	depth, deepest := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	if deepest > maxNesting {
		return maxValue + 1
	}
	return sizeOfText(text) + elementCost*parts(text, ",[{:")
}

func lengthOf(v cty.Value) int {
	v, _ = v.Unmark()
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return 1
	}
	return v.LengthInt()
}

// textOf is an argument that is a text; empty if it is none.
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
