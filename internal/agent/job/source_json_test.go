// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestShown is what clients read of a config block: the same text comes to the same again, from a job file and from
// JSON.
func TestShown(t *testing.T) {
	const file = `
variable "v" {
  default = "a \"b\""
}
locals {
  late  = "in ${NOMAD_TASK_DIR}"
  early = "x"
}
job "x" {
  group "g" {
    task "t" {
      driver = "d"
      config {
        a = %s
      }
    }
  }
}`
	for _, test := range []struct{ expression, want string }{
		{`"plain ${var.v}"`, `"plain a \"b\""`},
		{`"${NOMAD_TASK_NAME}"`, `"${NOMAD_TASK_NAME}"`},
		{`NOMAD_TASK_NAME`, `"${NOMAD_TASK_NAME}"`},
		{`attr["a b"]`, `"${(attr[\"a b\"])}"`},
		{`"$${NOMAD_TASK_NAME} $${#x} $${HOME:-x}"`, `"$${NOMAD_TASK_NAME} ${#x} ${HOME:-x}"`},
		{`upper(NOMAD_TASK_NAME)`, `"${(upper(NOMAD_TASK_NAME))}"`},
		{`"$${(upper(NOMAD_TASK_NAME))}"`, `"$${(upper(NOMAD_TASK_NAME))}"`},
		{`join(var.v, [local.late, local.early])`, `"${(join(\"a \\\"b\\\"\", [(\"in ${NOMAD_TASK_DIR}\"), \"x\"]))}"`},
		{`"is ${local.late}."`, `"is in ${NOMAD_TASK_DIR}."`},
		{`[NOMAD_X, { b = upper("y"), c = 1.5 }]`, `["${NOMAD_X}",{"b":"Y","c":1.5}]`},
		{`[for x in ["p", "q"] : upper(x)]`, `["P","Q"]`},
		{`[for x in ["p"] : "${x}${NOMAD_X}"]`, `"${([for x in [\"p\"] : \"${x}${NOMAD_X}\"])}"`},
		// A directive has no other form than its literal value.
		{`"%{ if NOMAD_X == "a" }b%{ else }c%{ endif }"`, `"c"`},
	} {
		shown := ""
		for _, text := range []string{test.expression, ""} {
			hcl := fmt.Sprintf(file, text)
			if text == "" {
				hcl = translate(t, fmt.Sprintf(`{"ID": "x", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d", "Config": {"a": %s}}]}]}`, shown)).Source.Text
			}
			j := parse(t, hcl)
			var b strings.Builder
			encoder := json.NewEncoder(&b)
			encoder.SetEscapeHTML(false)
			testkit.Must(t, encoder.Encode(j.Groups[0].Tasks[0].Config["a"]))
			if shown = strings.TrimSpace(b.String()); shown != test.want {
				t.Errorf("%s %s: %s, want %s", test.expression, text, shown, test.want)
			}
		}
	}
}

// TestSame is what makes another job.
func TestSame(t *testing.T) {
	const file = "job \"x\" {\n group \"g\" {\n count = 2\n task \"t\" {\n driver = \"d\"\n config {\n a = \"${upper(X)}\"\n }\n }\n }\n}"
	for _, test := range []struct {
		old, now string
		want     bool
	}{
		{"", "", true},
		{"job ", "# a comment\njob ", true},
		{"group ", "update {}\n group ", true},
		{"count = 2", "count = 3", false},
		{"group ", "priority = 3\n group ", false},
		{"group ", "meta = { a = \"b\" }\n group ", false},
		{"count", "reschedule {\n delay = \"8s\"\n }\n count", false},
		{"upper(X)", "X", false},
		{"upper(X)", "lower(X)", false},
		{"${upper(X)}", "$${X}", false},
	} {
		if got := parse(t, file).Same(parse(t, strings.Replace(file, test.old, test.now, 1))); got != test.want {
			t.Errorf("%q for %q: the same %t", test.now, test.old, got)
		}
	}
}
