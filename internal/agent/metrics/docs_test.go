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
	"github.com/tachograph/tacho/procstats"
)

const docsHead = `# Metrics

<!-- Generated from the tables in procstats and agent/metrics by "go test ./agent/metrics -update". Edit those. -->

The agent serves metrics at ` + "`/metrics`" + ` and ` + "`/v1/metrics?format=prometheus`" + ` (Prometheus text format, or OpenMetrics if
the client accepts it) while ` + "`telemetry { prometheus_metrics = true }`" + `, as JSON at ` + "`/v1/metrics`" + `, and sends them to
` + "`statsd_address`" + `.

**What was not measured has no series.** Readings that are too old are left out as well; ` + "`tacho_task_sample_age_seconds`" + `
says how old the last one is. When a task has ended, its gauges are removed at once and its counters after five minutes, except its
exits, restarts and OOM kills, which stay as long as its allocation is kept.

**Names.** The metric of a measurement is ` + "`tacho_task_`" + ` followed by its name in [the table](measurements.md). Only for pressure
the kernel's words are replaced by those of node_exporter and the kubelet: ` + "`some` is `waiting`, `full` is `stalled`" + `. Values are in base
units: seconds, bytes, cores, ratios from 0 to 1.

**Counters** of a task count over all its starts in the allocation, from 0 at the first one. They go on after restarts of the task, the agent
and a plugin: what an ended start used is persisted with its end. It is taken from the final record; if the executor
was killed, from the task's cgroup, just before what is left of the task is killed; if the driver has neither, the last reading counts,
and after a kill of the agent the last one in the history. Between a start and its first reading there is no series.

**Labels.** ` + "`alloc_id`, `job`, `namespace`, `task`, `task_group`" + `, and ` + "`host`" + ` unless ` + "`disable_hostname`" + `.
` + "`tacho_task_info`" + ` has ` + "`driver`, `state`, `type`" + ` and, once the task has ended, ` + "`outcome`" + ` (` + "`oom-killed`" + `, otherwise the verdict of
[docs/diagnosis.md](diagnosis.md)). ` + "`tacho_task_absent_info`" + ` has ` + "`measurement`" + ` and ` + "`reason`" + `: disk usage, proportional memory
and other measurements that a task [selects](configuration.md#a-task) have series as soon as they are read, and until then it says why not;
both only with ` + "`allocation_detail = \"alloc\"`" + `.
With ` + "`include_alloc_metadata_in_metrics = true`" + ` a task's series also have its ` + "`meta`" + ` as labels, limited to
` + "`allowed_metadata_keys_in_metrics`" + ` if that is set, and only with ` + "`allocation_detail = \"alloc\"`" + `. Characters that are not allowed
in label names become underscores. The labels above are never replaced; if two keys become the same name, the alphabetically first is used.

**Fewer series.** ` + "`allocation_detail`" + ` sets the granularity of series:

| allocation_detail | series |
|---|---|
| alloc | one for each task of each allocation |
| task | one for each task of a job; without ` + "`alloc_id`" + ` |
| job | one for each job; without ` + "`alloc_id`, `task`, `task_group`" + ` |
| none | no series of tasks, only the agent's own |

By job and by task, gauges are combined as the table below says. Counters add up what all tasks have used since the agent's start,
including those that have ended: they do not go down when a task ends. After a restart of the agent they begin again at 0.

**Filters.** ` + "`prefix_filter = [\"-tacho_task_rusage\", \"+tacho_task_rusage_cpu\"]`" + `: the longest matching prefix decides, and
` + "`filter_default`" + ` applies if none matches.

**statsd.** The values of the labels follow the name: ` + "`tacho.task.memory_bytes.HOST.ALLOC.JOB.NAMESPACE.TASK.GROUP:1024|g`" + `.
Counters are sent as their increase.

## Tasks

| metric | type | of several tasks | meaning |
|---|---|---|---|
`

const docsNomad = `
## Nomad's names

With ` + "`nomad_names = true`" + ` and ` + "`allocation_detail = \"alloc\"`" + ` the metrics that Nomad dashboards and autoscalers read are served
too, with Nomad's units and types. Unlike in Nomad, what was not measured has no series, ` + "`cpu_total_ticks_count`" + ` is correct at
any interval, and ` + "`running`, `complete` and `failed`" + ` are the current status of an allocation. With ` + "`publish_node_metrics`" + `
` + "`nomad_client_uptime` and `nomad_client_host_*`" + ` are served for memory, cores and file systems. Whatever the detail is, there are
` + "`nomad_client_allocated_*`, `nomad_client_unallocated_*`, `nomad_client_allocations_*` and `nomad_client_tasks_*`" + ` for the node, with the
labels by which dashboards filter (` + "`node_id`, `node_class`, `node_pool`, `node_status`, `node_scheduling_eligibility`, `datacenter`" + `),
` + "`nomad_nomad_job_status_*` and `nomad_nomad_job_summary_*`" + ` for jobs, and ` + "`nomad_runtime_*`" + ` for the agent's process.

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
	page.WriteString("\n## The agent and its machine\n\nThose of the machine require `publish_node_metrics = true`.\n\n| metric | type | meaning |\n|---|---|---|\n")
	for _, f := range ownFamilies(t) {
		fmt.Fprintf(&page, "| %s | %s | %s |\n", f.Name, f.Type, f.Help)
	}
	page.WriteString(docsNomad)
	for _, n := range nomadTable(1) {
		fmt.Fprintf(&page, "| %s | %s | %s |\n", n.name, n.kind, n.help)
	}
	one := &snapshot.Agent{Node: node.Node{Resources: node.Resources{Cores: []int{0}, CoreMHz: 1, MemoryBytes: 1 << 30, DiskBytes: 1 << 30}}, Jobs: []*snapshot.Job{{Job: &job.Job{Groups: []*job.Group{{}}}}}}
	for _, f := range nomadAgent(one, exposition.NewLabels()) {
		fmt.Fprintf(&page, "| %s | gauge | %s |\n", f.Name, f.Help)
	}
	golden(t, "../../../docs/metrics.md", page.String())
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

// TestDocsHaveEveryMetric holds that what a page has is documented.
func TestDocsHaveEveryMetric(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string) {
		t.Helper()
		if !strings.Contains(string(docs), "| "+name+" |") {
			t.Errorf("%s is not documented", name)
		}
	}
	f := newFake()
	f.telemetry.NomadNames, f.telemetry.PublishNodeMetrics = true, true
	for _, family := range newTestCollector(f).Gather(t.Context()) {
		if !strings.HasPrefix(family.Name, "nomad_client_host_") && family.Name != "nomad_client_uptime" {
			check(family.Name)
		}
	}
	for _, m := range procstats.Table() {
		if name, ok := exposition.Name(m); ok {
			check(name)
		}
	}
}
