// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
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
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
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
		if defs[t.Name()] == nil {
			defs[t.Name()] = node{} // it may have itself in it
			defs[t.Name()] = s.structOf(t, defs)
		}
		return node{"$ref": "#/$defs/" + t.Name()}
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
		if text := s.fields[t.Name()+"."+field.Name]; text != "" {
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
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// TestSchemas holds the schemas in docs against the types; -update writes them.
func TestSchemas(t *testing.T) {
	for file, document := range schemas(t) {
		path := filepath.Join("..", "..", "docs", file)
		if *update {
			if err := os.WriteFile(path, document, 0o644); err != nil {
				t.Fatal(err)
			}
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
	if err := json.Unmarshal(document, &schema); err != nil {
		t.Fatal(err)
	}
	return validator{schema, schema["$defs"].(map[string]any)}
}

// validate returns what is wrong with a file; empty for nothing.
func (v validator) validate(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
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

// random fills a value with what its type allows; enums get their words, and pointers, slices and maps are often empty.
func (s sources) random(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			s.random(r, v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				s.random(r, v.Field(i))
			}
		}
	case reflect.Slice:
		for range r.IntN(4) {
			item := reflect.New(v.Type().Elem()).Elem()
			s.random(r, item)
			v.Set(reflect.Append(v, item))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for n := range r.IntN(4) {
			item := reflect.New(v.Type().Elem()).Elem()
			s.random(r, item)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("key", n)), item)
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{r.NormFloat64() * 1e9, "text"}[r.IntN(2)]))
	case reflect.String:
		words := append([]string{"a\x1b\"b\u2028"}, s.words[v.Type().Name()]...)
		if v.Type() != reflect.TypeFor[string]() && len(words) > 1 {
			words = words[1:]
		}
		v.SetString(words[r.IntN(len(words))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(r.NormFloat64() * math.Pow(10, float64(r.IntN(18)-6)))
	case reflect.Uint64:
		v.SetUint(r.Uint64())
	default:
		v.SetInt(int64(r.Int32()))
	}
}

// TestRecordsValidate writes a thousand runs, with every way in which a task can end, and holds their files against
// the schemas.
func TestRecordsValidate(t *testing.T) {
	documents, s := schemas(t), parseSources(t, ".", "../../procstats")
	infos, lines := newValidator(t, documents["info.schema.json"]), newValidator(t, documents["usage.schema.json"])
	r := rand.New(rand.NewPCG(14, 1000)) //nolint:gosec // the same runs each time
	ends := endCases()
	for n := range 1000 {
		final, usage := &Record{}, &Usage{}
		s.random(r, reflect.ValueOf(final).Elem())
		s.random(r, reflect.ValueOf(usage).Elem())
		final.SchemaVersion, usage.SchemaVersion = SchemaVersion, SchemaVersion
		if n%2 == 0 {
			final.Diagnosis = ends[n%len(ends)].record().Diagnosis
		}
		text, err := json.Marshal(final)
		line, lineErr := json.Marshal(usage)
		if err := errors.Join(err, lineErr); err != nil {
			t.Fatal(err)
		}
		if n%20 == 0 { // a store waits for the disk
			text, line = written(t, final, usage)
		}
		if wrong := infos.validate(t, text); wrong != "" {
			t.Fatalf("run %d: %s\n%s", n, wrong, text)
		}
		if wrong := lines.validate(t, line); wrong != "" {
			t.Fatalf("usage %d: %s\n%s", n, wrong, line)
		}
	}
	for file, wrong := range map[string]string{
		`{}`: "is missing", `{"schema_version": 1}`: "is missing", `[]`: "is not",
	} {
		if got := infos.validate(t, []byte(file)); !strings.Contains(got, wrong) {
			t.Errorf("%s: %q, want %q", file, got, wrong)
		}
	}
}

// written returns the files of a run as a store writes them.
func written(t *testing.T, final *Record, usage *Usage) (info, line []byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	store, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(final); err != nil {
		t.Fatal(err)
	}
	if err := store.Append(usage, false); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	info, err = os.ReadFile(filepath.Join(dir, InfoFile))
	if err != nil {
		t.Fatal(err)
	}
	line, err = os.ReadFile(filepath.Join(dir, UsageFile))
	if err != nil {
		t.Fatal(err)
	}
	return info, line
}
