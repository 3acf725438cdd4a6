// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tachograph/tacho/docs"
	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/driver/schema"
	pluginconfig "github.com/tachograph/tacho/plugin/config"
	"github.com/tachograph/tacho/procstats"
)

// TestDocs holds docs/configuration.md against the schemas: it has every key, and its defaults are the driver's.
func TestDocs(t *testing.T) {
	plugin, task := docs.Configuration("The driver"), docs.Configuration("A task")
	if diff := cmp.Diff(keysOf(driver.ConfigSchema(), ""), plugin.Keys()); diff != "" {
		t.Errorf("the driver: %s", diff)
	}
	if diff := cmp.Diff(keysOf(driver.TaskSchema(), ""), task.Keys()); diff != "" {
		t.Errorf("a task: %s", diff)
	}
	file, diags := hclsyntax.ParseConfig([]byte(plugin.HCL()), "configuration.md", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	encoded, diags := pluginconfig.Encode(driver.ConfigSchema(), file.Body, nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	config, err := driver.DecodeConfig(encoded)
	if err != nil {
		t.Fatal(err)
	}
	want := driver.DefaultConfig()
	want.DeniedEnv = []string{}
	if diff := cmp.Diff(want, config, cmp.AllowUnexported(procstats.Selection{})); diff != "" {
		t.Error(diff)
	}
}

// keysOf are the keys of a schema, with a dot before those in a block.
func keysOf(spec schema.Spec, prefix string) []string {
	switch s := spec.(type) {
	case schema.Object:
		var keys []string
		for _, name := range slices.Sorted(maps.Keys(s)) {
			keys = append(keys, keysOf(s[name], prefix)...)
		}
		slices.Sort(keys)
		return keys
	case schema.Default:
		return keysOf(s.Primary, prefix)
	case schema.Block:
		return append([]string{prefix + s.Name}, keysOf(s.Nested, prefix+s.Name+".")...)
	case schema.Attr:
		return []string{prefix + s.Name}
	}
	return nil
}
