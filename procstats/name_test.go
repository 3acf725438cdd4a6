// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"testing"
	"unicode/utf8"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestEscapeName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "", "sleep": "sleep", "日本 é": "日本 é", "\ufffd": "\ufffd", "a\x01\n\x7f": "a\x01\n\x7f",
		"a\xff": `a\xff`, "a\xfe": `a\xfe`, "\xe6\x97": `\xe6\x97`, "caf\xe9 é": `caf\xe9 é`, "\xed\xa0\x80": `\xed\xa0\x80`,
		`a\xff`: `a\x5cxff`, `a\x5c`: `a\x5cx5c`, `a\x5cxff`: `a\x5cx5cxff`, `\\xff`: `\\x5cxff`,
		`a\xFF`: `a\xFF`, `C:\x`: `C:\x`, `\x41`: `\x41`, `\x4`: `\x4`, `\n\t\\`: `\n\t\\`, "\\x\xff": `\x\xff`, "\\\xff": `\\xff`,
	} {
		testkit.Equal(t, EscapeName(name), want, "name %q", name)
		testkit.Equal(t, RawName(want), name, "text %q", want)
	}
}

// FuzzEscapeName holds that an escaped name is text and that nothing is lost, so that different names stay different.
func FuzzEscapeName(f *testing.F) {
	for _, seed := range []string{"a\xff", `a\xff`, `\x5c\xff`, "\\\xff\\x", "é\xc3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if text := EscapeName(name); !utf8.ValidString(text) || RawName(text) != name {
			t.Errorf("%q became %q, and that %q", name, text, RawName(text))
		}
	})
}
