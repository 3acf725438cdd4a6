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

	"github.com/tachograph/tacho/driver/schema"
)

// Decode decodes a body by a schema. vars are what expressions in the body may refer to; nil for nothing. A nil body is
// an empty one. Diagnostics name the place in the file.
//
// Other hosts read a config block as a loose tree first, in which a block and an attribute that holds an object are
// the same: a schema may say list(map(string)) where the user writes a block, or a block where the user writes
// name = { … }. So does Decode, if the body does not fit as it stands.
func Decode(spec schema.Spec, body hcl.Body, vars *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	decoder, err := translate(spec)
	if body == nil {
		body = hcl.EmptyBody()
	}
	if err != nil {
		return cty.NilVal, problem(body, "Invalid schema", err)
	}
	value, diags := hcldec.Decode(body, decoder, vars)
	if diags.HasErrors() {
		loose, err := decodeLoosely(body, decoder, vars)
		if err != nil {
			return cty.NilVal, diags
		}
		value, diags = loose, nil
	}
	// A default may be of another type than what it stands for: 5 for a string.
	value, err = convert.Convert(value, hcldec.ImpliedType(decoder))
	if err == nil && !value.IsWhollyKnown() {
		err = errors.New("a value is not known yet")
	}
	if err != nil {
		return cty.NilVal, append(diags, problem(body, "Invalid configuration", err)...)
	}
	return value, diags
}

// Encode decodes a body as Decode does and returns it as a plugin is sent it.
func Encode(spec schema.Spec, body hcl.Body, vars *hcl.EvalContext) ([]byte, hcl.Diagnostics) {
	value, diags := Decode(spec, body, vars)
	if diags.HasErrors() {
		return nil, diags
	}
	encoded, err := msgpack.Marshal(value, value.Type())
	if err != nil {
		return nil, problem(body, "Invalid configuration", err)
	}
	return encoded, diags
}

// problem is about a body as a whole.
func problem(body hcl.Body, summary string, err error) hcl.Diagnostics {
	d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: err.Error()}
	if body != nil {
		d.Subject = body.MissingItemRange().Ptr()
	}
	return hcl.Diagnostics{d}
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
