// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tachograph/tacho/driver"
	pluginconfig "github.com/tachograph/tacho/plugin/config"
	"github.com/tachograph/tacho/procstats"
)

func parse(t *testing.T, text string) hcl.Body {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(text), "x", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return file.Body
}

// TestBothWays holds that a block means the same whether it comes over a wire or from a host in this process.
func TestBothWays(t *testing.T) {
	for _, text := range []string{
		"command = \"true\"",
		"command = \"sh\"\nargs = [\"-c\", \"exit 3\"]\nwork_dir = \"/tmp\"\noom_score_adj = -5\ndenied_envvars = [\"A*\"]\nlogs {\n max_files = 3\n}",
		"command = \"true\"\ncgroup_v2_override = \"x\"",
		"command = \"true\"\ncgroup_v1_override {\n memory = \"a\"\n cpu = \"b\"\n}",
		"command = \"true\"\nlogs {\n max_files = 2\n max_file_size = 7\n}",
		"command = \"true\"\nmeasurements = \"default,disk\"\ndisk {\n interval = \"2s\"\n}",
		"command = \"true\"\ndisk {}",
		"command = \"true\"\nprocess_rows {\n interval = \"1m\"\n}",
		"command = 5",
	} {
		value, diags := pluginconfig.Decode(driver.TaskSchema(), parse(t, text), nil)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		encoded, diags := pluginconfig.Encode(driver.TaskSchema(), parse(t, text), nil)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		here, err := driver.ConfigBlockOf(value)
		there, wireErr := driver.DecodeBlock(encoded)
		if err != nil || wireErr != nil {
			t.Errorf("%s: %v, over a wire %v", text, err, wireErr)
		}
		if d := cmp.Diff(there, here, cmp.AllowUnexported(procstats.Selection{})); d != "" {
			t.Errorf("%s (-over a wire +here):\n%s", text, d)
		}
	}
	for _, text := range []string{
		"",
		"enforce = false\nlog_collection = \"host\"\nlog_overflow = \"drop\"\nprocess_rows {\n interval = \"2s\"\n max = 7\n}\nmeasurements = \"-psi\"\ndisk {\n budget = \"2ms\"\n}\nruntime_dir = \"/run/x\"\ncgroup_parent = \"/c\"",
		"denied_host_uids = \"0,10-15\"\ndenied_host_gids = \"7\"\ndenied_envvars = [\"X\"]\nlogs {\n max_files = 3\n}\nmetrics {\n address = \"unix:/x\"\n}",
	} {
		value, diags := pluginconfig.Decode(driver.ConfigSchema(), parse(t, text), nil)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		encoded, diags := pluginconfig.Encode(driver.ConfigSchema(), parse(t, text), nil)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		here, err := driver.ConfigOf(value)
		there, wireErr := driver.DecodeConfig(encoded)
		if err != nil || wireErr != nil {
			t.Errorf("%s: %v, over a wire %v", text, err, wireErr)
		}
		if d := cmp.Diff(there, here, cmp.AllowUnexported(procstats.Selection{})); d != "" {
			t.Errorf("%s (-over a wire +here):\n%s", text, d)
		}
	}
}

// TestAllMistakes holds that all that is wrong with a block is said at once, one cause a line.
func TestAllMistakes(t *testing.T) {
	value, diags := pluginconfig.Decode(driver.TaskSchema(), parse(t, "command = \"\"\nwork_dir = \"x\"\noom_score_adj = 2000"), nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	_, err := driver.ConfigBlockOf(value)
	if !errors.Is(err, driver.ErrInvalid) {
		t.Fatal(err)
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"command is empty", "work_dir \"x\"", "oom_score_adj 2000"}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %s", len(lines), len(want), err)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d: %s, want %s", i+1, line, want[i])
		}
	}
}
