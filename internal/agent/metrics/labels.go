// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/exposition"
)

// The granularity of series: the words of telemetry { allocation_detail }.
const (
	DetailNone  = "none"
	DetailJob   = "job"
	DetailTask  = "task"
	DetailAlloc = "alloc"
)

// labelling makes the labels of tasks: what the configuration says of them.
type labelling struct {
	// common is the host's name, unless it is not wanted.
	common *exposition.Labels
	detail string
	// metadata adds the meta data of tasks, limited to keys unless they are empty.
	metadata bool
	keys     []string
}

func newLabelling(now *snapshot.Agent) labelling {
	t := now.Config.Telemetry
	l := labelling{
		common: exposition.NewLabels(), detail: t.AllocationDetail, keys: t.AllowedMetadataKeysInMetrics,
		metadata: t.IncludeAllocMetadata && t.AllocationDetail == DetailAlloc,
	}
	if !t.DisableHostname {
		name := now.Node.Attributes["unique.hostname"]
		if t.UseNodeName || name == "" {
			name = now.Node.Name
		}
		l.common = exposition.NewLabels("host", name)
	}
	return l
}

// key is the same for labellings that make the same labels.
func (l labelling) key() string {
	return strings.Join(append([]string{l.common.Text(), l.detail, strconv.FormatBool(l.metadata)}, l.keys...), "\x00")
}

// of returns the five labels of Nomad's metrics, as far as the detail has them, the meta data, and the labels of
// tacho_task_info.
func (l labelling) of(a *allocation.Allocation, t *allocation.Task) taskLabels {
	id, task, group := a.ID, t.Name, a.Group
	switch l.detail {
	case DetailJob:
		id, group, task = "", "", ""
	case DetailTask:
		id = ""
	}
	pairs := []string{"alloc_id", id, "job", a.JobID, "namespace", a.Namespace, "task", task, "task_group", group}
	if a.JobType == allocation.Watch && l.detail == DetailAlloc {
		l.metadata, l.keys = true, nil // it says what the cgroup is of
	}
	made := taskLabels{labels: l.common.With(append(pairs, l.meta(t.Meta)...)...)}
	if l.detail == DetailAlloc {
		outcome := t.Outcome
		if t.State.Phase == hook.PhaseRunning {
			outcome = ""
		}
		made.info = made.labels.With("driver", t.Driver, "state", string(t.State.Phase), "outcome", string(outcome),
			"type", a.JobType)
	}
	return made
}

// ownLabels are the names of our labels, which meta data cannot take.
func ownLabels() []string {
	return []string{
		"alloc_id", "driver", "host", "job", "measurement", "namespace", "outcome", "reason", "state", "task", "task_group",
		"type",
	}
}

// meta returns a task's meta data as labels. If two keys become one name, the first in order has it.
func (l labelling) meta(meta map[string]string) (pairs []string) {
	if !l.metadata {
		return nil
	}
	taken := ownLabels()
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		name := labelName(key)
		if len(l.keys) > 0 && !slices.Contains(l.keys, key) || slices.Contains(taken, name) {
			continue
		}
		taken = append(taken, name)
		pairs = append(pairs, name, meta[key])
	}
	return pairs
}

// labelName replaces characters that are invalid in label names by underscores. Names that begin with two are reserved.
func labelName(key string) string {
	name := job.Identifier(key)
	if rest := strings.TrimLeft(name, "_"); rest == "" || len(rest) < len(name) || rest[0] <= '9' {
		return "_" + rest
	}
	return name
}

// filter removes the families that telemetry { prefix_filter filter_default } blocks: the longest prefix of a name
// decides, and of two equal ones the one that blocks. Dots stand for underscores, so that filters for Nomad's dotted
// names work.
func filter(t config.Telemetry, families []exposition.Family) []exposition.Family {
	return slices.DeleteFunc(families, func(family exposition.Family) bool {
		allowed, longest := t.FilterDefault, -1
		for _, rule := range t.PrefixFilter {
			prefix, allows := strings.ReplaceAll(rule[1:], ".", "_"), rule[0] == '+'
			switch {
			case len(prefix) < longest || !strings.HasPrefix(family.Name, prefix):
			case len(prefix) == longest:
				allowed = allowed && allows
			default:
				allowed, longest = allows, len(prefix)
			}
		}
		return !allowed
	})
}
