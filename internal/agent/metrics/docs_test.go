// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestDocs holds the tables of docs/metrics.md to those of the program; -update writes them.
func TestDocs(t *testing.T) {
	const file = "../../../docs/metrics.md"
	text := testkit.Value(os.ReadFile(file))(t)
	var tasks, agent, nomad strings.Builder
	for _, c := range append(columns(), ownColumns()...) {
		combine := c.combine
		if c.kind == exposition.Counter {
			combine = Sum
		}
		fmt.Fprintf(&tasks, "| %s | %s | %s | %s |\n", c.name, c.kind, combine, c.help)
	}
	for _, f := range ownFamilies(t) {
		fmt.Fprintf(&agent, "| %s | %s | %s |\n", f.Name, f.Type, f.Help)
	}
	for _, n := range nomadColumns(1) {
		fmt.Fprintf(&nomad, "| %s | %s | %s |\n", n.name, n.kind, n.help)
	}
	resources := node.Resources{Cores: []int{0}, CoreMHz: 1, MemoryBytes: 1 << 30, DiskBytes: 1 << 30}
	one := &snapshot.Agent{
		Node: node.Node{Resources: resources}, Jobs: []*snapshot.Job{{Job: &job.Job{Groups: []*job.Group{{}}}}},
	}
	var list []exposition.Family
	families{&list, exposition.NewLabels()}.addNomadAgent(one)
	for _, f := range list {
		fmt.Fprintf(&nomad, "| %s | gauge | %s |\n", f.Name, f.Help)
	}
	written := string(text)
	for name, rows := range map[string]string{"tasks": tasks.String(), "agent": agent.String(), "nomad": nomad.String()} {
		begin := "<!-- " + name + ": go test ./internal/agent/metrics -update -->\n"
		before, rest, found := strings.Cut(written, begin)
		table, after, closed := strings.Cut(rest, "<!-- end -->\n")
		head := strings.SplitAfterN(table, "\n", 3)
		if !found || !closed || len(head) != 3 {
			t.Fatalf("%s has no place for the table %q", file, name)
		}
		written = before + begin + head[0] + head[1] + rows + "<!-- end -->\n" + after
	}
	golden(t, file, written)
}

// ownFamilies are those of a page that are neither a column nor one of Nomad's.
func ownFamilies(t *testing.T) []exposition.Family {
	t.Helper()
	f := newFake()
	f.telemetry.PublishNodeMetrics = true
	c := newTestCollector(f)
	c.Gather(t.Context()) // a page says how long the one before took
	return slices.DeleteFunc(c.Gather(t.Context()), func(f exposition.Family) bool {
		return slices.ContainsFunc(c.columns, func(c column) bool { return c.name == f.Name })
	})
}
