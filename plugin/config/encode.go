// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"github.com/zclconf/go-cty/cty/msgpack"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/driver/schema"
)

// Encode decodes a body by a schema and returns it as a plugin is sent it. vars are what expressions in the body may
// refer to; nil for nothing. A nil body is an empty one. Diagnostics name the place in the file.
//
// Other hosts read a config block as a loose tree first, in which a block and an attribute that holds an object are
// the same: a schema may say list(map(string)) where the user writes a block, or a block where the user writes
// name = { … }. So does Encode, where the body does not fit as it stands.
func Encode(spec schema.Spec, body hcl.Body, vars *hcl.EvalContext) ([]byte, hcl.Diagnostics) {
	decoder, err := translate(spec)
	if err != nil {
		return nil, problem("Invalid schema", err)
	}
	if body == nil {
		body = hcl.EmptyBody()
	}
	value, diags := hcldec.Decode(body, decoder, vars)
	if diags.HasErrors() {
		loose, err := decodeLoosely(body, decoder, vars)
		if err != nil {
			return nil, diags
		}
		value, diags = loose, nil
	}
	encoded, err := encode(value, hcldec.ImpliedType(decoder))
	if err != nil {
		return nil, append(diags, problem("Invalid configuration", err)...)
	}
	return encoded, diags
}

func encode(value cty.Value, want cty.Type) ([]byte, error) {
	// A default may be of another type than what it stands for: 5 for a string.
	value, err := convert.Convert(value, want)
	if err != nil {
		return nil, fmt.Errorf("convert: %w: %w", err, driver.ErrInvalid)
	}
	if !value.IsWhollyKnown() {
		return nil, fmt.Errorf("a value is not known yet: %w", driver.ErrInvalid)
	}
	encoded, err := msgpack.Marshal(value, value.Type())
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return encoded, nil
}

func problem(summary string, err error) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: err.Error()}}
}

// decodeLoosely decodes a body by way of JSON, whose bodies take an object for a block and the reverse.
func decodeLoosely(body hcl.Body, decoder hcldec.Spec, vars *hcl.EvalContext) (cty.Value, error) {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		return cty.NilVal, errors.New("not in native syntax")
	}
	tree, err := looseTree(native, vars)
	if err != nil {
		return cty.NilVal, err
	}
	text, err := ctyjson.Marshal(tree, tree.Type())
	if err != nil {
		return cty.NilVal, fmt.Errorf("encode as JSON: %w", err)
	}
	file, diags := hcljson.Parse(text, "config")
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	// Values are evaluated already. Without a context the text of a JSON string is taken as it is.
	value, diags := hcldec.Decode(file.Body, decoder, nil)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	return value, nil
}

// looseTree is a body as an object: attributes by name, blocks as lists of objects by type and labels.
func looseTree(body *hclsyntax.Body, vars *hcl.EvalContext) (cty.Value, error) {
	tree := make(map[string]cty.Value, len(body.Attributes))
	for name, attribute := range body.Attributes {
		value, diags := attribute.Expr.Value(vars)
		if diags.HasErrors() {
			return cty.NilVal, diags
		}
		tree[name] = value
	}
	lists := make(map[string][]cty.Value)
	for _, block := range body.Blocks {
		if _, taken := tree[block.Type]; taken {
			return cty.NilVal, fmt.Errorf("%s is both an attribute and a block", block.Type)
		}
		value, err := looseTree(block.Body, vars)
		if err != nil {
			return cty.NilVal, err
		}
		for _, v := range slices.Backward(block.Labels) {
			value = cty.ObjectVal(map[string]cty.Value{v: value})
		}
		lists[block.Type] = append(lists[block.Type], value)
	}
	for name, list := range lists {
		tree[name] = cty.TupleVal(list)
	}
	return cty.ObjectVal(tree), nil
}
