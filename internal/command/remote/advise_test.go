// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/cluster"
	"github.com/tachograph/tacho/internal/command/cli"
)

// TestNamespaces has jobs of one name in two namespaces, which the table and the titles tell apart.
func TestNamespaces(t *testing.T) {
	s := &sizing{}
	for _, namespace := range []string{"default", "team"} {
		s.Tasks = append(s.Tasks, &cluster.Size{Namespace: namespace, Job: "web", Group: "g", Task: "t"})
	}
	text := s.text(cli.Palette{})
	for _, want := range []string{"web       g", "web@team  g", "\nweb/g/t\n", "\nweb@team/g/t\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}
