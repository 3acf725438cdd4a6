// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"testing"

	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMetadataLabels(t *testing.T) {
	meta := map[string]string{"team": "web", "cost-center": "7", "cost.center": "8", "job": "other", "outcome": "x", "reason": "x", "measurement": "x", "4k": "yes", "__name__": "x", "größe": "L"}
	cases := []struct {
		name      string
		telemetry config.Telemetry
		want      []string
	}{
		{"not asked for", config.Telemetry{AllocationDetail: DetailAlloc}, nil},
		{"series of several", config.Telemetry{AllocationDetail: DetailTask, IncludeAllocMetadata: true}, nil},
		{"all", config.Telemetry{AllocationDetail: DetailAlloc, IncludeAllocMetadata: true}, []string{
			"_4k", "yes", "_name__", "x", "cost_center", "7", "gr__e", "L", "team", "web",
		}},
		{"some", config.Telemetry{
			AllocationDetail: DetailAlloc, IncludeAllocMetadata: true, AllowedMetadataKeysInMetrics: []string{"cost.center", "job", "none"},
		}, []string{"cost_center", "8"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			testkit.Diff(t, "result", c.want, newLabelling(&snapshot.Agent{Config: config.Config{Telemetry: c.telemetry}}).meta(meta))
		})
	}
}

// The labels are on each of the task's series, and the page stays one that Prometheus reads.
func TestMetadataOnThePage(t *testing.T) {
	f := newFake()
	f.telemetry.IncludeAllocMetadata, f.telemetry.NomadNames = true, true
	f.allocs[0].Tasks["web"].Meta = map[string]string{"team": "a \"b\"\n", "driver": "taken"}
	ours := 0
	for name, family := range parse(t, page(newTestCollector(f))) {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["alloc_id"] == "aaaaaaaa" {
				ours++
			}
			if want := f.meta(labels["alloc_id"])["team"]; labels["team"] != want || labels["driver"] == "taken" {
				t.Errorf("%s has %v, want the team %q", name, labels, want)
			}
		}
	}
	if ours < 50 {
		t.Errorf("the page has %d series of the task", ours)
	}
}

func (f *fakeAgent) meta(id string) map[string]string {
	for _, a := range f.allocs {
		if a.ID == id {
			return a.Tasks["web"].Meta
		}
	}
	return nil
}
