// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package config turns the configuration blocks that people write into what a driver plugin is sent: it checks
// and decodes an HCL body by the plugin's schema and encodes the result as MessagePack.
package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/driver/schema"
)

// Check reports what is wrong with a schema: a plugin's may be anything.
func Check(spec schema.Spec) error {
	_, err := translate(spec)
	return err
}

// translate returns the decoder of a schema. It refuses what the decoder would panic at.
func translate(spec schema.Spec) (hcldec.Spec, error) {
	switch spec := spec.(type) {
	case nil:
		return nil, fmt.Errorf("schema has an empty part: %w", driver.ErrInvalid)
	case schema.Object:
		return translateObject(spec)
	case schema.Array:
		return translateArray(spec)
	case schema.Attr:
		t, err := parseType(spec.Name, spec.Type)
		return &hcldec.AttrSpec{Name: spec.Name, Type: t, Required: spec.Required}, err
	case schema.BlockAttrs:
		t, err := parseType(spec.Name, spec.Type)
		return &hcldec.BlockAttrsSpec{TypeName: spec.Name, ElementType: t, Required: spec.Required}, err
	case schema.Literal:
		return translateLiteral(spec)
	case schema.Default:
		return translateDefault(spec)
	}
	return translateBlock(spec)
}

func translateObject(spec schema.Object) (hcldec.Spec, error) {
	object := make(hcldec.ObjectSpec, len(spec))
	for name, part := range spec {
		translated, err := translate(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		object[name] = translated
	}
	return object, nil
}

func translateArray(spec schema.Array) (hcldec.Spec, error) {
	tuple := make(hcldec.TupleSpec, len(spec))
	for i, part := range spec {
		translated, err := translate(part)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		tuple[i] = translated
	}
	return tuple, nil
}

func translateBlock(spec schema.Spec) (hcldec.Spec, error) {
	switch spec := spec.(type) {
	case schema.Block:
		nested, err := translateNested(spec.Name, spec.Nested, false)
		return &hcldec.BlockSpec{TypeName: spec.Name, Nested: nested, Required: spec.Required}, err
	case schema.BlockList:
		nested, err := translateNested(spec.Name, spec.Nested, true)
		return &hcldec.BlockListSpec{
			TypeName: spec.Name, Nested: nested, MinItems: count(spec.Min), MaxItems: count(spec.Max),
		}, err
	case schema.BlockSet:
		nested, err := translateNested(spec.Name, spec.Nested, true)
		return &hcldec.BlockSetSpec{
			TypeName: spec.Name, Nested: nested, MinItems: count(spec.Min), MaxItems: count(spec.Max),
		}, err
	case schema.BlockMap:
		if len(spec.Labels) == 0 {
			return nil, fmt.Errorf("%s: a map of blocks needs a label: %w", spec.Name, driver.ErrInvalid)
		}
		nested, err := translateNested(spec.Name, spec.Nested, true)
		return &hcldec.BlockMapSpec{TypeName: spec.Name, LabelNames: spec.Labels, Nested: nested}, err
	}
	return nil, fmt.Errorf("schema has a part of unknown kind %T: %w", spec, driver.ErrInvalid)
}

// translateNested translates what is in a block. Blocks in a collection must all be of one type, so none may leave
// its type open.
func translateNested(name string, spec schema.Spec, inCollection bool) (hcldec.Spec, error) {
	nested, err := translate(spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if inCollection && hcldec.ImpliedType(nested).HasDynamicTypes() {
		return nil, fmt.Errorf("%s: the type any cannot be used in repeated blocks: %w", name, driver.ErrInvalid)
	}
	return nested, nil
}

// count keeps a number of the wire within what the decoder can count.
func count(n uint64) int {
	const most = 1 << 30
	return int(min(n, most))
}

func parseType(name, text string) (cty.Type, error) {
	expression, diags := hclsyntax.ParseExpression([]byte(text), name, hcl.InitialPos)
	if !diags.HasErrors() {
		var t cty.Type
		if t, diags = typeexpr.TypeConstraint(expression); !diags.HasErrors() {
			return t, nil
		}
	}
	return cty.DynamicPseudoType, fmt.Errorf("%s: %q is not a type: %w: %w", name, text, diags, driver.ErrInvalid)
}

func translateLiteral(spec schema.Literal) (hcldec.Spec, error) {
	expression, diags := hclsyntax.ParseExpression([]byte(spec), "literal", hcl.InitialPos)
	if !diags.HasErrors() {
		var value cty.Value
		if value, diags = expression.Value(nil); !diags.HasErrors() {
			return &hcldec.LiteralSpec{Value: value}, nil
		}
	}
	return nil, fmt.Errorf("%q is not a literal: %w: %w", string(spec), diags, driver.ErrInvalid)
}

func translateDefault(spec schema.Default) (hcldec.Spec, error) {
	primary, err := translate(spec.Primary)
	if err != nil {
		return nil, err
	}
	fallback, err := translate(spec.Default)
	if err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	return &hcldec.DefaultSpec{Primary: primary, Default: fallback}, nil
}
