// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

var update = flag.Bool("update", false, "write the schemas in docs")

// node is a JSON Schema, draft 2020-12, as far as records need it.
type node map[string]any

// sources has what the Go files say of types: the comments of their fields, and the constants of the words among them.
type sources struct {
	fields map[string]string   // Type.Field to its comment
	words  map[string][]string // Type to its values
}

func parseSources(t *testing.T, dirs ...string) sources {
	t.Helper()
	s := sources{map[string]string{}, map[string][]string{}}
	for _, dir := range dirs {
		files := testkit.Value(filepath.Glob(filepath.Join(dir, "*.go")))(t)
		for _, name := range files {
			file := testkit.Value(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments))(t)
			ast.Inspect(file, func(n ast.Node) bool {
				s.add(n)
				return true
			})
		}
	}
	return s
}

func (s sources) add(n ast.Node) {
	switch n := n.(type) {
	case *ast.TypeSpec:
		fields, ok := n.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, field := range fields.Fields.List {
			for _, name := range field.Names {
				s.fields[n.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
			}
		}
	case *ast.ValueSpec:
		kind, ok := n.Type.(*ast.Ident)
		if !ok || len(n.Values) != 1 {
			return
		}
		if literal, ok := n.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			word, _ := strconv.Unquote(literal.Value)
			s.words[kind.Name] = append(s.words[kind.Name], word)
		}
	}
}

// schemaOf returns the schema of a type; structures go to defs.
func (s sources) schemaOf(t reflect.Type, defs node) node {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return node{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return node{"anyOf": []any{s.schemaOf(t.Elem(), defs), node{"type": "null"}}}
	case t.Kind() == reflect.Struct:
		name := nameOf(t)
		if defs[name] == nil {
			defs[name] = node{} // it may have itself in it
			defs[name] = s.structOf(t, defs)
		}
		return node{"$ref": "#/$defs/" + name}
	case t.Kind() == reflect.Slice:
		return node{"anyOf": []any{node{"type": "array", "items": s.schemaOf(t.Elem(), defs)}, node{"type": "null"}}}
	case t.Kind() == reflect.Map:
		return node{"anyOf": []any{node{"type": "object", "additionalProperties": s.schemaOf(t.Elem(), defs)}, node{"type": "null"}}}
	case t.Kind() == reflect.Interface:
		return node{"type": []any{"number", "string"}}
	case t.Kind() == reflect.Bool:
		return node{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return node{"type": "number"}
	case t.Kind() != reflect.String:
		return node{"type": "integer"}
	}
	n := node{"type": "string"}
	if words := s.words[t.Name()]; len(words) > 0 && t.Name() != "Outcome" {
		n["enum"] = words
	}
	return n
}

// nameOf is the name of a type without its parameters.
func nameOf(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	return name
}

func (s sources) structOf(t reflect.Type, defs node) node {
	properties, required := node{}, []string{}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if field.Anonymous { // JSON has its fields in its place
			part := s.structOf(field.Type, defs)
			maps.Copy(properties, part["properties"].(node))
			required = append(required, part["required"].([]string)...)
			continue
		}
		property := s.schemaOf(field.Type, defs)
		if text := s.fields[nameOf(t)+"."+field.Name]; text != "" {
			property["description"] = text
		}
		if properties[name] = property; options == "" {
			required = append(required, name)
			if words, ok := property["enum"].([]string); ok { // empty if not known
				property["enum"] = append(slices.Clone(words), "")
			}
		}
	}
	return node{"type": "object", "properties": properties, "required": required}
}

// documentOf returns the whole schema of a type, as a file of docs.
func (s sources) documentOf(t *testing.T, title string, of reflect.Type) []byte {
	t.Helper()
	defs := node{}
	root := s.schemaOf(of, defs)
	root["$schema"], root["title"], root["$defs"] = "https://json-schema.org/draft/2020-12/schema", title, defs
	text := testkit.Value(json.MarshalIndent(root, "", "  "))(t)
	return append(text, '\n')
}

// TestSchemas holds the schemas in docs against the types; -update writes them.
func TestSchemas(t *testing.T) {
	for file, document := range schemas(t) {
		path := filepath.Join("..", "..", "docs", file)
		if *update {
			must(t, os.WriteFile(path, document, 0o644))
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, document) {
			t.Errorf("%s is not that of the types (%v): go test ./executor/record -update", path, err)
		}
	}
}

func schemas(t *testing.T) map[string][]byte {
	t.Helper()
	s := parseSources(t, ".", "../../procstats")
	return map[string][]byte{
		"info.schema.json":  s.documentOf(t, "info.json of a run", reflect.TypeFor[Record]()),
		"usage.schema.json": s.documentOf(t, "a line of usage.jsonl", reflect.TypeFor[Usage]()),
	}
}

// validator checks values against a schema that was read from its file.
type validator struct{ schema, defs map[string]any }

func newValidator(t *testing.T, document []byte) validator {
	t.Helper()
	var schema map[string]any
	must(t, json.Unmarshal(document, &schema))
	return validator{schema, schema["$defs"].(map[string]any)}
}

// validate returns what is wrong with a record in JSON; empty for nothing.
func (v validator) validate(t *testing.T, record any) string {
	t.Helper()
	text := testkit.Value(encode(record, ""))(t)
	var value any
	must(t, json.Unmarshal(text, &value))
	return v.check("record", v.schema, value)
}

// check returns what is wrong at a place; empty for nothing.
func (v validator) check(place string, schema map[string]any, value any) string {
	if ref, ok := schema["$ref"].(string); ok {
		definition, _ := v.defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		return v.check(place, definition, value)
	}
	if choices, ok := schema["anyOf"].([]any); ok {
		var wrong []string
		for _, choice := range choices {
			text := v.check(place, choice.(map[string]any), value)
			if text == "" {
				return ""
			}
			wrong = append(wrong, text)
		}
		return strings.Join(wrong, "; ")
	}
	if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, value) {
		return fmt.Sprintf("%s: %v is not one of %v", place, value, words)
	}
	kinds, ok := schema["type"].([]any)
	if !ok {
		kinds = []any{schema["type"]}
	}
	if !slices.ContainsFunc(kinds, func(kind any) bool { return isOf(value, kind) }) {
		return fmt.Sprintf("%s: %T is not %v", place, value, kinds)
	}
	return v.checkParts(place, schema, value)
}

func (v validator) checkParts(place string, schema map[string]any, value any) string {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if wrong := v.check(fmt.Sprintf("%s[%d]", place, i), schema["items"].(map[string]any), item); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, given := value[name.(string)]; !given {
				return fmt.Sprintf("%s: %s is missing", place, name)
			}
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, item := range value {
			property, known := properties[name].(map[string]any)
			if !known {
				property, known = schema["additionalProperties"].(map[string]any)
			}
			if !known {
				return fmt.Sprintf("%s: %s is not in the schema", place, name)
			}
			if wrong := v.check(place+"."+name, property, item); wrong != "" {
				return wrong
			}
		}
	case string:
		if schema["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339Nano, value); err != nil {
				return fmt.Sprintf("%s: %v", place, err)
			}
		}
	}
	return ""
}

func isOf(value, kind any) bool {
	switch value := value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && value == math.Trunc(value)
	case []any:
		return kind == "array"
	}
	return kind == "object"
}

// fill sets every field of a value to something that is not zero, and has one entry in every list and map. Words get
// the first of their values.
func (s sources) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		s.fill(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1e9, 1)))
			return
		}
		for _, field := range v.Fields() {
			s.fill(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		s.fill(v.Index(0))
	case reflect.Map:
		item := reflect.New(v.Type().Elem()).Elem()
		s.fill(item)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), item)
	case reflect.Interface:
		v.Set(reflect.ValueOf("a\x1b\"b\u2028"))
	case reflect.String:
		v.SetString(append(s.words[v.Type().Name()], "text")[0])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5e-7)
	case reflect.Uint64:
		v.SetUint(math.MaxUint64)
	default:
		v.SetInt(-3)
	}
}

// TestRecordsValidate holds records with nothing and with everything in them, and every way in which a task can end,
// against the schemas.
func TestRecordsValidate(t *testing.T) {
	documents, s := schemas(t), parseSources(t, ".", "../../procstats")
	infos, lines := newValidator(t, documents["info.schema.json"]), newValidator(t, documents["usage.schema.json"])
	whole, usage := &Record{}, &Usage{}
	s.fill(reflect.ValueOf(whole).Elem())
	s.fill(reflect.ValueOf(usage).Elem())
	records := []*Record{{}, whole}
	for _, end := range endCases() {
		records = append(records, end.record())
	}
	for _, r := range records {
		testkit.Equal(t, infos.validate(t, r), "", "%+v", r)
	}
	for _, u := range []*Usage{{}, usage} {
		testkit.Equal(t, lines.validate(t, u), "", "%+v", u)
	}
	for file, wrong := range map[string]string{
		`{}`: "is missing", `{"schema_version": 1}`: "is missing", `[]`: "is not",
	} {
		if got := infos.validate(t, json.RawMessage(file)); !strings.Contains(got, wrong) {
			t.Errorf("%s: %q, want %q", file, got, wrong)
		}
	}
}
