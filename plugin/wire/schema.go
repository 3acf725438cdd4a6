// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"fmt"
	"strconv"

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
		return &hclspec.Spec{Kind: &hclspec.Spec_Attr{Attr: convert[hclspec.Attr](&spec)}}
	case schema.Block:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockValue{BlockValue: convert[hclspec.Block](&spec)}}
	case schema.BlockAttrs:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockAttrs{BlockAttrs: convert[hclspec.BlockAttrs](&spec)}}
	case schema.BlockList:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockList{BlockList: convert[hclspec.BlockList](&spec)}}
	case schema.BlockSet:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockSet{BlockSet: convert[hclspec.BlockSet](&spec)}}
	case schema.BlockMap:
		return &hclspec.Spec{Kind: &hclspec.Spec_BlockMap{BlockMap: convert[hclspec.BlockMap](&spec)}}
	case schema.Literal:
		return &hclspec.Spec{Kind: &hclspec.Spec_Literal{Literal: &hclspec.Literal{Value: string(spec)}}}
	case schema.Default:
		return &hclspec.Spec{Kind: &hclspec.Spec_Default{Default: convert[hclspec.Default](&spec)}}
	}
	return nil
}

// ToSchema returns the schema of a message; nil of nil. It is an error where a part is of no kind, or too deep.
func ToSchema(m *hclspec.Spec) (schema.Spec, error) {
	if m == nil {
		return nil, nil
	}
	if err := checkSchema(m, maxSchemaDepth); err != nil {
		return nil, err
	}
	return toSchema(m), nil
}

// checkSchema checks that every part of a message has a kind, and none is too deep.
func checkSchema(m *hclspec.Spec, depth int) error {
	switch {
	case depth == 0:
		return fmt.Errorf("schema is deeper than %d levels: %w", maxSchemaDepth, driver.ErrInvalid)
	case m.GetKind() == nil:
		return fmt.Errorf("schema has a part of unknown kind: %w", driver.ErrInvalid)
	}
	for name, part := range schemaParts(m) {
		if err := checkSchema(part, depth-1); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// schemaParts returns the parts of a message by name.
func schemaParts(m *hclspec.Spec) map[string]*hclspec.Spec {
	switch kind := m.GetKind().(type) {
	case *hclspec.Spec_Object:
		return kind.Object.GetAttributes()
	case *hclspec.Spec_Array:
		parts := make(map[string]*hclspec.Spec)
		for i, part := range kind.Array.GetValues() {
			parts["element "+strconv.Itoa(i)] = part
		}
		return parts
	case *hclspec.Spec_Default:
		return map[string]*hclspec.Spec{"primary": kind.Default.GetPrimary(), "default": kind.Default.GetDefault()}
	case *hclspec.Spec_BlockValue:
		return map[string]*hclspec.Spec{kind.BlockValue.GetName(): kind.BlockValue.GetNested()}
	case *hclspec.Spec_BlockList:
		return map[string]*hclspec.Spec{kind.BlockList.GetName(): kind.BlockList.GetNested()}
	case *hclspec.Spec_BlockSet:
		return map[string]*hclspec.Spec{kind.BlockSet.GetName(): kind.BlockSet.GetNested()}
	case *hclspec.Spec_BlockMap:
		return map[string]*hclspec.Spec{kind.BlockMap.GetName(): kind.BlockMap.GetNested()}
	}
	return nil
}

// toSchema returns the schema of a message that was checked.
func toSchema(m *hclspec.Spec) schema.Spec {
	switch kind := m.GetKind().(type) {
	case *hclspec.Spec_Object:
		object := make(schema.Object, len(kind.Object.GetAttributes()))
		for name, part := range kind.Object.GetAttributes() {
			object[name] = toSchema(part)
		}
		return object
	case *hclspec.Spec_Array:
		var array schema.Array
		for _, part := range kind.Array.GetValues() {
			array = append(array, toSchema(part))
		}
		return array
	case *hclspec.Spec_Attr:
		return *convert[schema.Attr](kind.Attr)
	case *hclspec.Spec_BlockValue:
		return *convert[schema.Block](kind.BlockValue)
	case *hclspec.Spec_BlockAttrs:
		return *convert[schema.BlockAttrs](kind.BlockAttrs)
	case *hclspec.Spec_BlockList:
		return *convert[schema.BlockList](kind.BlockList)
	case *hclspec.Spec_BlockSet:
		return *convert[schema.BlockSet](kind.BlockSet)
	case *hclspec.Spec_BlockMap:
		return *convert[schema.BlockMap](kind.BlockMap)
	case *hclspec.Spec_Default:
		return *convert[schema.Default](kind.Default)
	case *hclspec.Spec_Literal:
		return schema.Literal(kind.Literal.GetValue())
	}
	return nil
}
