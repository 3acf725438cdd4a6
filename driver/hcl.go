// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"github.com/zclconf/go-cty/cty/msgpack"
)

// Encode decodes what a user wrote by a schema and encodes it as hosts send it to a driver, for DecodeConfig and
// DecodeBlock. vars are what expressions in the body may refer to; nil for nothing. A nil body is an empty one.
// Diagnostics name the place in the file.
//
// Other hosts read a config block as a loose tree first, in which a block and an attribute that holds an object are
// the same: a schema may say list(map(string)) where the user writes a block, or a block where the user writes
// name = { … }. Encode does so if the body does not fit as it stands.
func (s Schema) Encode(body hcl.Body, vars *hcl.EvalContext) ([]byte, hcl.Diagnostics) {
	if body == nil {
		body = hcl.EmptyBody()
	}
	decoder := s.decoder()
	value, diags := hcldec.Decode(body, decoder, vars)
	if diags.HasErrors() {
		loose, err := decodeLoosely(body, decoder, vars)
		if err != nil {
			return nil, diags
		}
		value = loose
	}
	encoded, err := []byte(nil), errors.New("a value is not known yet")
	if value.IsWhollyKnown() {
		encoded, err = msgpack.Marshal(value, value.Type())
	}
	if err != nil {
		return nil, hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Invalid configuration", Detail: err.Error(),
			Subject: body.MissingItemRange().Ptr(),
		}}
	}
	return encoded, nil
}

// decoder returns the decoder of a schema.
func (s Schema) decoder() hcldec.ObjectSpec {
	object := make(hcldec.ObjectSpec, len(s))
	for _, k := range s {
		if k.Type == "" {
			object[k.Name] = &hcldec.BlockSpec{TypeName: k.Name, Nested: k.Block.decoder(), Required: k.Required}
			continue
		}
		attribute := &hcldec.AttrSpec{Name: k.Name, Type: typeOf(k.Type), Required: k.Required}
		object[k.Name] = attribute
		if k.Default == nil {
			continue
		}
		value, err := ctyjson.Unmarshal([]byte(k.Literal()), attribute.Type)
		if err != nil {
			panic(err) // defaults have the type of their key
		}
		object[k.Name] = &hcldec.DefaultSpec{Primary: attribute, Default: &hcldec.LiteralSpec{Value: value}}
	}
	return object
}

// typeOf returns the type of a type expression.
func typeOf(text string) cty.Type {
	expression, diags := hclsyntax.ParseExpression([]byte(text), "type", hcl.InitialPos)
	if !diags.HasErrors() {
		var t cty.Type
		if t, diags = typeexpr.TypeConstraint(expression); !diags.HasErrors() {
			return t
		}
	}
	panic(diags) // the types of our schemas are valid
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
	text, err := json.Marshal(tree)
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
func looseTree(body *hclsyntax.Body, vars *hcl.EvalContext) (map[string]any, error) {
	tree := make(map[string]any, len(body.Attributes))
	for name, attribute := range body.Attributes {
		value, diags := attribute.Expr.Value(vars)
		if diags.HasErrors() {
			return nil, diags
		}
		tree[name] = ctyjson.SimpleJSONValue{Value: value}
	}
	for _, block := range body.Blocks {
		list, isBlock := tree[block.Type].([]any)
		if tree[block.Type] != nil && !isBlock {
			return nil, fmt.Errorf("%s is both an attribute and a block", block.Type)
		}
		value, err := looseTree(block.Body, vars)
		if err != nil {
			return nil, err
		}
		for _, label := range slices.Backward(block.Labels) {
			value = map[string]any{label: value}
		}
		tree[block.Type] = append(list, value)
	}
	return tree, nil
}
