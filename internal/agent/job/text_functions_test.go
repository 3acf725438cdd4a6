// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"testing"
)

// TestTextFunctions has values that Nomad's functions have.
func TestTextFunctions(t *testing.T) {
	for expression, want := range map[string]string{
		`base64encode("hello")`:            "aGVsbG8=",
		`base64decode("aGVsbG8=")`:         "hello",
		`urlencode("a b/c")`:               "a+b%2Fc",
		`basename("/a/b.c")`:               "b.c",
		`dirname("/a/b.c")`:                "/a",
		`md5("hello")`:                     "5d41402abc4b2a76b9719d911017c592",
		`sha1("hello")`:                    "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d",
		`sha256("hello")`:                  "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		`substr(sha512("hello"), 0, 16)`:   "9b71d224bd62f378",
		`uuidv5("dns", "www.example.com")`: "2ed6657d-e927-568b-95e1-2665a8aea6a2",
		`uuidv5("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com")`: "2ed6657d-e927-568b-95e1-2665a8aea6a2",
		`timeadd("2026-01-01T00:00:00Z", "1h")`:                             "2026-01-01T01:00:00Z",
		`try(var.v.none, "other")`:                                          "other",
		`can(var.v.none) ? "yes" : "no"`:                                    "no",
		`join(",", convert(["1"], list(string)))`:                           "1",
	} {
		j, err := Parse(Source{Filename: "x", Text: fmt.Sprintf("variable \"v\" {\n default = \"x\"\n}\njob \"x\" {\n name = %s\n group \"g\" {\n task \"t\" {\n driver = \"d\"\n }\n }\n}", expression)})
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if j.Name != want {
			t.Errorf("%s: %q, want %q", expression, j.Name, want)
		}
	}
	for _, expression := range []string{`base64decode("%")`, `base64decode("/w==")`, `uuidv5("x", "y")`, `try(var.none)`} {
		if _, err := Parse(Source{Filename: "x", Text: fmt.Sprintf("job \"x\" {\n name = %s\n group \"g\" {\n task \"t\" {\n driver = \"d\"\n }\n }\n}", expression)}); err == nil {
			t.Errorf("%s has a value", expression)
		}
	}
}
