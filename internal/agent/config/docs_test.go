// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tachograph/tacho/docs"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestDocs holds docs/configuration.md against what files are read into: it has every key, and its defaults are those
// of the program.
func TestDocs(t *testing.T) {
	blocks := map[string]reflect.Type{"Top level": reflect.TypeFor[Config]()}
	for field := range reflect.TypeFor[Config]().Fields() {
		if name, ok := strings.CutSuffix(field.Tag.Get("hcl"), ",block"); ok {
			blocks[name] = field.Type
		}
	}
	var text strings.Builder
	for name, block := range blocks {
		table := docs.Configuration(name)
		if diff := cmp.Diff(keysOf(block), table.Keys()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if name == "Top level" {
			text.WriteString(table.HCL())
		} else {
			text.WriteString(name + " {\n" + table.HCL() + "}\n")
		}
	}
	c := Config{}
	if err := c.Merge("configuration.md", []byte(text.String())); err != nil {
		t.Fatalf("%v in\n%s", err, text.String())
	}
	want := Default()
	ignore := []cmp.Option{cmpopts.IgnoreUnexported(Config{}), cmpopts.EquateEmpty()}
	testkit.Diff(t, "result", want, c, ignore...)
}

// keysOf returns the keys of a block without the blocks in it, which have tables of their own.
func keysOf(block reflect.Type) []string {
	var keys []string
	for field := range block.Fields() {
		if name, ok := strings.CutSuffix(field.Tag.Get("hcl"), ",optional"); ok {
			keys = append(keys, name)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestExamples reads the files that the pages show.
func TestExamples(t *testing.T) {
	read := 0
	for _, page := range []string{"../../../README.md", "../../../docs/operating.md", "../../../docs/configuration.md"} {
		text, err := os.ReadFile(page)
		testkit.Must(t, err)
		for i, part := range strings.Split(string(text), "```") {
			example, ok := strings.CutPrefix(part, "hcl\n")
			if i%2 == 0 || !ok || strings.HasPrefix(example, "plugin_dir ") { // of a Nomad client
				continue
			}
			read++
			if strings.HasPrefix(example, "job ") {
				_, err = job.Read(job.Source{Filename: page, Text: example})
			} else {
				c := Default()
				err = errors.Join(c.Merge(page, []byte(example)), c.Check())
			}
			if err != nil {
				t.Errorf("%v in\n%s", err, example)
			}
		}
	}
	if read == 0 {
		t.Error("the pages have no examples")
	}
}
