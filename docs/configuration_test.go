// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package docs holds the tables of configuration.md against the program.
package docs

import (
	_ "embed" // of the page
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

//go:embed configuration.md
var configuration string

// table is a table of keys.
type table []row

// row is one key.
type row struct {
	// key has a dot before what stands in a block.
	key string
	// literal is the default, written in HCL; empty if the page has words for it.
	literal string
}

// tableOf returns the table under a heading; empty if there is none.
func tableOf(heading string) (all table) {
	var under string
	for line := range strings.Lines(configuration) {
		if title, ok := strings.CutPrefix(line, "#"); ok {
			under = strings.TrimSpace(strings.ReplaceAll(strings.TrimLeft(title, "#"), "`", ""))
		}
		cells := strings.Split(line, "|")
		if under != heading || len(cells) < 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		r := row{key: strings.Trim(cells[1], " `")}
		if literal, ok := strings.CutPrefix(cells[2], " `"); ok {
			r.literal, _, _ = strings.Cut(literal, "`")
		}
		all = append(all, r)
	}
	return all
}

// keys returns the keys in order of the alphabet.
func (t table) keys() (keys []string) {
	for _, row := range t {
		keys = append(keys, row.key)
	}
	slices.Sort(keys)
	return keys
}

// hcl states every default: it must mean the same as an empty text.
func (t table) hcl() string {
	var top strings.Builder
	blocks := map[string]string{}
	for _, row := range t {
		block, key, nested := strings.Cut(row.key, ".")
		switch {
		case row.literal == "":
		case nested:
			blocks[block] += fmt.Sprintf("  %s = %s\n", key, row.literal)
		default:
			fmt.Fprintf(&top, "%s = %s\n", row.key, row.literal)
		}
	}
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		fmt.Fprintf(&top, "%s {\n%s}\n", block, blocks[block])
	}
	return top.String()
}

// TestDriver holds the page against the driver's keys: it has each, with the driver's default.
func TestDriver(t *testing.T) {
	for heading, schema := range map[string]driver.Schema{"The driver": driver.ConfigSchema(), "A task": driver.TaskSchema()} {
		testkit.Diff(t, heading, schemaKeys(schema, ""), tableOf(heading).keys())
	}
	file, diags := hclsyntax.ParseConfig([]byte(tableOf("The driver").hcl()), "driver.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	encoded, diags := driver.ConfigSchema().Encode(file.Body, nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	got, err := driver.DecodeConfig(encoded)
	want := driver.DefaultConfig()
	want.DeniedEnv = []string{}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(procstats.Selection{})); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

// schemaKeys are the sorted keys of a schema, with a dot before those in a block.
func schemaKeys(schema driver.Schema, prefix string) []string {
	var keys []string
	for _, k := range schema {
		keys = append(append(keys, prefix+k.Name), schemaKeys(k.Block, prefix+k.Name+".")...)
	}
	slices.Sort(keys)
	return keys
}

// TestAgent holds the page against what files are read into: it has every key, and its defaults are those of the
// program.
func TestAgent(t *testing.T) {
	blocks := map[string]reflect.Type{"Top level": reflect.TypeFor[config.Config]()}
	for field := range reflect.TypeFor[config.Config]().Fields() {
		if name, ok := strings.CutSuffix(field.Tag.Get("hcl"), ",block"); ok {
			blocks[name] = field.Type
		}
	}
	var text strings.Builder
	for name, block := range blocks {
		of := tableOf(name)
		testkit.Diff(t, name, blockKeys(block), of.keys())
		if name == "Top level" {
			text.WriteString(of.hcl())
		} else {
			text.WriteString(name + " {\n" + of.hcl() + "}\n")
		}
	}
	c := config.Config{}
	if err := c.Merge("configuration.md", []byte(text.String())); err != nil {
		t.Fatalf("%v in\n%s", err, text.String())
	}
	want := config.Default()
	ignore := []cmp.Option{cmpopts.IgnoreUnexported(config.Config{}), cmpopts.EquateEmpty()}
	testkit.Diff(t, "result", want, c, ignore...)
}

// blockKeys returns the keys of a block without the blocks in it, which have tables of their own.
func blockKeys(block reflect.Type) []string {
	var keys []string
	for field := range block.Fields() {
		if name, ok := strings.CutSuffix(field.Tag.Get("hcl"), ",optional"); ok {
			keys = append(keys, name)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestJob holds the page against job files: a job that states every default equals the one that states none, except its
// blocks that are absent if nothing is in them.
func TestJob(t *testing.T) {
	said := []any{}
	for _, heading := range []string{`job "NAME"`, `group "NAME"`, "restart", `task "NAME"`} {
		text := tableOf(heading).hcl()
		if text == "" {
			t.Errorf("no defaults of %s", heading)
		}
		said = append(said, strings.NewReplacer(
			"lifecycle {", "lifecycle {\n  hook = \"poststart\"", "template {", "template {\n  data = \"x\"\n  destination = \"local/x\"",
		).Replace(text))
	}
	short := []any{"", "", "", `lifecycle { hook = "poststart" }
		template {
			data = "x"
			destination = "local/x"
		}
		logs {}`}
	want, got := jobOf(t, short), jobOf(t, said)
	if diff := cmp.Diff(want.Groups[0].Digest, got.Groups[0].Digest); diff != "" {
		t.Errorf("%s\nwant %+v\ngot  %+v\nof\n%s", diff, want.Groups[0].Tasks[0], got.Groups[0].Tasks[0], said)
	}
	for _, j := range []*job.Job{want, got} {
		j.Groups, j.Source, j.Places = nil, job.Source{}, nil
		if j.Meta == nil {
			j.Meta = map[string]string{}
		}
	}
	testkit.Diff(t, "result", want, got)
}

// TestLogsWithoutBlock holds that a task without a logs block has the driver's limits, as the page says,
// and not the defaults of the keys in the block.
func TestLogsWithoutBlock(t *testing.T) {
	for text, want := range map[string]*job.Logs{"": nil, "logs {}": {MaxFiles: 10, MaxFileSizeMB: 10}} {
		if diff := cmp.Diff(want, jobOf(t, []any{"", "", "", text}).Groups[0].Task("t").Logs); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	with := jobOf(t, []any{"", "ephemeral_disk {\n size = 1000\n}", "", ""}).Groups[0].Task("t").Logs
	if diff := cmp.Diff(&job.Logs{MaxFiles: 10, MaxFileSizeMB: 10}, with); diff != "" {
		t.Errorf("with an ephemeral_disk: %s", diff)
	}
}

// jobOf returns a job with texts in it, in its group, in the group's restart block and in its task.
func jobOf(t *testing.T, texts []any) *job.Job {
	t.Helper()
	text := fmt.Sprintf(`job "j" {
%s
group "g" {
%s
restart {
%s
}
task "t" {
driver = "tacho"
%s
}
task "main" { driver = "tacho" }
}
}`, texts...)
	read, err := job.Read(job.Source{Filename: "x.hcl", Text: text})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return read.Job
}
