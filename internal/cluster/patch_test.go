// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cluster_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/cluster"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestPatch holds that a patch changes the resources of a file and nothing else, as patch applies it.
func TestPatch(t *testing.T) {
	const around = "job \"middle\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"tacho\"\n%      config { command = \"true\" }\n    }\n    task \"u\" {\n      driver = \"tacho\"\n    }\n  }\n}\n"
	in := func(text string) string { return strings.Replace(around, "%", text, 1) }
	same := func(size *cluster.Size) { size.CPU.Advised = nil }
	for name, test := range map[string]struct {
		before, after string
		change        func(*cluster.Size)
		note          string
	}{
		"both":              {in("      resources {\n        cpu    = 100\n        memory = 300 # MiB\n      }\n"), in("      resources {\n        cpu    = 130\n        memory = 52 # MiB\n      }\n"), nil, ""},
		"one":               {in("      resources {\n        cpu    = 100\n        memory = 300\n      }\n"), in("      resources {\n        cpu    = 100\n        memory = 52\n      }\n"), same, ""},
		"a line alone":      {in("      resources { memory = 300 }\n"), in("      resources { memory = 52 }\n"), same, ""},
		"what was assumed":  {in("      resources {\n        memory = 300\n      }\n"), in("      resources {\n        memory = 52\n        cpu    = 130\n      }\n"), nil, ""},
		"no room in a line": {in("      resources { cpu = 100 }\n"), "", func(s *cluster.Size) { s.CPU.Advised = nil }, "nothing can be added"},
		"computed":          {in("      resources {\n        memory = var.memory\n      }\n"), "", same, "memory is computed; it should be 52"},
		"whole cores":       {in("      resources {\n        cores = 1\n      }\n"), "", func(s *cluster.Size) { s.Cores, s.Memory.Advised = 1, nil }, ""},
		"a limit below":     {in("      resources {\n        memory = 30\n        memory_max = 40\n      }\n"), in("      resources {\n        memory     = 52\n        memory_max = 52\n      }\n"), func(s *cluster.Size) { same(s); s.RequestedMax = 40 }, ""},
		"no such task":      {"job \"middle\" {\n}\n", "", nil, "no block of the task g/t"},
		"not HCL":           {"job {", "", nil, "Nomad's copy of its file"},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, nomad(t, func(answers string) string {
				var all map[string]any
				testkit.Must(t, json.Unmarshal([]byte(answers), &all))
				all["/v1/job/middle/submission"] = map[string]string{"Source": test.before, "Format": "hcl2"}
				return string(testkit.Value(json.Marshal(all))(t))
			}).URL)
			tasks := testkit.Value(c.Tasks(t.Context(), "middle", captured, nil))(t)
			size := tasks[0].Size(1000)
			if test.change != nil {
				test.change(size)
			}
			diff, notes := c.Patch(t.Context(), tasks, []*cluster.Size{size})
			if got := strings.Join(notes, "\n"); !strings.Contains(got, test.note) || test.note == "" && got != "" {
				t.Errorf("notes %q", got)
			}
			file := filepath.Join(t.TempDir(), "job")
			testkit.Must(t, os.WriteFile(file, []byte(test.before), 0o600))
			if test.after == "" {
				testkit.Equal(t, diff, "", "diff")
				return
			}
			cmd := exec.CommandContext(t.Context(), "patch", "--fuzz=0", file)
			cmd.Stdin = strings.NewReader(diff)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s\n%s", err, out, diff)
			}
			testkit.Diff(t, "file", test.after, string(testkit.Value(os.ReadFile(file))(t)))
		})
	}
	c, tasks := tasksOf(t, "unseen")
	tasks[0].Job = "purged"
	_, notes := c.Patch(t.Context(), tasks, nil)
	testkit.Diff(t, "notes", []string{"job purged: Nomad's copy of its file: nomad at " + c.Address() + ": job not found"}, notes)
}
