// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"strings"
	"testing"
)

// TestTemplateFunctions has for each function what Nomad's templates write for the same text, or a fault where they
// report one.
func TestTemplateFunctions(t *testing.T) {
	t.Parallel()
	env := map[string]string{"A": "a", "EMPTY": ""}
	tested := make(map[string]bool)
	for _, tt := range []struct {
		data, want string
		fault      bool
	}{
		{data: `{{ env "A" }}|{{ env "NONE" }}|{{ env "EMPTY" }}`, want: "a||"},
		{data: `{{ envOrDefault "A" "d" }}|{{ envOrDefault "EMPTY" "d" }}|{{ envOrDefault "NONE_X" "d" }}`, want: "a||d"},
		{data: `{{ mustEnv "A" }}`, want: "a"},
		{data: `{{ mustEnv "EMPTY" }}`, fault: true},
		{data: `{{ mustEnv "NONE_X" }}`, fault: true},
		{data: `{{ "ÄbC dEf" | toLower }}|{{ toUpper "äß" }}|{{ toTitle "don't stop-me nOW" }}`, want: "äbc def|Äß|Don't Stop-Me NOW"},
		{data: `{{ trim "x-" "-xa-bx-" }}|{{ "abab" | trimPrefix "ab" }}|{{ "abab" | trimSuffix "ab" }}|{{ trimSpace " \t a b\n" }}`, want: "a-b|ab|ab|a b"},
		{data: `{{ "a.b.c" | replaceAll "." "" }}|{{ replaceAll "" "-" "ab" }}`, want: "abc|-a-b-"},
		{data: `{{ regexMatch "^a+$" "aaa" }}|{{ "b" | regexMatch "a" }}`, want: "true|false"},
		{data: `{{ regexMatch "(" "a" }}`, fault: true},
		{data: `{{ "foo bar" | regexReplaceAll "(o+)(.)" "<$1>${2}$$" }}`, want: "f<oo> $bar"},
		{data: `{{ regexReplaceAll "[" "" "" }}`, fault: true},
		{data: `{{ base64Encode "h\u00e9?>" }}|{{ base64URLEncode "h\u00e9?>~~" }}|{{ base64Decode "aMOpPz4=" }}|{{ base64URLDecode "aMOpPz5-fg==" }}`, want: "aMOpPz4=|aMOpPz5-fg==|hé?>|hé?>~~"},
		{data: `{{ base64Decode "?" }}`, fault: true},
		{data: `{{ base64URLDecode "a+==" }}`, fault: true},
		{data: `{{ sha256Hex "a" }}`, want: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
		{data: `{{ md5sum "a" }}|{{ "" | md5sum }}`, want: "0cc175b9c0f1b6a831c399e269772661|d41d8cd98f00b204e9800998ecf8427e"},
		{data: `{{ hmacSHA256Hex "message" "key" }}`, want: "6e9ef29b75fffc5b7abae527d58fdadb2fe42e7219011976917343065f58ed4a"},
		{data: `{{ indent 2 "a\n\n b\n" }}|{{ "x" | indent 0 }}`, want: "  a\n\n   b\n|x"},
		{data: `{{ indent -1 "a" }}`, fault: true},
		{data: `{{ timestamp "a" "b" }}`, fault: true},
		{data: `{{ timestamp "year" }}`, want: "year"},
		{data: `{{ parseBool "true" }}|{{ parseBool "" }}|{{ parseBool "F" }}|{{ parseInt "-07" }}|{{ parseInt "" }}|{{ parseUint "7" }}|{{ parseFloat "1e3" }}|{{ parseFloat "" }}`, want: "true|false|false|-7|0|7|1000|0"},
		{data: `{{ parseBool "yes" }}`, fault: true},
		{data: `{{ parseInt "1.5" }}`, fault: true},
		{data: `{{ parseInt "0x10" }}`, fault: true},
		{data: `{{ parseInt "9223372036854775808" }}`, fault: true},
		{data: `{{ parseUint "-1" }}`, fault: true},
		{data: `{{ parseFloat "x" }}`, fault: true},
		{data: `{{ with parseJSON "{\"a\":{\"b\":[1,\"x\",null,true]},\"n\":1234567890}" }}{{ .a.b }}|{{ .n }}|{{ .none }}|{{ index .a.b 1 }}{{ end }}`, want: "[1 x <nil> true]|1.23456789e+09|<no value>|x"},
		{data: `{{ parseJSON "" }}|{{ parseJSON "3" }}|{{ range $k, $v := parseJSON "{\"b\":1,\"a\":2}" }}{{ $k }}={{ $v }};{{ end }}`, want: "map[]|3|a=2;b=1;"},
		{data: `{{ parseJSON "{" }}`, fault: true},
		{data: `{{ parseYAML "" }}|{{ with parseYAML "a: {b: [1, 0x10, yes, ~, 2.5]}\nc: |\n  t\n" }}{{ .a.b }}|{{ .c }}{{ end }}`, want: "map[]|[1 16 true <nil> 2.5]|t\n"},
		{data: `{{ parseYAML "a: b: c" }}`, fault: true},
		{data: `{{ parseJSON "{\"b\":[1,2.5,\"<&>\"],\"a\":null}" | toJSON }}`, want: "{\"a\":null,\"b\":[1,2.5,\"\\u003c\\u0026\\u003e\"]}"},
		{data: `{{ parseJSON "{\"b\":[1,{}],\"a\":\"<\"}" | toJSONPretty }}`, want: "{\n  \"a\": \"\\u003c\",\n  \"b\": [\n    1,\n    {}\n  ]\n}"},
		{data: `{{ parseJSON "{\"b\":[],\"a\":\"<&>\"}" | toUnescapedJSON }}`, want: "{\"a\":\"<&>\",\"b\":[]}"},
		{data: `{{ parseJSON "{\"b\":[1],\"a\":\"<&>\"}" | toUnescapedJSONPretty }}`, want: "{\n  \"a\": \"<&>\",\n  \"b\": [\n    1\n  ]\n}"},
		{data: `{{ parseJSON "{\"b\":[1,{\"x\":\"y: z\"}],\"a\":{\"c\":true,\"d\":null,\"e\":\"1\"}}" | toYAML }}`, want: "a:\n  c: true\n  d: null\n  e: \"1\"\nb:\n- 1\n- x: 'y: z'"},
		{data: `{{ parseJSON "{\"b\":[1,2],\"a\":{\"c\":true,\"e\":\"q\\\"\"},\"t\":[{\"x\":1},{\"x\":2}]}" | toTOML }}`, want: "b = [1.0, 2.0]\n\n[a]\n  c = true\n  e = \"q\\\"\"\n\n[[t]]\n  x = 1.0\n\n[[t]]\n  x = 2.0"},
		{data: `{{ parseYAML "a: 1" | toJSON }}`, fault: true},
		{data: `{{ parseYAML "{b: 1, a: [x]}" | toYAML }}`, want: "a:\n- x\nb: 1"},
		{data: `{{ toJSON "s" }}|{{ toYAML "s" }}|{{ toJSON 3 }}|{{ "a,b" | split "," | toJSON }}|{{ split "," " " | toJSON }}|{{ splitToMap "," "=" "a=1, b=2=3,c" | toJSON }}|{{ splitToMap "," "=" " " | toJSON }}`, want: "\"s\"|s|3|[\"a\",\"b\"]|[]|{\" b\":\"2=3\",\"a\":\"1\"}|{}"},
		{data: `{{ toTOML 3 }}`, want: "3"},
		{data: `{{ range split "," " x,y, " }}<{{ . }}>{{ end }}|{{ split "," "a,b" | join "-" }}|{{ len (split "" "abc") }}`, want: "<x><y><>|a-b|3"},
		{data: `{{ join "," (parseJSON "[1]") }}`, fault: true},
		{data: `{{ range loop 3 }}{{ . }},{{ end }}|{{ range $i, $x := loop 2 5 }}{{ $i }}:{{ $x }},{{ end }}|{{ range loop 3 1 }}x{{ else }}none{{ end }}|{{ range loop "2" }}.{{ end }}|{{ range loop (parseInt "1") (parseUint "3") }}.{{ end }}`, want: "0,1,2,|0:2,1:3,2:4,|none|..|.."},
		{data: `{{ range loop "" }}x{{ end }}|`, want: "|"},
		{data: `{{ range loop }}{{ end }}`, fault: true},
		{data: `{{ range loop 1 2 3 }}{{ end }}`, fault: true},
		{data: `{{ range loop "x" }}{{ end }}`, fault: true},
		{data: `{{ in "abc" "b" }}|{{ in (split "," "a,b") "b" }}|{{ in (parseJSON "[1.5,\"x\"]") 1.5 }}|{{ in (parseJSON "[1]") 1 }}|{{ in (loop 0 1 | print | split " ") "z" }}|{{ in (parseJSON "[true,null]") true }}|{{ in 3 3 }}`, want: "true|true|true|false|false|false|false"},
		{data: `{{ "abc" | contains "b" }}|{{ parseJSON "[\"a\"]" | contains "a" }}|{{ contains "z" "abc" }}`, want: "true|true|false"},
		{data: `{{ $l := split "," "a,b,c" }}{{ $l | containsAll (parseJSON "[\"a\",\"b\"]") }}{{ $l | containsAll (parseJSON "[\"a\",\"z\"]") }}{{ $l | containsAny (parseJSON "[\"z\",\"b\"]") }}{{ $l | containsAny (parseJSON "[\"z\"]") }}{{ $l | containsNone (parseJSON "[\"z\"]") }}{{ $l | containsNone (parseJSON "[\"a\",\"z\"]") }}{{ $l | containsNotAll (parseJSON "[\"a\",\"z\"]") }}{{ $l | containsNotAll (parseJSON "[\"a\"]") }}`, want: "truefalsetruefalsetruefalsetruefalse"},
		{data: `{{ $l := split "," "a" }}{{ $l | containsAll (parseJSON "[]") }}{{ $l | containsAny (parseJSON "[]") }}{{ $l | containsNone (parseJSON "[]") }}{{ $l | containsNotAll (parseJSON "[]") }}`, want: "truefalsetruefalse"},
		{data: `{{ mergeMap (parseJSON "{\"a\":1,\"c\":{\"x\":1},\"e\":\"\"}") (parseJSON "{\"a\":2,\"b\":3,\"c\":{\"x\":2,\"y\":2},\"e\":1}") | toJSON }}`, want: "{\"a\":1,\"b\":3,\"c\":{\"x\":1,\"y\":2},\"e\":1}"},
		{data: `{{ mergeMapWithOverride (parseJSON "{\"a\":1,\"c\":{\"x\":1},\"d\":1}") (parseJSON "{\"a\":2,\"b\":3,\"c\":{\"y\":2},\"d\":0}") | toJSON }}`, want: "{\"a\":2,\"b\":3,\"c\":{\"x\":1,\"y\":2},\"d\":0}"},
		{data: `{{ explodeMap (parseJSON "{\"a/b/c\":1,\"a/d\":2,\"e\":3,\"f/\":4}") | toJSON }}`, want: "{\"a\":{\"b\":{\"c\":1},\"d\":2},\"e\":3,\"f\":{}}"},
		{data: `{{ explodeMap (parseJSON "{\"a\":1,\"a/b\":2}") }}`, fault: true},
		{data: `{{ add 2 3 }}|{{ add 1 1.5 }}|{{ subtract 2 5 }}|{{ 5 | subtract 2 }}|{{ multiply 3 2.5 }}|{{ divide 2 7 }}|{{ divide 2.0 7 }}|{{ modulo 3 10 }}|{{ minimum 1 2 }}|{{ maximum 1 2.5 }}|{{ maximum -1 -2 }}|{{ minimum 2.5 1 }}`, want: "5|2.5|3|3|7.5|3|3.5|1|1|2.5|-1|1"},
		{data: `{{ add (parseUint "1") (parseUint "2") }}|{{ subtract (parseUint "2") (parseUint "1") }}|{{ subtract (parseUint "2") 1 }}|{{ divide 0.0 1 }}|{{ minimum (parseUint "1") -2 }}|{{ modulo (parseUint "3") -7 }}|{{ add 9223372036854775807 1 }}`, want: "3|18446744073709551615|-1|+Inf|-2|-1|-9223372036854775808"},
		{data: `{{ divide 0 1 }}`, fault: true},
		{data: `{{ modulo 1.5 1 }}`, fault: true},
		{data: `{{ modulo 0 1 }}`, fault: true},
		{data: `{{ add "1" 1 }}`, fault: true},
		{data: `{{ add 1 "1" }}`, fault: true},
		{data: `{{ maximum nil 1 }}`, fault: true},
		{data: `{{ (parseJSON "{}").none }}|{{ (splitToMap "," "=" "a=1").b }}|`, want: "<no value>||"},
	} {
		for name := range templateFunctions(nil) {
			tested[name] = tested[name] || strings.Contains(tt.data, name)
		}
		x := &Template{Data: tt.data, LeftDelim: "{{", RightDelim: "}}"}
		got, err := x.Expand(env)
		if (err != nil) != tt.fault || string(got) != tt.want {
			t.Errorf("%s\n%q, %v; want %q, a fault %v", tt.data, got, err, tt.want, tt.fault)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "line 1: ") {
			t.Errorf("%s: error %v, want its line", tt.data, err)
		}
	}
	for name, is := range tested {
		if !is {
			t.Errorf("function %s is not tested", name)
		}
	}
}

// TestTemplateMissingKey has a key that a map does not have.
func TestTemplateMissingKey(t *testing.T) {
	t.Parallel()
	x := &Template{Data: `{{ (parseJSON "{}").none }}`, LeftDelim: "{{", RightDelim: "}}", ErrMissingKey: true}
	if got, err := x.Expand(nil); err == nil || !strings.Contains(err.Error(), `map has no entry for key "none"`) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTemplateLimits has small texts that would take all memory.
func TestTemplateLimits(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{{ loop 1048577 }}`: "more than 1048576 steps",
		`{{ loop -9223372036854775807 9223372036854775807 }}`: "more than 1048576 steps",
		`{{ indent 8388609 "x" }}`:                            "cannot indent 1 lines by 8388609 spaces",
		`{{ indent 1000000 "x\nx\nx\nx\nx\nx\nx\nx\nx\nx" }}`: "cannot indent 10 lines by 1000000 spaces",
	} {
		x := &Template{Data: data, LeftDelim: "{{", RightDelim: "}}"}
		if _, err := x.Expand(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", data, err, want)
		}
	}
}

// TestOtherFunctions holds that functions which only Nomad has are named, with their line.
func TestOtherFunctions(t *testing.T) {
	t.Parallel()
	for _, name := range append([]string{"sprig_upper"}, otherFunctions...) {
		x := &Template{Data: "\n{{ " + name + " }}", LeftDelim: "{{", RightDelim: "}}"}
		want := `line 2: function "` + name + `" is not supported by the agent; run this job on a Nomad cluster`
		if _, err := x.Expand(nil); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
