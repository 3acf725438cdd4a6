// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exposition

import (
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// Prefix begins the names of all metrics of a task.
const Prefix = "tacho_task_"

// Name is the metric name of a measurement: tacho_task_ and its name in the table. The kernel's words for
// pressure are replaced by those that node_exporter and the kubelet have in metrics: some is waiting, full is
// stalled. ok is false for what is no metric: texts, and what exists once per process.
func Name(m procstats.Measurement) (name string, ok bool) {
	if m.Scope == procstats.ProcessScope || (m.Kind != procstats.Gauge && m.Kind != procstats.Counter) {
		return "", false
	}
	name = m.Name
	if m.Source == procstats.SourcePSI {
		name = strings.NewReplacer("_some_", "_waiting_", "_full_", "_stalled_").Replace(name)
	}
	return Prefix + name, true
}
