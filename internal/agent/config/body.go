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

// decodeBody decodes a body over a struct, by the hcl tags that gohcl reads too: "name", "name,optional" and
// "name,block", and in the structs of blocks "name,label", ",remain" and ",def_range". What the body does not have
// keeps its value. gohcl itself also writes HCL, and what it links for that runs at the start of every executor: a
// third of the time that its packages take there.
func decodeBody(body hcl.Body, into reflect.Value) hcl.Diagnostics {
	fields := fieldsOf(into)
	var content *hcl.BodyContent
	var diags hcl.Diagnostics
	if fields.remain != nil {
		var left hcl.Body
		content, left, diags = body.PartialContent(fields.schema())
		fields.remain.Set(reflect.ValueOf(&left).Elem())
	} else {
		content, diags = body.Content(fields.schema())
	}
	if content == nil {
		return diags
	}
	for _, name := range slices.Sorted(maps.Keys(content.Attributes)) {
		diags = append(diags, decodeAttribute(content.Attributes[name], fields.attributes[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(fields.blocks)) {
		diags = append(diags, decodeBlocks(content.Blocks.OfType(name), fields.blocks[name])...)
	}
	return diags
}

// tagged are the fields of a struct by what their tags say.
type tagged struct {
	attributes, blocks map[string]reflect.Value
	required           map[string]bool
	label              *reflect.Value
	remain, defRange   *reflect.Value
}

func fieldsOf(v reflect.Value) *tagged {
	t := &tagged{attributes: map[string]reflect.Value{}, blocks: map[string]reflect.Value{}, required: map[string]bool{}}
	for i := range v.NumField() {
		field := v.Field(i)
		name, kind, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ",")
		switch kind {
		case "block":
			t.blocks[name] = field
		case "label":
			t.label = &field
		case "remain":
			t.remain = &field
		case "def_range":
			t.defRange = &field
		default:
			if name != "" {
				t.attributes[name] = field
				t.required[name] = kind != "optional" && field.Kind() != reflect.Pointer
			}
		}
	}
	return t
}

func (t *tagged) schema() *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for _, name := range slices.Sorted(maps.Keys(t.attributes)) {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name, Required: t.required[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(t.blocks)) {
		header := hcl.BlockHeaderSchema{Type: name}
		if fieldsOf(reflect.New(structOf(t.blocks[name])).Elem()).label != nil {
			header.LabelNames = []string{"name"}
		}
		schema.Blocks = append(schema.Blocks, header)
	}
	return schema
}

// structOf is the struct of a field for blocks: a pointer to it, or a slice.
func structOf(field reflect.Value) reflect.Type { return field.Type().Elem() }

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

// decodeBlocks decodes the blocks of one type.
func decodeBlocks(blocks hcl.Blocks, field reflect.Value) (diags hcl.Diagnostics) {
	if field.Kind() == reflect.Slice {
		for _, block := range blocks {
			element := reflect.New(structOf(field)).Elem()
			diags = append(diags, decodeBlock(block, element)...)
			field.Set(reflect.Append(field, element))
		}
		return diags
	}
	if len(blocks) > 1 {
		return hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: fmt.Sprintf("Duplicate %s block", blocks[0].Type),
			Detail:  fmt.Sprintf("Only one %s block is allowed. Another was defined at %s.", blocks[0].Type, blocks[0].DefRange),
			Subject: &blocks[1].DefRange,
		}}
	}
	for _, block := range blocks {
		if field.IsNil() {
			field.Set(reflect.New(structOf(field)))
		}
		diags = append(diags, decodeBlock(block, field.Elem())...)
	}
	return diags
}

func decodeBlock(block *hcl.Block, into reflect.Value) hcl.Diagnostics {
	fields := fieldsOf(into)
	if fields.label != nil {
		fields.label.SetString(block.Labels[0])
	}
	if fields.defRange != nil {
		fields.defRange.Set(reflect.ValueOf(block.DefRange))
	}
	return decodeBody(block.Body, into)
}
