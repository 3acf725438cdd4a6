// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestJobDiff is what Nomad's command line prints of a plan, beside the fields: what follows from them.
func TestJobDiff(t *testing.T) {
	const file = "job \"x\" {\n group \"g\" {\n count = 2\n task \"t\" {\n driver = \"d\"\n }\n }\n group \"h\" {\n task \"u\" {\n driver = \"d\"\n }\n }\n}"
	parse := func(text string) *job.Job {
		j := testkit.Value(job.Read(job.Source{Filename: "x", Text: text}))(t)
		return j.Job
	}
	now := &snapshot.Job{Job: parse(file), ID: "x"}
	replaced, kept := snapshot.Changes{Replace: 2}, snapshot.Changes{Ignore: 2}
	for _, test := range []struct {
		name, old, next string
		now             *snapshot.Job
		changes         snapshot.Changes
		want            []string
	}{
		{"a new job", "", "", nil, snapshot.Changes{Place: 2}, []string{"Added g", "t: forces create"}},
		{"the same", "", "", now, kept, []string{"None g"}},
		{"more", "count = 2", "count = 3", now, snapshot.Changes{Ignore: 2, Place: 1}, []string{"Edited g", "Count: forces create"}},
		{"less", "count = 2", "count = 0", now, snapshot.Changes{Stop: 2}, []string{"Edited g", "Count: forces destroy"}},
		{"a task", "driver = \"d\"", "driver = \"e\"", now, replaced, []string{"Edited g", "t: forces create/destroy update"}},
		{"a policy", "count = 2", "count = 2\n reschedule {\n delay = \"9s\"\n }", now, kept, []string{"Edited g"}},
		{"no group", "group \"g\"", "group \"i\"", now, snapshot.Changes{Stop: 2}, []string{"Deleted g", "t: forces destroy"}},
	} {
		plan := &snapshot.Plan{Job: parse(strings.Replace(file, test.old, test.next, 1)), Now: test.now, Groups: map[string]snapshot.Changes{"g": test.changes}}
		diff := testkit.Value(newJobDiff(plan))(t)
		var got []string
		for _, g := range diff.TaskGroups {
			if g.Name != "g" {
				continue
			}
			got = append(got, g.Type+" g")
			for _, f := range g.Fields {
				for _, a := range f.Annotations {
					got = append(got, fmt.Sprintf("%s: %s", f.Name, a))
				}
			}
			for _, inner := range g.Tasks {
				for _, a := range inner.Annotations {
					got = append(got, fmt.Sprintf("%s: %s", inner.Name, a))
				}
			}
		}
		testkit.Diff(t, test.name, test.want, got)
	}
}
