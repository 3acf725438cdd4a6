// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestReloaded(t *testing.T) {
	one, other := TLS{CertFile: "/a", KeyFile: "/a.key"}, TLS{CertFile: "/b", KeyFile: "/b.key"}
	for name, test := range map[string]struct {
		before, next, want Config
		ignored            []string
	}{
		"token":       {Config{ACL: ACL{"/a"}}, Config{ACL: ACL{"/b"}}, Config{ACL: ACL{"/b"}}, nil},
		"certificate": {Config{TLS: one}, Config{TLS: other}, Config{TLS: other}, nil},
		"tls on":      {Config{}, Config{TLS: one}, Config{}, []string{"tls"}},
		"tls off":     {Config{TLS: one}, Config{}, Config{TLS: one}, []string{"tls"}},
		"watch":       {Config{Watch: Watch{Cgroups: []string{"a/*"}}}, Config{Watch: Watch{Every: 1}}, Config{Watch: Watch{Every: 1}}, nil},
		"name":        {Config{Name: "a"}, Config{Name: "b"}, Config{Name: "a"}, []string{"name"}},
	} {
		merged, ignored := test.before.Reloaded(test.next)
		if diff := cmp.Diff(test.want, merged, cmpopts.IgnoreUnexported(Config{})) + cmp.Diff(test.ignored, ignored); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A plugin has changed when its block has, wherever the block stands.
func TestReloadedPlugins(t *testing.T) {
	read := func(text string) Config {
		c := Default()
		testkit.Must(t, c.Merge("f.hcl", []byte(text)))
		return c
	}
	const block = "plugin \"x\" {\n  config {\n    rows = 1\n  }\n}\n"
	before := read(block)
	for text, changed := range map[string]bool{
		block:                             false,
		"# moved\nname = \"a\"\n" + block: false,
		strings.Replace(block, "rows = 1", "rows = 2", 1): true,
		strings.Replace(block, `"x"`, `"y"`, 1):           true,
		"":                                                true,
	} {
		if _, ignored := before.Reloaded(read(text)); slices.Contains(ignored, "plugin") != changed {
			t.Errorf("%q: ignored %v", text, ignored)
		}
	}
}
