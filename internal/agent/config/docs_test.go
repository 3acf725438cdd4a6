// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
)

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
