// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // what templates ask for
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"gopkg.in/yaml.v2"
)

// maxLoop bounds the steps of loop.
const maxLoop = 1 << 20

// templateFunctions are those of Nomad's templates that need nothing but their arguments and the task's environment.
func templateFunctions(env map[string]string) texttemplate.FuncMap {
	all := texttemplate.FuncMap{
		"env": func(name string) string { return env[name] },
		"envOrDefault": func(name, otherwise string) string {
			if value, ok := env[name]; ok {
				return value
			}
			return otherwise
		},
		"mustEnv": func(name string) (string, error) {
			if env[name] == "" {
				return "", fmt.Errorf("variable %s is not set or empty", name)
			}
			return env[name], nil
		},
	}
	for _, some := range []texttemplate.FuncMap{stringFunctions(), dataFunctions(), listFunctions(), numberFunctions()} {
		maps.Copy(all, some)
	}
	return all
}

// stringFunctions make strings of strings. The string of a pipeline is the last argument.
func stringFunctions() texttemplate.FuncMap {
	last := func(of func(s, by string) string) any { return func(by, s string) string { return of(s, by) } }
	return texttemplate.FuncMap{
		"toLower": strings.ToLower, "toUpper": strings.ToUpper, "toTitle": cases.Title(language.Und, cases.NoLower).String,
		"trim": last(strings.Trim), "trimPrefix": last(strings.TrimPrefix), "trimSuffix": last(strings.TrimSuffix),
		"trimSpace": strings.TrimSpace, "indent": indent,
		"replaceAll": func(from, to, s string) string { return strings.ReplaceAll(s, from, to) },
		"regexMatch": func(pattern, s string) (bool, error) { return regexp.MatchString(pattern, s) },
		"regexReplaceAll": func(pattern, to, s string) (string, error) {
			re, err := regexp.Compile(pattern)
			if err != nil {
				return "", err
			}
			return re.ReplaceAllString(s, to), nil
		},
		"base64Encode":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base64Decode":    decodeWith(base64.StdEncoding),
		"base64URLEncode": func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
		"base64URLDecode": decodeWith(base64.URLEncoding),
		"sha256Hex":       func(s string) (string, error) { return inHex(sha256.Sum256([]byte(s))) },
		//nolint:gosec // not for secrecy
		"md5sum": func(s string) (string, error) { return inHex(md5.Sum([]byte(s))) },
		"hmacSHA256Hex": func(message, key string) string {
			h := hmac.New(sha256.New, []byte(key))
			h.Write([]byte(message))
			return hex.EncodeToString(h.Sum(nil))
		},
		"timestamp": timestamp,
	}
}

func decodeWith(encoding *base64.Encoding) func(string) (string, error) {
	return func(s string) (string, error) {
		decoded, err := encoding.DecodeString(s)
		return string(decoded), err
	}
}

// indent puts spaces before each line that is not empty.
func indent(spaces int, s string) (string, error) {
	lines := strings.Split(s, "\n")
	if spaces < 0 || spaces > maxRendered/len(lines) {
		return "", fmt.Errorf("cannot indent %d lines by %d spaces", len(lines), spaces)
	}
	for i, line := range lines {
		if line != "" {
			lines[i] = strings.Repeat(" ", spaces) + line
		}
	}
	return strings.Join(lines, "\n"), nil
}

func timestamp(layout ...string) (string, error) {
	now := time.Now().UTC()
	switch {
	case len(layout) > 1:
		return "", fmt.Errorf("takes one layout, not %d", len(layout))
	case len(layout) == 0:
		return now.Format(time.RFC3339), nil
	case layout[0] == "unix":
		return strconv.FormatInt(now.Unix(), 10), nil
	}
	return now.Format(layout[0]), nil
}

// dataFunctions read and write values.
func dataFunctions() texttemplate.FuncMap {
	return texttemplate.FuncMap{
		"parseBool":             unlessEmpty(strconv.ParseBool),
		"parseFloat":            unlessEmpty(func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }),
		"parseInt":              unlessEmpty(parseInt),
		"parseUint":             unlessEmpty(func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }),
		"parseJSON":             parser(json.Unmarshal),
		"parseYAML":             parser(yaml.Unmarshal),
		"toJSON":                toJSON("", true),
		"toJSONPretty":          toJSON("  ", true),
		"toUnescapedJSON":       toJSON("", false),
		"toUnescapedJSONPretty": toJSON("  ", false),
		"toTOML":                trimmed(toml.Marshal),
		"toYAML":                trimmed(yaml.Marshal),
	}
}

func parseInt(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

// unlessEmpty returns the zero value for an empty string.
func unlessEmpty[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (value T, err error) {
		if s == "" {
			return value, nil
		}
		return parse(s)
	}
}

func parser(unmarshal func([]byte, any) error) func(string) (any, error) {
	return func(s string) (value any, err error) {
		if s == "" {
			return map[string]any{}, nil
		}
		err = unmarshal([]byte(s), &value)
		return value, err
	}
}

func toJSON(indent string, escape bool) func(any) (string, error) {
	return trimmed(func(value any) ([]byte, error) {
		var w bytes.Buffer
		encoder := json.NewEncoder(&w)
		encoder.SetIndent("", indent)
		encoder.SetEscapeHTML(escape)
		err := encoder.Encode(value)
		return w.Bytes(), err
	})
}

func trimmed(marshal func(any) ([]byte, error)) func(any) (string, error) {
	return func(value any) (string, error) {
		text, err := marshal(value)
		return string(bytes.TrimSpace(text)), err
	}
}

// listFunctions make, merge and search lists and maps.
func listFunctions() texttemplate.FuncMap {
	return texttemplate.FuncMap{
		"split": split,
		"join":  func(separator string, parts []string) string { return strings.Join(parts, separator) },
		"splitToMap": func(between, within, s string) map[string]string {
			m := make(map[string]string)
			for _, part := range split(between, s) {
				if key, value, ok := strings.Cut(part, within); ok {
					m[key] = value
				}
			}
			return m
		},
		"loop": loop, "explodeMap": explodeMap, "in": in,
		"contains":    func(v, list any) bool { return in(list, v) },
		"containsAll": anyIn(false, false), "containsAny": anyIn(true, true),
		"containsNone": anyIn(true, false), "containsNotAll": anyIn(false, true),
		"mergeMap": merge(false), "mergeMapWithOverride": merge(true),
	}
}

// merge adds a map to another one, in all depths. What is empty in that one counts as missing.
func merge(override bool) func(into, from map[string]any) map[string]any {
	return func(into, from map[string]any) map[string]any {
		for key, value := range from {
			inner, ok := into[key].(map[string]any)
			added, too := value.(map[string]any)
			switch {
			case ok && too:
				merge(override)(inner, added)
			case override || !isTrue(into[key]):
				into[key] = value
			}
		}
		return into
	}
}

func isTrue(value any) bool { truth, _ := texttemplate.IsTrue(value); return truth }

func split(separator, s string) []string {
	if s = strings.TrimSpace(s); s == "" {
		return []string{}
	}
	return strings.Split(s, separator)
}

// anyIn returns found if the list has, or has not, any of some values.
func anyIn(has, found bool) any {
	return func(some []any, list any) bool {
		return found == slices.ContainsFunc(some, func(v any) bool { return in(list, v) == has })
	}
}

// in says whether a string has a part, or a list an element. Only strings and numbers of one kind are compared.
func in(list, v any) bool {
	l, x := reflect.ValueOf(list), reflect.ValueOf(v)
	if l.Kind() == reflect.String {
		return x.Kind() == reflect.String && strings.Contains(l.String(), x.String())
	}
	if l.Kind() != reflect.Slice && l.Kind() != reflect.Array {
		return false
	}
	for i := range l.Len() {
		e := reflect.ValueOf(l.Index(i).Interface())
		if e.CanInt() && x.CanInt() && e.Int() == x.Int() || e.CanFloat() && x.CanFloat() && e.Float() == x.Float() ||
			e.Kind() == reflect.String && x.Kind() == reflect.String && e.String() == x.String() {
			return true
		}
	}
	return false
}

// loop returns the numbers from the first to before the second limit; a single limit is the second.
func loop(limits ...any) ([]int64, error) {
	if len(limits) == 1 {
		limits = []any{0, limits[0]}
	}
	if len(limits) != 2 {
		return nil, fmt.Errorf("takes one or two limits, not %d", len(limits))
	}
	first, firstErr := unlessEmpty(parseInt)(fmt.Sprint(limits[0]))
	end, endErr := unlessEmpty(parseInt)(fmt.Sprint(limits[1]))
	if err := errors.Join(firstErr, endErr); err != nil || first >= end {
		return nil, err
	}
	if uint64(end-first) > maxLoop {
		return nil, fmt.Errorf("more than %d steps", maxLoop)
	}
	numbers := make([]int64, end-first)
	for i := range numbers {
		numbers[i] = first + int64(i)
	}
	return numbers, nil
}

// explodeMap makes maps within maps of keys with slashes.
func explodeMap(flat map[string]any) (map[string]any, error) {
	root := make(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(flat)) {
		parts := strings.Split(path, "/")
		at, key := root, parts[len(parts)-1]
		for _, part := range parts[:len(parts)-1] {
			if at[part] == nil {
				at[part] = make(map[string]any)
			}
			inner, ok := at[part].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%q: %q is already a value", path, part)
			}
			at = inner
		}
		if key != "" {
			at[key] = flat[path]
		}
	}
	return root, nil
}

// number is what arithmetic computes with: the widest type of a kind.
type number interface{ int64 | uint64 | float64 }

func plus[T number](a, b T) T              { return a + b }
func minus[T number](a, b T) T             { return a - b }
func times[T number](a, b T) T             { return a * b }
func over[T number](a, b T) T              { return a / b }
func remainder[T int64 | uint64](a, b T) T { return a % b }
func least[T number](a, b T) T             { return min(a, b) }
func most[T number](a, b T) T              { return max(a, b) }

// numberFunctions take the second operand first, for pipelines.
func numberFunctions() texttemplate.FuncMap {
	return texttemplate.FuncMap{
		"add":      arithmetic(plus, plus, plus),
		"subtract": arithmetic(minus, minus, minus),
		"multiply": arithmetic(times, times, times),
		"divide":   arithmetic(over, over, over),
		"modulo":   arithmetic(remainder, remainder, nil),
		"minimum":  arithmetic(least, least, least),
		"maximum":  arithmetic(most, most, most),
	}
}

// arithmetic computes with floating-point numbers if an operand is one, without a sign if neither has one.
func arithmetic(ints func(a, b int64) int64, uints func(a, b uint64) uint64, floats func(a, b float64) float64) any {
	return func(b, a any) (any, error) {
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		for _, v := range []reflect.Value{x, y} {
			if !v.CanInt() && !v.CanUint() && (!v.CanFloat() || floats == nil) {
				return nil, fmt.Errorf("cannot compute with %v (%T)", v, v)
			}
		}
		switch {
		case x.CanFloat() || y.CanFloat():
			float := reflect.TypeFor[float64]()
			return floats(x.Convert(float).Float(), y.Convert(float).Float()), nil
		case x.CanUint() && y.CanUint():
			return uints(x.Uint(), y.Uint()), nil
		}
		whole := reflect.TypeFor[int64]()
		return ints(x.Convert(whole).Int(), y.Convert(whole).Int()), nil
	}
}

// maxRendered bounds what one template writes, in bytes.
const maxRendered = 8 << 20

// Expand executes a template with functions that need nothing but this machine.
func (t *Template) Expand(env map[string]string) ([]byte, error) {
	missing := "missingkey=zero"
	if t.ErrMissingKey {
		missing = "missingkey=error"
	}
	parsed, err := texttemplate.New("data").Delims(t.LeftDelim, t.RightDelim).Option(missing).
		Funcs(templateFunctions(env)).Parse(t.Data)
	if err != nil {
		return nil, explain(err)
	}
	var w boundedBuffer
	if err := parsed.Execute(&w, nil); err != nil {
		return nil, explain(err)
	}
	return w.Bytes(), nil
}

// boundedBuffer rejects the output of a template that runs wild.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRendered {
		return 0, fmt.Errorf("the template writes more than %d bytes", maxRendered)
	}
	return b.Buffer.Write(p)
}

var (
	// templatePlace matches what text/template says first: its own name of the template, and where in it.
	templatePlace = regexp.MustCompile(`^template: data:(\d+)(?::\d+)?: (?:executing "data" at )?`)
	// notDefined matches what text/template says of an unknown function.
	notDefined = regexp.MustCompile(`function "(\w+)" not defined`)
)

// otherFunctions are those of Nomad's templates that ask Consul, Vault or Nomad, take what these return, read files of
// the client or describe its addresses, that Nomad disables by default, that keep values, and that print them for
// debugging. Those of Sprig are not supported either.
//
//nolint:gochecknoglobals // a constant list
var otherFunctions = []string{
	"byKey", "byMeta", "byPort", "byTag", "caLeaf", "caRoots", "connect", "datacenters", "executeTemplate", "explode",
	"exportedServices", "file", "importedServices", "key", "keyExists", "keyOrDefault", "ls", "node", "nodes",
	"nomadService", "nomadServices", "nomadVar", "nomadVarExists", "nomadVarList", "nomadVarListSafe", "partitions",
	"peerings", "pkiCert", "plugin", "safeLs", "safeTree", "scratch", "secret", "secrets", "service", "services",
	"sockaddr", "spew_dump", "spew_printf", "spew_sdump", "spew_sprintf", "tree", "writeToFile",
}

// explain says on which line a template is wrong, and of a function that only Nomad has that it is not supported here.
func explain(err error) error {
	text := templatePlace.ReplaceAllString(err.Error(), "line $1: ")
	found := notDefined.FindStringSubmatch(text)
	if found != nil && (slices.Contains(otherFunctions, found[1]) || strings.HasPrefix(found[1], "sprig_")) {
		const explained = "function %q is not supported by the agent; run this job on a Nomad cluster"
		text = strings.Replace(text, found[0], fmt.Sprintf(explained, found[1]), 1)
	}
	return errors.New(text)
}

func (d *decoder) template(b *hclsyntax.Block, t *Task) {
	x := &Template{
		Permissions: "0644", LeftDelim: "{{", RightDelim: "}}", ChangeMode: "restart", Range: b.TypeRange,
	}
	d.body("template", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"data": d.lenientStr(&x.Data), "destination": d.lenientStr(&x.Destination),
			"perms": d.str(&x.Permissions), "left_delimiter": d.str(&x.LeftDelim), "right_delimiter": d.str(&x.RightDelim),
			"change_mode": d.word(&x.ChangeMode, "noop", "restart", "signal"), "change_signal": d.str(&x.ChangeSignal),
			"env": d.flag(&x.Env), "error_on_missing_key": d.flag(&x.ErrMissingKey),
		},
		elsewhere: []string{
			"change_script", "gid", "once", "source", "splay", "uid", "vault_grace", "wait",
		},
	})
	d.need(b.Body.Attributes["data"] != nil || d.diags.HasErrors(), b.TypeRange, "template", "data")
	d.need(x.Destination != "" || d.diags.HasErrors(), b.TypeRange, "template", "destination")
	if mode, err := strconv.ParseUint(x.Permissions, 8, 32); err != nil || mode > 0o777 {
		d.errorf(b.TypeRange, "Invalid value", "perms must be an octal mode such as \"0644\"")
	}
	t.Templates = append(t.Templates, x)
}
