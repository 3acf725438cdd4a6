// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tachograph/tacho/exposition"
	"github.com/tachograph/tacho/procstats"
)

const docsHead = `# Metrics

<!-- Generated from the tables in procstats and agent/metrics by "go test ./agent/metrics -update". Edit those. -->

The agent serves metrics at ` + "`/metrics`" + ` and ` + "`/v1/metrics?format=prometheus`" + ` (Prometheus text format, or OpenMetrics where
the client asks for it) while ` + "`telemetry { prometheus_metrics = true }`" + `, as JSON at ` + "`/v1/metrics`" + `, and sends them to
` + "`statsd_address`" + `.

**What was not measured is not there.** A reading that is not fresh is not there either; ` + "`tacho_task_sample_age_seconds`" + `
says how old it is. When a task has ended its gauges and its counters leave, but for its exits, restarts and OOM kills,
which stay as long as its allocation is kept.

**Names.** The metric of a measurement is ` + "`tacho_task_`" + ` and its name in [the table](measurements.md). Only the kernel's words
for pressure are others, those of node_exporter and the kubelet: ` + "`some` is `waiting`, `full` is `stalled`" + `. Values are in base
units: seconds, bytes, cores, ratios from 0 to 1. Counters of a task begin at 0 with each of its starts.

**Labels.** ` + "`alloc_id`, `job`, `namespace`, `task`, `task_group`" + `, and ` + "`host`" + ` unless ` + "`disable_hostname`" + `.
` + "`tacho_task_info`" + ` has ` + "`driver`, `state` and `type`" + `.
With ` + "`include_alloc_metadata_in_metrics = true`" + ` a task's series also have its ` + "`meta`" + `, or what of it is among the
` + "`allowed_metadata_keys_in_metrics`" + `, where series are told apart by ` + "`alloc`" + `. An underscore stands for what the name of a label
cannot hold. The labels above are never replaced, and of two keys that become one name the first by the alphabet is there.

**Fewer series.** ` + "`allocation_detail`" + ` says how far series are told apart:

| allocation_detail | series |
|---|---|
| alloc | one for each task of each allocation |
| task | one for each task of a job; without ` + "`alloc_id`" + ` |
| job | one for each job; without ` + "`alloc_id`, `task`, `task_group`" + ` |
| none | none of tasks, only the agent's own |

By job and by task, gauges are combined as the table below says. Counters are what all tasks have used since the
agent's start, those that have ended included: they do not go down when a task ends.

**Filters.** ` + "`prefix_filter = [\"-tacho_task_rusage\", \"+tacho_task_rusage_cpu\"]`" + `: the longest prefix decides, and
` + "`filter_default`" + ` where none does.

**statsd.** The values of the labels follow the name: ` + "`tacho.task.memory_bytes.HOST.ALLOC.JOB.NAMESPACE.TASK.GROUP:1024|g`" + `.
Counters are sent as what they have grown.

## Tasks

| metric | type | of several tasks | meaning |
|---|---|---|---|
`

const docsNomad = `
## Nomad's names

With ` + "`nomad_names = true`" + ` and ` + "`allocation_detail = \"alloc\"`" + ` the metrics that dashboards and autoscalers for Nomad read are there
too, with Nomad's units and types. Unlike there, what was not measured is not there, ` + "`cpu_total_ticks_count`" + ` is right at
every interval, and ` + "`running`, `complete` and `failed`" + ` say what an allocation is now. With ` + "`publish_node_metrics`" + `
there are ` + "`nomad_client_uptime` and `nomad_client_host_*`" + ` for memory, cores and file systems.

| metric | type | meaning |
|---|---|---|
`

// TestDocs holds docs/metrics.md to the tables; -update writes it.
func TestDocs(t *testing.T) {
	var page strings.Builder
	page.WriteString(docsHead)
	for _, c := range append(columns(), ownColumns()...) {
		combine := string(c.combine)
		if c.kind == exposition.Counter {
			combine = string(Sum)
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", c.name, c.kind, combine, c.help)
	}
	page.WriteString("\n## The agent and its machine\n\nThe machine's are there with `publish_node_metrics = true`.\n\n| metric | type | meaning |\n|---|---|---|\n")
	for _, f := range ownFamilies() {
		fmt.Fprintf(&page, "| %s | %s | %s |\n", f.Name, f.Type, f.Help)
	}
	page.WriteString(docsNomad)
	for _, n := range nomadTable(1) {
		fmt.Fprintf(&page, "| %s | %s | %s |\n", n.name, n.kind, n.help)
	}
	golden(t, "../../docs/metrics.md", page.String())
}

// TestDocsHaveEveryMetric holds that what a page has is documented.
func TestDocsHaveEveryMetric(t *testing.T) {
	f := newFake()
	f.telemetry.NomadNames, f.telemetry.PublishNodeMetrics = true, true
	documented := map[string]bool{}
	for _, c := range append(columns(), ownColumns()...) {
		documented[c.name] = true
	}
	for _, own := range ownFamilies() {
		documented[own.Name] = true
	}
	for _, n := range nomadTable(1) {
		documented[n.name] = true
	}
	for _, family := range newTestCollector(f).Gather(t.Context()) {
		if !documented[family.Name] && !strings.HasPrefix(family.Name, "nomad_client_host_") && family.Name != "nomad_client_uptime" {
			t.Errorf("%s is not documented", family.Name)
		}
	}
	for _, m := range procstats.Table() {
		if name, ok := exposition.Name(m); ok && !documented[name] {
			t.Errorf("%s is not documented", name)
		}
	}
}
