// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/driver/schema"
	"github.com/tachograph/tacho/plugin/config"
	"github.com/tachograph/tacho/procstats"
)

func parse(t testing.TB, text string) hcl.Body {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(text), "job.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return file.Body
}

func decode(t testing.TB, encoded []byte) any {
	t.Helper()
	handle := &codec.MsgpackHandle{}
	handle.RawToString = true
	handle.MapType = reflect.TypeFor[map[string]any]()
	var value any
	if err := codec.NewDecoderBytes(encoded, handle).Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func everyKind() schema.Spec {
	return schema.Object{
		"word": schema.Attr{Name: "word", Type: "string", Required: true},
		"list": schema.Attr{Name: "list", Type: "list(string)"},
		"any":  schema.Attr{Name: "any", Type: "any"},
		"wait": schema.Default{Primary: schema.Attr{Name: "wait", Type: "string"}, Default: schema.Literal(`"5s"`)},
		"text": schema.Default{Primary: schema.Attr{Name: "text", Type: "string"}, Default: schema.Literal("5")},
		"maps": schema.Attr{Name: "maps", Type: "list(map(string))"},
		"env":  schema.BlockAttrs{Name: "env", Type: "string"},
		"one":  schema.Block{Name: "one", Nested: schema.Object{"n": schema.Attr{Name: "n", Type: "number"}}},
		"many": schema.BlockList{Name: "many", Max: 2, Nested: schema.Attr{Name: "n", Type: "number"}},
		"set":  schema.BlockSet{Name: "set", Nested: schema.Attr{Name: "n", Type: "number"}},
		"named": schema.BlockMap{
			Name: "named", Labels: []string{"name"},
			Nested: schema.Attr{Name: "n", Type: "number"},
		},
		"pair": schema.Array{schema.Literal("true"), schema.Attr{Name: "word", Type: "string"}},
	}
}

func TestEncode(t *testing.T) {
	nothing := map[string]any{
		"word": "x", "list": nil, "any": nil, "wait": "5s", "text": "5", "maps": nil, "env": nil, "one": nil,
		"many": []any{}, "set": []any{}, "named": map[string]any{}, "pair": []any{true, "x"},
	}
	with := func(key string, value any) map[string]any {
		m := make(map[string]any, len(nothing))
		maps.Copy(m, nothing)
		m[key] = value
		return m
	}
	for _, test := range []struct {
		name, text string
		want       map[string]any
	}{
		{"defaults", `word = "x"`, nothing},
		{"a variable", `word = x`, nothing},
		{"a list", "word = \"x\"\nlist = [\"a\", x]", with("list", []any{"a", "x"})},
		{"converted", "word = \"x\"\nwait = 7", with("wait", "7")},
		{"a block of attributes", "word = \"x\"\nenv {\n A = \"b\"\n}", with("env", map[string]any{"A": "b"})},
		{"the same as an attribute", "word = \"x\"\nenv = { A = x }", with("env", map[string]any{"A": "x"})},
		{"a block", "word = \"x\"\none {\n n = 3\n}", with("one", map[string]any{"n": int64(3)})},
		{"the same as an attribute", "word = \"x\"\none = { n = 3 }", with("one", map[string]any{"n": int64(3)})},
		{"blocks", "word = \"x\"\nmany {\n n = 1\n}\nmany {\n n = 2\n}", with("many", []any{int64(1), int64(2)})},
		{"a set", "word = \"x\"\nset {\n n = 1\n}\nset {\n n = 1\n}", with("set", []any{int64(1)})},
		{"labels", "word = \"x\"\nnamed \"a\" {\n n = 1\n}", with("named", map[string]any{"a": int64(1)})},
		{"a list of maps", "word = \"x\"\nmaps = [{ a = \"b\" }]", with("maps", []any{map[string]any{"a": "b"}})},
		{
			"the same as blocks", "word = \"x\"\nmaps {\n a = \"b\"\n}\nmaps {\n c = \"d\"\n}",
			with("maps", []any{map[string]any{"a": "b"}, map[string]any{"c": "d"}}),
		},
		{
			"text with a template's signs in the loose way", "word = \"x\"\nenv = { A = \"$${x}\" }",
			with("env", map[string]any{"A": "${x}"}),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			vars := &hcl.EvalContext{Variables: map[string]cty.Value{"x": cty.StringVal("x")}}
			encoded, diags := config.Encode(everyKind(), parse(t, test.text), vars)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			if d := cmp.Diff(any(test.want), decode(t, encoded)); d != "" {
				t.Errorf("encoded (-want +got):\n%s", d)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"missing":        `list = []`,
		"unknown key":    "word = \"x\"\nwrod = \"y\"",
		"type":           `word = ["x"]`,
		"unknown block":  "word = \"x\"\nblocks {\n}",
		"too many":       "word = \"x\"\nmany {}\nmany {}\nmany {}",
		"no variable":    `word = nothing`,
		"twice the same": "word = \"x\"\none {}\none {}",
	} {
		encoded, diags := config.Encode(everyKind(), parse(t, text), nil)
		if !diags.HasErrors() {
			t.Errorf("%s: encoded as %x", name, encoded)
			continue
		}
		if d := diags.Errs()[0].Error(); !strings.HasPrefix(d, "job.hcl:") {
			t.Errorf("%s: %s: does not say where", name, d)
		}
	}
	unknown := &hcl.EvalContext{Variables: map[string]cty.Value{"x": cty.UnknownVal(cty.String)}}
	if encoded, diags := config.Encode(everyKind(), parse(t, "word = x"), unknown); !diags.HasErrors() {
		t.Errorf("an unknown value was encoded as %x", encoded)
	}
}

func TestOwnSchemas(t *testing.T) {
	encoded, diags := config.Encode(driver.ConfigSchema(), nil, nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	got, err := driver.DecodeConfig(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(driver.DefaultConfig(), got, cmp.AllowUnexported(procstats.Selection{})); d != "" {
		t.Errorf("an empty body (-defaults +decoded):\n%s", d)
	}
	encoded, diags = config.Encode(driver.ConfigSchema(), parse(t, `
		log_collection = "host"
		process_rows {
			max = 7
		}
		logs {
			max_files     = 2
			max_file_size = 1
		}
		metrics {
			address = "127.0.0.1:0"
		}`), nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	want := driver.DefaultConfig()
	want.LogCollection, want.Rows.Max, want.MetricsAddress = driver.LogsByHost, new(7), "127.0.0.1:0"
	want.Logs = driver.LogLimits{MaxFiles: 2, MaxFileBytes: 1 << 20}
	if got, err = driver.DecodeConfig(encoded); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(procstats.Selection{})); d != "" {
		t.Errorf("config (-want +got):\n%s", d)
	}
}

func TestCheck(t *testing.T) {
	if err := config.Check(everyKind()); err != nil {
		t.Error(err)
	}
	attr := schema.Attr{Name: "a", Type: "any"}
	for name, spec := range map[string]schema.Spec{
		"nothing":          nil,
		"type":             schema.Attr{Name: "a", Type: "lots"},
		"type expression":  schema.Attr{Name: "a", Type: "list("},
		"attrs":            schema.BlockAttrs{Name: "a", Type: "x y"},
		"literal":          schema.Literal("{"),
		"literal variable": schema.Literal("x"),
		"part":             schema.Object{"a": nil},
		"element":          schema.Array{nil},
		"primary":          schema.Default{Default: schema.Literal("1")},
		"default":          schema.Default{Primary: attr},
		"block":            schema.Block{Name: "b"},
		"open list":        schema.BlockList{Name: "b", Nested: attr},
		"open set":         schema.BlockSet{Name: "b", Nested: attr},
		"open map":         schema.BlockMap{Name: "b", Labels: []string{"l"}, Nested: attr},
		"no labels":        schema.BlockMap{Name: "b", Nested: schema.Literal("1")},
	} {
		if err := config.Check(spec); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, driver.ErrInvalid)
		}
		if _, diags := config.Encode(spec, nil, nil); !diags.HasErrors() {
			t.Errorf("%s: encodes", name)
		}
	}
}

// FuzzEncode decodes arbitrary bodies by a schema with every kind, and arbitrary types and literals in it.
func FuzzEncode(f *testing.F) {
	f.Add("word = \"x\"\nenv = { A = 1 }", "list(string)", "5")
	f.Add("word = 1\nmany {\n n = 1\n}\na { b \"c\" {} }", "map(object({a=number}))", "[1, {}]")
	f.Fuzz(func(t *testing.T, text, kind, literal string) {
		file, diags := hclsyntax.ParseConfig([]byte(text), "fuzz", hcl.InitialPos)
		if diags.HasErrors() {
			return
		}
		spec := schema.Object{
			"fixed": everyKind(),
			"attr":  schema.Default{Primary: schema.Attr{Name: "a", Type: kind}, Default: schema.Literal(literal)},
			"list":  schema.BlockList{Name: "b", Nested: schema.Attr{Name: "a", Type: kind}},
		}
		if encoded, diags := config.Encode(spec, file.Body, nil); !diags.HasErrors() {
			decode(t, encoded)
		}
	})
}
