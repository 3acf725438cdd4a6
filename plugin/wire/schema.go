// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"fmt"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/driver/schema"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
)

// maxSchemaDepth bounds how deep a schema may contain itself: a driver's own has three or four levels, and a
// plugin must not be able to exhaust its host's stack.
const maxSchemaDepth = 64

// FromSchema returns the message of a schema; nil of nil.
func FromSchema(spec schema.Spec) *hclspec.Spec {
	switch spec := spec.(type) {
	case schema.Object:
		object := &hclspec.Object{Attributes: make(map[string]*hclspec.Spec, len(spec))}
		for name, part := range spec {
			object.Attributes[name] = FromSchema(part)
		}
		return &hclspec.Spec{Kind: &hclspec.Spec_Object{Object: object}}
	case schema.Array:
		array := new(hclspec.Array)
		for _, part := range spec {
			array.Values = append(array.Values, FromSchema(part))
		}
		return &hclspec.Spec{Kind: &hclspec.Spec_Array{Array: array}}
	case schema.Attr:
		return &hclspec.Spec{Kind: &hclspec.Spec_Attr{Attr: &hclspec.Attr{
			Name: spec.Name, Type: spec.Type, Required: spec.Required,
		}}}
	case schema.Block:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockValue{BlockValue: &hclspec.Block{
			Name: spec.Name, Required: spec.Required, Nested: FromSchema(spec.Nested),
		}}}
	case schema.BlockAttrs:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockAttrs{BlockAttrs: &hclspec.BlockAttrs{
			Name: spec.Name, Type: spec.Type, Required: spec.Required,
		}}}
	case schema.BlockList:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockList{BlockList: &hclspec.BlockList{
			Name: spec.Name, MinItems: spec.Min, MaxItems: spec.Max, Nested: FromSchema(spec.Nested),
		}}}
	case schema.BlockSet:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockSet{BlockSet: &hclspec.BlockSet{
			Name: spec.Name, MinItems: spec.Min, MaxItems: spec.Max, Nested: FromSchema(spec.Nested),
		}}}
	case schema.BlockMap:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockMap{BlockMap: &hclspec.BlockMap{
			Name: spec.Name, Labels: spec.Labels, Nested: FromSchema(spec.Nested),
		}}}
	case schema.Literal:
		return &hclspec.Spec{Kind: &hclspec.Spec_Literal{Literal: &hclspec.Literal{Value: string(spec)}}}
	case schema.Default:
		return &hclspec.Spec{Kind: &hclspec.Spec_Default{Default: &hclspec.Default{
			Primary: FromSchema(spec.Primary), Default: FromSchema(spec.Default),
		}}}
	}
	return nil
}

// ToSchema returns the schema of a message; nil of nil. It is an error where a part is of no kind, or too deep.
func ToSchema(m *hclspec.Spec) (schema.Spec, error) {
	if m == nil {
		return nil, nil
	}
	return toSchema(m, maxSchemaDepth)
}

func toSchema(m *hclspec.Spec, depth int) (schema.Spec, error) {
	if depth == 0 {
		return nil, fmt.Errorf("schema is deeper than %d levels: %w", maxSchemaDepth, driver.ErrInvalid)
	}
	switch kind := m.GetKind().(type) {
	case *hclspec.Spec_Object:
		return toObject(kind.Object, depth-1)
	case *hclspec.Spec_Array:
		return toArray(kind.Array, depth-1)
	case *hclspec.Spec_Attr:
		return schema.Attr{Name: kind.Attr.GetName(), Type: kind.Attr.GetType(), Required: kind.Attr.GetRequired()}, nil
	case *hclspec.Spec_BlockAttrs:
		b := kind.BlockAttrs
		return schema.BlockAttrs{Name: b.GetName(), Type: b.GetType(), Required: b.GetRequired()}, nil
	case *hclspec.Spec_Literal:
		return schema.Literal(kind.Literal.GetValue()), nil
	case *hclspec.Spec_Default:
		return toDefault(kind.Default, depth-1)
	}
	return toBlocks(m, depth-1)
}

func toObject(m *hclspec.Object, depth int) (schema.Spec, error) {
	object := make(schema.Object, len(m.GetAttributes()))
	for name, part := range m.GetAttributes() {
		spec, err := toSchema(part, depth)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		object[name] = spec
	}
	return object, nil
}

func toArray(m *hclspec.Array, depth int) (schema.Spec, error) {
	var array schema.Array
	for i, part := range m.GetValues() {
		spec, err := toSchema(part, depth)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		array = append(array, spec)
	}
	return array, nil
}

func toDefault(m *hclspec.Default, depth int) (schema.Spec, error) {
	primary, err := toSchema(m.GetPrimary(), depth)
	if err != nil {
		return nil, err
	}
	fallback, err := toSchema(m.GetDefault(), depth)
	if err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	return schema.Default{Primary: primary, Default: fallback}, nil
}

// toBlocks reads the kinds that have a block with something nested in it.
func toBlocks(m *hclspec.Spec, depth int) (schema.Spec, error) {
	switch kind := m.GetKind().(type) {
	case *hclspec.Spec_BlockValue:
		b := kind.BlockValue
		nested, err := toNested(b.GetName(), b.GetNested(), depth)
		return schema.Block{Name: b.GetName(), Required: b.GetRequired(), Nested: nested}, err
	case *hclspec.Spec_BlockList:
		b := kind.BlockList
		nested, err := toNested(b.GetName(), b.GetNested(), depth)
		return schema.BlockList{Name: b.GetName(), Min: b.GetMinItems(), Max: b.GetMaxItems(), Nested: nested}, err
	case *hclspec.Spec_BlockSet:
		b := kind.BlockSet
		nested, err := toNested(b.GetName(), b.GetNested(), depth)
		return schema.BlockSet{Name: b.GetName(), Min: b.GetMinItems(), Max: b.GetMaxItems(), Nested: nested}, err
	case *hclspec.Spec_BlockMap:
		b := kind.BlockMap
		nested, err := toNested(b.GetName(), b.GetNested(), depth)
		return schema.BlockMap{Name: b.GetName(), Labels: b.GetLabels(), Nested: nested}, err
	}
	return nil, fmt.Errorf("schema has a part of unknown kind: %w", driver.ErrInvalid)
}

func toNested(name string, m *hclspec.Spec, depth int) (schema.Spec, error) {
	spec, err := toSchema(m, depth)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return spec, nil
}
