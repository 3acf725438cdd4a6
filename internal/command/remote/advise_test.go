// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/cluster"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// TestNamespaces has jobs of one name in two namespaces, which the table and the titles tell apart, and bounds of what they
// have used, which look like bounds.
func TestNamespaces(t *testing.T) {
	s := &sizing{}
	for _, namespace := range []string{"default", "team"} {
		s.Tasks = append(s.Tasks, &cluster.Size{
			Namespace: namespace, Job: "web", Group: "g", Task: "t",
			Memory: cluster.Resource{P50: new(int64(50)), Peak: new(int64(70)), Guarantee: procstats.LowerBound},
		})
	}
	text := s.text(cli.Palette{})
	for _, want := range []string{"web       g", "web@team  g", "\nweb/g/t\n", "\nweb@team/g/t\n", "≥ 50    –  ≥ 70"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}
