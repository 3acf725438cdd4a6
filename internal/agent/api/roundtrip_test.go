// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/testkit"
)

// The parts of job files, by the block that they stand in.
var (
	jobParts = []string{
		`type = "batch"`, `type = "sysbatch"`, `type = "system"`, `priority = 70`, `datacenters = ["dc1", "d*"]`, `name = "a ${"b"} \"c\" $${NOMAD_X}"`,
		`meta = { a = "1", "b-c" = "${NOMAD_ALLOC_ID} $${FOO:-x} %%{if}" }`, `namespace = "other"`,
		"constraint {\n attribute = \"$${attr.kernel.name}\"\n value = \"linux\"\n}",
		"constraint {\n attribute = attr.unique.hostname\n regexp = \"^[a-z$${]+\"\n}", "constraint {\n distinct_hosts = true\n}",
		"constraint {\n operator = \"is_set\"\n attribute = \"$${attr.os.name}\"\n}", "constraint {\n attribute = \"$${meta.x}\"\n operator = \"!=\"\n value = \"\"\n}",
		"reschedule {\n attempts = 0\n unlimited = false\n}", "reschedule {\n attempts = 3\n interval = \"1h\"\n delay = \"7s\"\n delay_function = \"fibonacci\"\n max_delay = \"0s\"\n}",
		"affinity {\n attribute = \"x\"\n value = \"y\"\n}", "update {\n max_parallel = 2\n}", `node_pool = "default"`, `all_at_once = true`,
	}
	groupParts = []string{
		`count = 0`, `count = 3`, `meta { a = "group" }`, "restart {\n attempts = 0\n}", "restart {\n delay = \"0s\"\n}",
		"restart {\n attempts = 5\n interval = \"10m\"\n delay = \"1500ms\"\n mode = \"delay\"\n}", "ephemeral_disk {\n size = 20\n}", "ephemeral_disk {\n sticky = true\n}",
		"network {\n port \"z\" {\n static = 5432\n }\n port \"http\" {\n to = 80\n }\n port \"a\" {}\n port \"b\" {\n to = -1\n }\n}",
		"reschedule {\n delay = \"10s\"\n}", "constraint {\n operator = \"distinct_property\"\n attribute = \"$${node.datacenter}\"\n}",
		"scaling {\n min = 1\n max = 3\n}", "service {\n port = \"x\"\n}", "task \"side\" {\n driver = \"tacho\"\n lifecycle {\n hook = \"poststart\"\n sidecar = true\n }\n}",
		"task \"after\" {\n driver = \"tacho\"\n lifecycle {\n hook = \"poststop\"\n }\n}", "migrate {}", "disconnect {\n lost_after = \"1h\"\n}",
	}
	taskParts = []string{
		`user = "nobody"`, `kill_timeout = "0s"`, `kill_timeout = "1m30s"`, `kill_signal = "SIGTERM"`, `leader = true`, `meta = { a = "task", c = "d" }`,
		"env {\n A = \"$${HOME} ${NOMAD_TASK_DIR} $${NOMAD_TASK_DIR} $${B:-c}\"\n B = \"\"\n C = 3\n D = true\n}", `env = { "a.b" = "c", X = upper(NOMAD_TASK_NAME) }`,
		"env {\n A = \"%{ if NOMAD_ALLOC_INDEX == \"0\" }first%{ else }other%{ endif }\"\n}", `env { E = "${local.start} ${local.twice} ${local.fixed}" }`,
		`env { F = "${NOMAD_ALLOC_INDEX == "0" ? var.v : "other"} \t \" \\ é ${upper("${NOMAD_TASK_NAME}-${local.fixed}")}" }`,
		"resources {\n cpu = 200\n memory = 20\n memory_max = 40\n}", "resources {\n cores = 2\n memory_max = -1\n}", "resources {\n disk = 20\n iops = 3\n}",
		"logs {\n max_files = 3\n max_file_size = 2\n}", "logs {}", "logs {\n disabled = true\n}", "logs {\n max_files = 4\n max_file_size = 5\n}",
		"restart {\n attempts = 1\n mode = \"fail\"\n}", "template {\n data = \"{{ env \\\"X\\\" }} $${FOO} ${NOMAD_TASK_DIR} $$$${x}\\n\"\n destination = \"local/x\"\n perms = \"600\"\n env = true\n}",
		"template {\n data = \"\"\n destination = \"$${NOMAD_SECRETS_DIR}/x\"\n left_delimiter = \"[[\"\n right_delimiter = \"]]\"\n change_mode = \"signal\"\n change_signal = \"SIGHUP\"\n}",
		"constraint {\n attribute = \"$${attr.cpu.arch}\"\n operator = \"set_contains_any\"\n value = \"amd64,arm64\"\n}", "service {\n name = \"x\"\n check {\n type = \"tcp\"\n }\n}",
		"config {\n command = \"/bin/sh\"\n args = [\"-c\", \"echo $${HOME} $${#x} $$HOME $(x) `x` %%{ if } ${NOMAD_TASK_NAME} ${env.HOME} ${attr.kernel.arch}\\n\"]\n}",
		"config {\n command = NOMAD_TASK_NAME\n args = [upper(NOMAD_TASK_NAME), \"a ${join(\",\", [NOMAD_ALLOC_ID, var.v, local.fixed])} b\", local.start, local.twice, node.unique.name]\n}",
		"config {\n args = [for x in var.list : \"${x}-${NOMAD_ALLOC_INDEX}\"]\n other = [for x in var.list : upper(x)]\n}",
		"config {\n a = null\n b = 1.5\n c = 12345678901234567890\n d = {\n \"e f\" = [1, \"2\", { g = NOMAD_TASK_NAME }]\n }\n h = \"\"\n i = false\n j = []\n}",
		"config {\n disk {\n interval = \"2s\"\n }\n mount \"a\" {\n x = 1\n }\n mount \"b\" {\n x = \"${NOMAD_TASK_DIR}/$${b}\"\n }\n}",
		"config {\n args = [<<-EOT\n  one ${NOMAD_TASK_NAME} $${one}\n   two\n EOT\n ]\n b = \"${(NOMAD_X)}\"\n c = \"$${(f(x))} $${(bash) $${(\"\n}",
		"config {\n a = coalesce(NOMAD_X,\n  \"x\")\n b = \"${var.odd}${var.v}\"\n c = attr[\"a b\"]\n d = \"${local.object.a} ${local.object.b}\"\n}",
	}
)

const header = `
variable "v" {
  default = "a \"v\""
}
variable "odd" {
  default = "$${NOMAD_TASK_NAME} $${(upper(x))}"
}
variable "list" {
  type    = list(string)
  default = ["x", "y"]
}
locals {
  fixed  = upper("${var.v}!")
  start  = "in ${NOMAD_TASK_DIR}"
  twice  = "${local.start} and ${lower(NOMAD_TASK_NAME)}"
  object = { a = NOMAD_TASK_NAME, b = "c" }
}
`

func jobWith(inJob, inGroup, inTask string) string {
	return fmt.Sprintf("%s\njob \"x\" {\n%s\ngroup \"g\" {\n%s\ntask \"t\" {\n driver = \"tacho\"\n%s\n}\n}\ngroup \"h\" {\n task \"u\" {\n driver = \"tacho\"\n }\n}\n}",
		header, inJob, inGroup, inTask)
}

// TestPutBack registers jobs as clients do that have read them: from the JSON that this server shows, with or without what a client of
// Nomad adds to it. They are the same jobs.
func TestPutBack(t *testing.T) {
	files := map[string]string{"nothing": jobWith("", "", "")}
	for i, part := range jobParts {
		files["job: "+part] = jobWith(part, "", "")
		files[fmt.Sprintf("all of %d", i)] = jobWith(part, groupParts[i%len(groupParts)], strings.Join([]string{taskParts[i], taskParts[len(taskParts)-1-i/2]}, "\n"))
	}
	for _, part := range groupParts {
		files["group: "+part] = jobWith("", part, "")
		files["group and job: "+part] = jobWith("meta { a = \"job\" }\nreschedule {\n attempts = 2\n}", part, "")
	}
	for _, part := range taskParts {
		files["task: "+part] = jobWith("", "", part)
		files["task, group and job: "+part] = jobWith("meta { a = \"job\" }", "meta { a = \"group\" }\nrestart {\n attempts = 7\n}\nephemeral_disk {\n size = 30\n}", part)
	}
	examples, err := filepath.Glob("../../../examples/*.nomad.hcl")
	if err != nil || len(examples) == 0 {
		t.Fatalf("%v, %v", examples, err)
	}
	for _, name := range examples {
		text := testkit.Value(os.ReadFile(name))(t)
		files[name] = string(text)
	}
	accepted := 0
	for name, text := range files {
		before, err := job.Read(job.Source{Filename: "x", Text: text})
		if err != nil {
			if !strings.HasPrefix(name, "all of") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		accepted++
		checkPutBack(t, name, before.Job, 3)
	}
	t.Logf("%d of %d jobs", accepted, len(files))
}

// checkPutBack puts a job back some times.
func checkPutBack(t *testing.T, name string, before *job.Job, times int) {
	t.Helper()
	shown, err := json.Marshal(newJobJSON(&snapshot.Job{Job: before, ID: before.ID, Version: 3}, true))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	translation, err := job.Translate(shown)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	after, err := job.Read(translation.Source)
	if err != nil {
		t.Errorf("%s: %s\n%s", name, translation.Explain(err.Error()), translation.Source.Text)
		return
	}
	if !after.Same(before) {
		again, err := json.Marshal(newJobJSON(&snapshot.Job{Job: after.Job, ID: before.ID, Version: 3}, true))
		if err != nil {
			t.Error(err)
		}
		t.Errorf("%s: another job: %s\n%s", name, cmp.Diff(string(shown), string(again)), translation.Source.Text)
		return
	}
	if times > 0 {
		checkPutBack(t, name, after.Job, times-1)
	}
}
