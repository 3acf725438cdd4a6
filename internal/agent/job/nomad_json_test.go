// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tachograph/tacho/internal/testkit"
)

// translate writes a job in JSON as a job file, each of whose lines has a place.
func translate(t *testing.T, text string) *Translation {
	t.Helper()
	translation := testkit.Value(Translate([]byte(text)))(t)
	if lines := strings.Count(translation.Source.Text, "\n"); lines != len(translation.lines) {
		t.Errorf("%d lines and %d places", lines, len(translation.lines))
	}
	return translation
}

// TestTranslate holds jobs in JSON against the job files that they were read from.
func TestTranslate(t *testing.T) {
	const file = `
job "web" {
  priority    = 70
  type        = "batch"
  datacenters = ["dc1", "dc*"]
  meta { owner = "a \"quoted\" name" }
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  group "g" {
    count = 0
    ephemeral_disk { size = 50 }
    network {
      port "http" { to = 80 }
      port "db" { static = 5432 }
    }
    restart {
      attempts = 0
      delay    = "1s"
    }
    reschedule {
      attempts  = 2
      interval  = "1h"
      delay     = "10s"
      unlimited = false
    }
    task "t" {
      driver       = "tacho"
      user         = "nobody"
      kill_timeout = "20s"
      kill_signal  = "SIGTERM"
      leader       = true
      config {
        command = "sh"
        args    = ["-c", "echo ${NOMAD_PORT_http} $${HOME:-x} %%{ if }\ttab\nline"]
        logs    = [{ max_files = 2 }]
      }
      env { A = "${NOMAD_ALLOC_ID} $${B:-c}" }
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      logs { max_files = 3 }
      resources {
        cpu        = 200
        memory     = 20
        memory_max = -1
      }
      template {
        data        = "{{ env \"X\" }} $${FOO}\n"
        destination = "local/x"
        env         = true
      }
    }
    task "main" {
      driver = "tacho"
    }
  }
}
`
	const inJSON = `{
  "ID": "web", "Name": "web", "Type": "batch", "Priority": 70, "Datacenters": ["dc1", "dc*"], "Meta": {"owner": "a \"quoted\" name"},
  "AllAtOnce": false, "Region": null, "Status": "pending", "Version": 3, "Affinities": [], "Update": {"MaxParallel": 0}, "Stop": false,
  "Constraints": [{"LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "="}],
  "TaskGroups": [{
    "Name": "g", "Count": 0, "EphemeralDisk": {"SizeMB": 50, "Sticky": false},
    "Networks": [{"Mode": "", "DynamicPorts": [{"Label": "http", "Value": 0, "To": 80}], "ReservedPorts": [{"Label": "db", "Value": 5432}]}],
    "RestartPolicy": {"Attempts": 0, "Delay": 1000000000, "RenderTemplates": false},
    "ReschedulePolicy": {"Attempts": 2, "Interval": 3600000000000, "Delay": "10s", "Unlimited": false},
    "Tasks": [{
      "Name": "t", "Driver": "tacho", "User": "nobody", "KillTimeout": 20000000000, "KillSignal": "SIGTERM", "Leader": true,
      "Config": {"command": "sh", "args": ["-c", "echo ${NOMAD_PORT_http} ${HOME:-x} %{ if }\ttab\nline"], "logs": [{"max_files": 2}]},
      "Env": {"A": "${NOMAD_ALLOC_ID} ${B:-c}"}, "Lifecycle": {"Hook": "prestart", "Sidecar": true}, "LogConfig": {"MaxFiles": 3},
      "Resources": {"CPU": 200, "MemoryMB": 20, "MemoryMaxMB": -1, "Devices": null}, "ShutdownDelay": 0, "Kind": "",
      "Templates": [{"EmbeddedTmpl": "{{ env \"X\" }} ${FOO}\n", "DestPath": "local/x", "Envvars": true, "Splay": 5000000000, "Perms": "0644"}]
    }, {"Name": "main", "Driver": "tacho"}]
  }]
}`
	translation := translate(t, inJSON)
	want, got := parse(t, file), parse(t, translation.Source.Text)
	ignore := cmp.Options{
		cmpopts.IgnoreFields(Job{}, "Source"), cmpopts.IgnoreTypes(Places{}), cmpopts.IgnoreFields(Constraint{}, "Range"),
		cmpopts.IgnoreFields(Template{}, "Range"), cmp.Transformer("text", func(v interface{ MarshalJSON() ([]byte, error) }) string {
			text, _ := v.MarshalJSON()
			return string(text)
		}),
	}
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("%s\n%s", diff, translation.Source.Text)
	}
}

// TestTranslateRefuses is what of a job in JSON is refused, by its name and its place.
func TestTranslateRefuses(t *testing.T) {
	const group = `{"ID": "x", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "tacho", %s}], %s}]}`
	for name, test := range map[string]struct{ task, group, want string }{
		"artifacts": {`"Artifacts": [{"GetterSource": "http://x"}]`, `"Count": 1`, "Job.TaskGroups[0].Tasks[0].Artifacts: Not supported; artifact"},
		"vault":     {`"Vault": {"Role": "x"}`, `"Count": 1`, "Tasks[0].Vault: Not supported; vault"},
		"volumes":   {`"User": ""`, `"Volumes": {"v": {"Type": "host"}}`, "TaskGroups[0].Volumes: Not supported; volume"},
		"canaries":  {`"User": ""`, `"Update": {"Canary": 1}`, "TaskGroups[0].Update.Canary: Not supported; canary"},
		"bridge":    {`"User": ""`, `"Networks": [{"Mode": "bridge"}]`, `network mode "bridge" is not supported`},
		"connect":   {`"Services": [{"Connect": {"Native": true}}]`, `"Count": 1`, "Services[0].Connect: Not supported"},
		"unknown":   {`"Frobnicate": 3`, `"Count": 1`, `Tasks[0].Frobnicate: Unknown attribute; unknown attribute "frobnicate"`},
		"a type":    {`"Resources": {"MemoryMB": "much"}`, `"Count": 1`, "Tasks[0].Resources.MemoryMB: "},
		"a block":   {`"Resources": 3`, `"Count": 1`, "Tasks[0].Resources"},
		"odd keys":  {`"Config": {"a b": 1, "c\"}": 2}`, `"Count": -1`, "TaskGroups[0].Count"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(strings.Replace(group, "%s", test.task, 1), "%s", test.group, 1)
			translation := translate(t, text)
			_, err := Read(translation.Source)
			if err == nil {
				t.Fatalf("it is accepted:\n%s", translation.Source.Text)
			}
			if got := translation.Explain(err.Error()); !strings.Contains(got, test.want) {
				t.Errorf("%q is not in %q", test.want, got)
			}
		})
	}
}

// TestPlaceOfNames holds that what is wrong with a name has the place of the key that it comes from.
func TestPlaceOfNames(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:          "Job.ID: Invalid name; the id of a job must have 1 to 128 characters without spaces\nJob: Missing; the job has no group",
		`{"ID": "x"}`: "Job: Missing; the job has no group",
		`{"ID": "x", "TaskGroups": [{"Name": "a/b", "Tasks": [{"Name": "c/d", "Driver": "d"}]}]}`: "Job.TaskGroups[0].Name: Invalid name; the name of a group must have 1 to 128 characters and no slash\n" +
			"Job.TaskGroups[0].Tasks[0].Name: Invalid name; the name of a task must have 1 to 128 characters and no slash",
	} {
		translation := translate(t, text)
		_, err := Read(translation.Source)
		if err == nil {
			t.Fatalf("%s is accepted", text)
		}
		got := strings.Split(translation.Explain(err.Error()), "\n")
		lines := strings.Split(want, "\n")
		slices.Sort(got)
		slices.Sort(lines)
		if !slices.Equal(got, lines) {
			t.Errorf("%s:\n%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(lines, "\n"))
		}
	}
}

// TestScaling is how many allocations a group has that a scaling block is in, as a job file and as JSON.
func TestScaling(t *testing.T) {
	const (
		file   = "job \"x\" {\n group \"g\" {\n %s\n scaling {\n min = 2\n max = 3\n }\n task \"t\" {\n driver = \"d\"\n }\n }\n}"
		inJSON = `{"ID": "x", "TaskGroups": [{"Name": "g", "Count": %s, "Scaling": {"Min": 2, "Max": 3}, "Tasks": [{"Name": "t", "Driver": "d"}]}]}`
	)
	for _, test := range []struct {
		file, inJSON string
		want         int
	}{{"", "null", 2}, {"count = 3", "3", 3}} {
		translated := translate(t, strings.Replace(inJSON, "%s", test.inJSON, 1)).Source.Text
		for _, text := range []string{strings.Replace(file, "%s", test.file, 1), translated} {
			testkit.Equal(t, parse(t, text).Groups[0].Count, test.want, "%s: count", text)
		}
	}
}
