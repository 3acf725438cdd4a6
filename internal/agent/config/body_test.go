// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"strings"
	"testing"
	"time"
)

// TestMergeDecodes holds that every kind of key is decoded over what there was, and that what is wrong is named with
// its place.
func TestMergeDecodes(t *testing.T) {
	c := Default()
	for _, text := range []string{
		"name = \"n\"\nclient {\n  meta = { a = \"1\" }\n  gc_max_allocs = 7\n}\nplugin \"x\" {\n  config {\n    any = 1\n  }\n}\nplugin \"y\" {}",
		"telemetry {\n  collection_interval = \"3s\"\n  prefix_filter = [\"+a\"]\n  disable_hostname = \"true\"\n}\nports {\n  http = \"4700\"\n}\nclient {\n  meta = { b = 2 }\n}",
	} {
		if err := c.Merge("a.hcl", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if c.Name != "n" || c.Client.GCMaxAllocs != 7 || c.Client.Meta["a"] != "1" || c.Client.Meta["b"] != "2" || c.Ports.HTTP != 4700 ||
		c.Telemetry.CollectionInterval != 3*time.Second || !c.Telemetry.DisableHostname || len(c.Telemetry.PrefixFilter) != 1 {
		t.Errorf("decoded %+v", c)
	}
	if x := c.Plugins["x"]; len(c.Plugins) != 2 || x == nil || x.Body == nil || x.Range.Filename != "a.hcl" || c.Plugins["y"].Body.MissingItemRange().Filename != "a.hcl" {
		t.Errorf("plugins %+v", c.Plugins)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"key":          {"names = \"n\"", "a.hcl:1,1-6: Unsupported argument"},
		"key in block": {"ports {\n  https = 1\n}", "a.hcl:2,3-8: Unsupported argument"},
		"block":        {"server {}", "a.hcl:1,1-7: Unsupported block type"},
		"twice":        {"ports {}\nports {}", "a.hcl:2,1-6: Duplicate ports block; Only one ports block is allowed. Another was defined at a.hcl:1,1-6."},
		"type":         {"ports {\n  http = []\n}", "a.hcl:2,10-11: Unsuitable value type; Unsuitable value: number required"},
		"fraction":     {"ports {\n  http = 1.5\n}", "a.hcl:2,10-13: Unsuitable value type"},
		"element":      {"telemetry {\n  prefix_filter = [{}]\n}", "a.hcl:2,19-20: Unsuitable value type"},
		"label":        {"plugin {}", "a.hcl:1,8-9: Missing name for plugin"},
		"labels":       {"plugin \"a\" \"b\" {}", "Extraneous label for plugin"},
		"variable":     {"name = x", "a.hcl:1,8-9: Variables not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			if err := c.Merge("a.hcl", []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}
