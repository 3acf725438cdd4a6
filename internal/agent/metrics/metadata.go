// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"maps"
	"slices"
	"strings"

	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/exposition"
)

// ownLabels are the names that labels of ours have; meta data cannot take them.
func ownLabels() []string {
	return []string{"alloc_id", "driver", "host", "job", "measurement", "namespace", "outcome", "reason", "state", "task", "task_group", "type"}
}

// metadata is what telemetry { include_alloc_metadata_in_metrics } lets through of tasks' meta data.
type metadata struct {
	wanted bool
	// allowed are keys; empty for all.
	allowed []string
}

func newMetadata(t config.Telemetry) metadata {
	return metadata{wanted: t.IncludeAllocMetadata && t.AllocationDetail == DetailAlloc, allowed: t.AllowedMetadataKeysInMetrics}
}

// labels are a task's meta data by name. Of two keys that become one name the first in order has it.
func (m metadata) labels(meta map[string]string) []exposition.Label {
	if !m.wanted {
		return nil
	}
	var labels []exposition.Label
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if len(m.allowed) > 0 && !slices.Contains(m.allowed, key) {
			continue
		}
		name := labelName(key)
		taken := func(l exposition.Label) bool { return l.Name == name }
		if slices.Contains(ownLabels(), name) || slices.ContainsFunc(labels, taken) {
			continue
		}
		labels = append(labels, exposition.Label{Name: name, Value: meta[key]})
	}
	return labels
}

// labelName has an underscore for what the name of a label cannot hold. Names that begin with two are Prometheus's own.
func labelName(key string) string {
	name := strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, key)
	if rest := strings.TrimLeft(name, "_"); rest == "" || len(rest) < len(name) || rest[0] <= '9' {
		return "_" + rest
	}
	return name
}
