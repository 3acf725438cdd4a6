// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/docs"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestLogsWithoutBlock holds that a task without a logs block has the driver's limits, as docs/configuration.md says,
// and not the defaults of the keys in the block.
func TestLogsWithoutBlock(t *testing.T) {
	for text, want := range map[string]*Logs{"": nil, "logs {}": {MaxFiles: 10, MaxFileSizeMB: 10}} {
		if diff := cmp.Diff(want, parsed(t, []any{"", "", "", text}).Groups[0].Task("t").Logs); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	with := parsed(t, []any{"", "ephemeral_disk {\n size = 1000\n}", "", ""}).Groups[0].Task("t").Logs
	if diff := cmp.Diff(&Logs{MaxFiles: 10, MaxFileSizeMB: 10}, with); diff != "" {
		t.Errorf("with an ephemeral_disk: %s", diff)
	}
}

// TestDocs holds docs/configuration.md against the program: a job that says every default is the one that says none,
// but for its blocks that are not there if nothing is in them.
func TestDocs(t *testing.T) {
	said := []any{}
	for _, heading := range []string{`job "NAME"`, `group "NAME"`, "restart", `task "NAME"`} {
		text := docs.Configuration(heading).HCL()
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
	want, got := parsed(t, short), parsed(t, said)
	if diff := cmp.Diff(want.Groups[0].Digest, got.Groups[0].Digest); diff != "" {
		t.Errorf("%s\nwant %+v\ngot  %+v\nof\n%s", diff, want.Groups[0].Tasks[0], got.Groups[0].Tasks[0], said)
	}
	for _, j := range []*Job{want, got} {
		j.Groups, j.Source, j.Places = nil, Source{}, nil
		if j.Meta == nil {
			j.Meta = map[string]string{}
		}
	}
	testkit.Diff(t, "result", want, got)
}

// parsed is a job with texts in it, in its group, in the group's restart block and in its task.
func parsed(t *testing.T, texts []any) *Job {
	t.Helper()
	return parse(t, fmt.Sprintf(`job "j" {
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
}`, texts...))
}
