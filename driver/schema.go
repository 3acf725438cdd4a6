// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"github.com/zclconf/go-cty/cty/msgpack"
)

// Schema describes a block of configuration. Hosts decode what users write by it.
type Schema []Key

// Key is an attribute of a block, or a nested block without labels.
type Key struct {
	Name string
	// Type is an HCL type expression such as list(string); empty for a nested block.
	Type     string
	Required bool
	// Default is the value of an attribute that is left out; nil for none.
	Default any
	// Block has the keys of a nested block.
	Block Schema
}

// Literal returns the default as an HCL expression; empty if there is none.
func (k Key) Literal() string {
	if k.Default == nil {
		return ""
	}
	text, err := json.Marshal(k.Default)
	if err != nil {
		panic(err) // defaults are texts, numbers and truth values
	}
	return string(text)
}

// A field is a key with the place in T that its value goes to.
type field[T any] struct {
	Key
	// set puts a value into its place. Its errors begin with the key, such as "disk: interval". A nested block that is
	// left out comes as nil.
	set func(into *T, key string, value any) error
}

// A table has the fields of a block.
type table[T any] []field[T]

// schema returns the keys of a table.
func (t table[T]) schema() Schema {
	s := make(Schema, len(t))
	for i, f := range t {
		s[i] = f.Key
	}
	return s
}

// read puts the values of a block, or the defaults of what it leaves out, into their places. It returns all mistakes.
// A nil block was left out itself.
func (t table[T]) read(into *T, prefix string, block map[string]any) error {
	var mistakes []error
	for _, f := range t {
		value := cmp.Or(block[f.Name], f.Default)
		if value != nil || f.Type == "" || f.Required && block != nil {
			mistakes = append(mistakes, f.set(into, prefix+f.Name, value))
		}
	}
	return joinMistakes(mistakes...)
}

// A kind reads the values of one HCL type.
type kind[V any] struct {
	hcl  string
	read func(key string, value any) (V, error)
}

// checked adds a check of what was read.
func (k kind[V]) checked(check func(key string, v V) error) kind[V] {
	return parsed(k, func(key string, v V) (V, error) { return v, check(key, v) })
}

// parsed is a kind whose values are read on.
func parsed[V, W any](k kind[V], parse func(key string, v V) (W, error)) kind[W] {
	return kind[W]{k.hcl, func(key string, value any) (W, error) {
		v, err := k.read(key, value)
		if err != nil {
			var none W
			return none, err
		}
		return parse(key, v)
	}}
}

// attr is an attribute of a kind, with the place for its value.
func attr[T, V any](name string, k kind[V], fallback any, place func(*T) *V) field[T] {
	return field[T]{Key{Name: name, Type: k.hcl, Default: fallback}, func(into *T, key string, value any) (err error) {
		*place(into), err = k.read(key, value)
		return err
	}}
}

// required is an attribute that must not be left out.
func required[T any](f field[T]) field[T] {
	f.Required = true
	return f
}

// block is a nested block. said, which may be nil, is called if the block is not left out.
func block[T, B any](name string, rows table[B], place func(*T) *B, said func(*B)) field[T] {
	return field[T]{Key{Name: name, Block: rows.schema()}, func(into *T, key string, value any) error {
		values, err := toMap(key, value)
		if err != nil {
			return err
		}
		if said != nil && values != nil {
			said(place(into))
		}
		return rows.read(place(into), key+": ", values)
	}}
}

// within are the fields of a part of T.
func within[T, P any](fields table[P], place func(*T) *P) table[T] {
	all := make(table[T], len(fields))
	for i, f := range fields {
		all[i] = field[T]{f.Key, func(into *T, key string, value any) error { return f.set(place(into), key, value) }}
	}
	return all
}

// wrongType is the mistake in a value that does not fit its schema.
func wrongType(key string, value any, want string) error {
	return invalid("%s %v: must be a %s", key, value, want)
}

func toMap(key string, value any) (map[string]any, error) {
	if value == nil {
		return nil, nil
	}
	values, ok := value.(map[string]any)
	if !ok {
		return nil, wrongType(key, value, "block")
	}
	return values, nil
}

func toText(key string, value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	}
	return "", wrongType(key, value, "string")
}

func toBool(key string, value any) (bool, error) {
	v, ok := value.(bool)
	if !ok {
		return false, wrongType(key, value, "bool")
	}
	return v, nil
}

func toNumber(key string, value any) (float64, error) {
	v := reflect.ValueOf(value)
	switch {
	case v.CanInt():
		return float64(v.Int()), nil
	case v.CanUint():
		return float64(v.Uint()), nil
	case v.CanFloat():
		return v.Float(), nil
	}
	return 0, wrongType(key, value, "number")
}

func toTexts(key string, value any) ([]string, error) { return toList(key, value, toText) }

// toTextMap reads a list of maps as one map: users may write blocks.
func toTextMap(key string, value any) (map[string]string, error) {
	maps, err := toList(key, value, toMap)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, m := range maps {
		for name, v := range m {
			if all[name], err = toText(key, v); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func toList[V any](key string, value any, element func(key string, value any) (V, error)) ([]V, error) {
	values, ok := value.([]any)
	if !ok {
		return nil, wrongType(key, value, "list")
	}
	list := make([]V, len(values))
	for i, v := range values {
		var err error
		if list[i], err = element(key, v); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func text() kind[string]    { return kind[string]{"string", toText} }
func boolean() kind[bool]   { return kind[bool]{"bool", toBool} }
func number() kind[float64] { return kind[float64]{"number", toNumber} }
func texts() kind[[]string] { return kind[[]string]{"list(string)", toTexts} }
func textMap() kind[map[string]string] {
	return kind[map[string]string]{"list(map(string))", toTextMap}
}

// word is one of the allowed words; the first stands for an empty text.
func word(allowed ...string) kind[string] {
	return parsed(text(), func(key, v string) (string, error) {
		if v == "" {
			return allowed[0], nil
		}
		if !slices.Contains(allowed, v) {
			return "", invalid("%s %q: must be %s", key, v, strings.Join(allowed, " or "))
		}
		return v, nil
	})
}

// whole is a whole number within bounds.
func whole(least, most int) kind[int] {
	return parsed(number(), func(key string, v float64) (int, error) {
		if !(v >= float64(least) && v <= float64(most)) || v != math.Trunc(v) { // NaN is not either
			return 0, invalid("%s %v: must be between %d and %d", key, v, least, most)
		}
		return int(v), nil
	})
}

// optional is nil if an attribute is left out.
func optional[V any](k kind[V]) kind[*V] {
	return parsed(k, func(_ string, v V) (*V, error) { return &v, nil })
}

// duration is a text such as 30s, within bounds.
func duration(least, most time.Duration) kind[time.Duration] {
	return parsed(text(), func(key, v string) (time.Duration, error) {
		d, err := time.ParseDuration(v)
		if err != nil {
			return 0, invalid("%s %q: must be a duration such as %q", key, v, least)
		}
		if d < least || d > most {
			return 0, invalid("%s %q: must be between %s and %s", key, v, least, strings.TrimSuffix(most.String(), "0m0s"))
		}
		return d, nil
	})
}

// decode reads a block from MessagePack as hosts write it: maps with string keys, strings of the old raw kind and of
// the new. Nothing at all is an empty block. Unknown keys are those of a later version.
func decode(msgpack []byte) (map[string]any, error) {
	block := make(map[string]any)
	if len(msgpack) == 0 {
		return block, nil
	}
	handle := &codec.MsgpackHandle{}
	handle.RawToString = true
	handle.MapType = reflect.TypeFor[map[string]any]()
	if err := codec.NewDecoder(bytes.NewReader(msgpack), handle).Decode(&block); err != nil {
		return nil, invalid("decode MessagePack: %w", err)
	}
	if block == nil { // an explicit null
		block = make(map[string]any)
	}
	return block, nil
}

// decode decodes a block and puts its values into their places in T.
func (t table[T]) decode(into *T, msgpack []byte) error {
	block, err := decode(msgpack)
	if err != nil {
		return fmt.Errorf("read config: %w", err)
	}
	return t.read(into, "", block)
}

// Encode decodes what a user wrote by a schema and encodes it as hosts send it to a driver, for DecodeConfig and
// DecodeBlock. vars are what expressions in the body may refer to; nil for nothing. A nil body is an empty one.
// Diagnostics name the place in the file.
//
// Other hosts read a config block as a loose tree first, in which a block and an attribute that holds an object are
// the same: a schema may say list(map(string)) where the user writes a block, or a block where the user writes
// name = { … }. Encode does so if the body does not fit as it stands.
func (s Schema) Encode(body hcl.Body, vars *hcl.EvalContext) ([]byte, hcl.Diagnostics) {
	body = cmp.Or(body, hcl.EmptyBody())
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
