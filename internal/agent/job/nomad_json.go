// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// jsonFilename is the name of a translated job in messages, until [Translation.Explain] replaces lines by paths.
const jsonFilename = "job.json"

// Translation is a job in Nomad's JSON, written as a job file: one key in a line.
type Translation struct {
	Source Source
	// Stop says that the job shall not run.
	Stop  bool
	lines []jsonLine
}

// jsonLine has the JSON paths of a line: of the line as a whole, and of the label behind its first word, if there is
// one.
type jsonLine struct{ path, label string }

// Translate writes a job in the JSON of Nomad's API as a job file. It also writes what a job file cannot express, so
// that Read rejects it by its name. It omits null and empty values, whose defaults are those of the file.
func Translate(text []byte) (*Translation, error) {
	var j object
	if err := newDecoder(text).Decode(&j); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			err = errors.New("must be an object")
		}
		return nil, fmt.Errorf("read the job's JSON: %w", err)
	}
	w := &jsonWriter{}
	w.labelled("Job", "job", "ID", j, func() { w.object("Job", j, jobKeys()) })
	stop, _ := j["Stop"].(bool)
	source := Source{Filename: jsonFilename, Text: w.text.String()}
	return &Translation{Source: source, Stop: stop, lines: w.lines}, nil
}

// newDecoder returns a decoder that keeps numbers as they are written.
func newDecoder(text []byte) *json.Decoder {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder
}

// Explain replaces the lines of the translated text in a message by paths in the JSON.
func (t *Translation) Explain(message string) string {
	inJSON := regexp.MustCompile(regexp.QuoteMeta(jsonFilename) + `:(\d+)(?:,(\d+)[\d,-]*)?`) // a place in the text
	return inJSON.ReplaceAllStringFunc(message, func(place string) string {
		found := inJSON.FindStringSubmatch(place)
		line, err := strconv.Atoi(found[1])
		if err != nil || line < 1 || line > len(t.lines) {
			return place
		}
		if label := t.lines[line-1].label; label != "" && found[2] != "" && found[2] != "1" {
			return label
		}
		return t.lines[line-1].path
	})
}

// object is an object of the JSON.
type object map[string]any

func (o object) text(key string) string {
	text, _ := o[key].(string)
	return text
}

// keys are the rules by which the keys of an object are written.
type keys map[string]writer

// jsonWriter writes a job file and records the JSON path of each line.
type jsonWriter struct {
	text  strings.Builder
	lines []jsonLine
}

func (w *jsonWriter) line(path, format string, args ...any) {
	fmt.Fprintf(&w.text, format+"\n", args...)
	w.lines = append(w.lines, jsonLine{path: path})
}

// object writes an object. A key without a rule is written under its name in a job file, which Read rejects if it is
// unknown.
func (w *jsonWriter) object(path string, o object, rules keys) {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		v := o[key]
		if v == nil {
			continue
		}
		rule, known := rules[key]
		if !known {
			rule = scalar(fileKey(key))
		}
		rule(w, path+"."+key, v)
	}
}

// labelled writes a block that is named by a key of its object.
func (w *jsonWriter) labelled(path, kind, key string, o object, inside func()) {
	w.line(path, "%s %s {", kind, quoted(o.text(key), false))
	w.lines[len(w.lines)-1].label = path + "." + key
	inside()
	w.line(path, "}")
}

var notInIdentifier = regexp.MustCompile(`[^A-Za-z0-9_]`)

// Identifier returns a name with underscores for what cannot stand in that of a variable, a label or a key.
func Identifier(name string) string { return notInIdentifier.ReplaceAllString(name, "_") }

// fileKey returns the key of a job file for one of the JSON: MaxFiles is max_files.
func fileKey(key string) string {
	var b strings.Builder
	for i, r := range key {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return Identifier(b.String())
}

// empty reports whether a value means the same as an absent one.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case json.Number:
		n, err := v.Float64()
		return err == nil && n == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// unset reports whether all values in an object are empty.
func unset(v any) bool {
	o, ok := v.(map[string]any)
	if !ok {
		return empty(v)
	}
	for _, inner := range o {
		if !unset(inner) {
			return false
		}
	}
	return true
}

// scalar writes an attribute, unless it is empty.
func scalar(name string) writer { return always(name).unlessEmpty }

// unlessEmpty writes an attribute that has a value.
func (write writer) unlessEmpty(w *jsonWriter, path string, v any) {
	if !empty(v) {
		write(w, path, v)
	}
}

// always writes an attribute whose zero is not its default.
func always(name string) writer {
	return func(w *jsonWriter, path string, v any) { w.line(path, "%s = %s", name, expression(v, true)) }
}

// literal writes a string in which nothing is evaluated, unless it is empty.
func literal(name string) writer { return text(name).unlessEmpty }

// text writes a string in which nothing is evaluated, even an empty one.
func text(name string) writer {
	return func(w *jsonWriter, path string, v any) { w.line(path, "%s = %s", name, expression(v, false)) }
}

// span writes a number of nanoseconds as a duration, and a string such as "10s" as it is. It omits negative numbers.
func span(name string) writer { return spanFrom(0, name) }

// positiveSpan also omits zero.
func positiveSpan(name string) writer { return spanFrom(1, name) }

func spanFrom(least int64, name string) writer {
	return func(w *jsonWriter, path string, v any) {
		if n, isNumber := v.(json.Number); isNumber {
			if ns, err := n.Int64(); err == nil && ns >= least {
				w.line(path, "%s = %q", name, time.Duration(ns).String())
			}
			return
		}
		scalar(name)(w, path, v)
	}
}

// ignored omits what a server fills in, or what has no effect here with the given values.
func ignored(values ...string) writer {
	return func(w *jsonWriter, path string, v any) {
		if len(values) > 0 && !empty(v) && !slices.Contains(values, fmt.Sprint(v)) {
			w.line(path, "%s = %s", fileKey(path[strings.LastIndexByte(path, '.')+1:]), expression(v, true))
		}
	}
}

// named writes an empty block: its name alone decides whether it is supported.
func named(name string) writer {
	return func(w *jsonWriter, path string, v any) {
		if !unset(v) {
			w.line(path, "%s {}", name)
		}
	}
}

// setBlock writes an object as a block, unless all values in it are empty.
func setBlock(name string, rules func() keys) writer {
	return func(w *jsonWriter, path string, v any) {
		if !unset(v) {
			block(name, rules)(w, path, v)
		}
	}
}

// block writes an object, or each of a list, as a block.
func block(name string, rules func() keys) writer {
	return each(func(w *jsonWriter, path string, o object) {
		w.line(path, "%s {", name)
		w.object(path, o, rules())
		w.line(path, "}")
	})
}

// labelledBlocks writes each object of a list as a block with its name.
func labelledBlocks(kind, label string, rules func() keys) writer {
	return each(func(w *jsonWriter, path string, o object) {
		w.labelled(path, kind, label, o, func() { w.object(path, o, rules()) })
	})
}

func each(write func(w *jsonWriter, path string, o object)) writer {
	return func(w *jsonWriter, path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			write(w, path, v)
		case []any:
			for i, inner := range v {
				if o, ok := inner.(map[string]any); ok {
					write(w, fmt.Sprintf("%s[%d]", path, i), o)
				}
			}
		default:
			w.line(path, "_ = %s", expression(v, false))
		}
	}
}

// body writes an object as a block of attributes with any names.
func body(name string) writer {
	return func(w *jsonWriter, path string, v any) {
		o, ok := v.(map[string]any)
		if !ok {
			scalar(name)(w, path, v)
			return
		}
		w.line(path, "%s {", name)
		for _, key := range slices.Sorted(maps.Keys(o)) {
			switch {
			case o[key] == nil:
			case hclsyntax.ValidIdentifier(key):
				w.line(path+"."+key, "%s = %s", key, expression(o[key], true))
			default: // an unknown key, as any that is not an identifier is
				w.line(path+"."+key, "%s = %s", fileKey(key), expression(o[key], true))
			}
		}
		w.line(path, "}")
	}
}

// expression writes a value as an expression. With names, ${NAME} in a string is evaluated.
func expression(v any, names bool) string {
	switch v := v.(type) {
	case string:
		return quoted(v, names)
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	case []any:
		parts := make([]string, len(v))
		for i, inner := range v {
			parts[i] = expression(inner, names)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, quoted(key, false)+" = "+expression(v[key], names))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "null"
}

// reference matches an interpolation of a name with attributes.
var reference = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_.-]*\}`)

// quoted writes an HCL string. With names, interpolations in it are kept, and all else is literal.
func quoted(text string, names bool) string {
	var b strings.Builder
	var found map[int]int
	if names {
		found = interpolations(text)
	}
	b.WriteByte('"')
	end := 0 // of an interpolation
	for i, r := range text {
		switch {
		case i < end:
			continue
		case found[i] > 0:
			end = i + found[i]
			b.WriteString(text[i:end])
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029:
			fmt.Fprintf(&b, `\u%04x`, r)
		case (r == '$' || r == '%') && strings.HasPrefix(text[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
