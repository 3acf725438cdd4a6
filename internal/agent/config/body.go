// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"
)

// decodeBody decodes a body into a struct, by the tags "name,optional" and "name,block" that gohcl reads too. What
// the body does not set keeps its value. Blocks of the labelled types are returned. gohcl itself also writes HCL, and
// what it links for that runs at the start of every executor: a third of the time that its packages take there.
func decodeBody(body hcl.Body, into reflect.Value, labelled ...string) (others hcl.Blocks, diags hcl.Diagnostics) {
	attributes, blocks := fieldsOf(into)
	schema := &hcl.BodySchema{}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: name})
	}
	for _, name := range labelled {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: name, LabelNames: []string{"name"}})
	}
	content, diags := body.Content(schema)
	if content == nil {
		return nil, diags
	}
	for _, name := range slices.Sorted(maps.Keys(content.Attributes)) {
		diags = append(diags, decodeAttribute(content.Attributes[name], attributes[name])...)
	}
	for _, block := range content.Blocks {
		field, isField := blocks[block.Type]
		if !isField {
			others = append(others, block)
			continue
		}
		diags = append(diags, duplicates(block, content.Blocks)...)
		_, inner := decodeBody(block.Body, field)
		diags = append(diags, inner...)
	}
	return others, diags
}

// fieldsOf returns the fields of a struct for attributes and for blocks.
func fieldsOf(v reflect.Value) (attributes, blocks map[string]reflect.Value) {
	attributes, blocks = map[string]reflect.Value{}, map[string]reflect.Value{}
	for i := range v.NumField() {
		switch name, kind, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ","); kind {
		case "block":
			blocks[name] = v.Field(i)
		case "optional":
			attributes[name] = v.Field(i)
		}
	}
	return attributes, blocks
}

// duplicates reports a block that is not the first of its type.
func duplicates(block *hcl.Block, all hcl.Blocks) hcl.Diagnostics {
	first := all.OfType(block.Type)[0]
	if block == first {
		return nil
	}
	return hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: fmt.Sprintf("Duplicate %s block", block.Type),
		Detail:  fmt.Sprintf("Only one %s block is allowed. Another was defined at %s.", block.Type, first.DefRange),
		Subject: &block.DefRange,
	}}
}

func decodeAttribute(attribute *hcl.Attribute, field reflect.Value) hcl.Diagnostics {
	value, diags := attribute.Expr.Value(nil)
	if diags.HasErrors() {
		return diags
	}
	wanted, err := gocty.ImpliedType(field.Interface())
	if err == nil {
		value, err = convert.Convert(value, wanted)
	}
	if err == nil {
		err = gocty.FromCtyValue(value, field.Addr().Interface())
	}
	if err != nil {
		return append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Unsuitable value type", Detail: fmt.Sprintf("Unsuitable value: %s", err),
			Subject: attribute.Expr.StartRange().Ptr(), Context: attribute.Expr.Range().Ptr(),
		})
	}
	return diags
}
