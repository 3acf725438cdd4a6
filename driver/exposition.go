// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// metricPrefix comes before the names of the table.
const metricPrefix = "tacho_task_"

// taskSample is a task with one reading of it.
type taskSample struct {
	config    *TaskConfig
	sample    *procstats.Sample
	startedAt time.Time
}

// exposition is a page of metrics in the Prometheus text format: one family for each measurement that any task has,
// help and kind from the table. What is absent has no series.
func exposition(tasks []taskSample) []byte {
	slices.SortFunc(tasks, func(a, b taskSample) int { return cmp.Compare(a.config.ID, b.config.ID) })
	headlines := make([][]procstats.HeadlineValue, len(tasks))
	labels := make([]string, len(tasks))
	for i, t := range tasks {
		headlines[i] = procstats.Headlines(t.sample, procstats.History{Elapsed: t.sample.Wall.Sub(t.startedAt)})
		labels[i] = labelsOf(t.config)
	}
	var b []byte
	for _, m := range procstats.Table() {
		if m.Scope == procstats.ProcessScope || m.Kind == procstats.Label || m.Kind == procstats.Category {
			continue
		}
		first := true
		for i, t := range tasks {
			value, ok := valueOf(t.sample, headlines[i], m)
			if !ok {
				continue
			}
			if first {
				b = appendFamily(b, m)
				first = false
			}
			b = fmt.Appendf(b, "%s%s{%s} %s\n", metricPrefix, m.Name, labels[i], strconv.FormatFloat(value, 'g', -1, 64))
		}
	}
	return b
}

func appendFamily(b []byte, m procstats.Measurement) []byte {
	kind := "gauge"
	if m.Kind == procstats.Counter {
		kind = "counter"
	}
	help := strings.NewReplacer("\\", "\\\\", "\n", "\\n").Replace(m.Help)
	b = fmt.Appendf(b, "# HELP %s%s %s\n", metricPrefix, m.Name, help)
	return fmt.Appendf(b, "# TYPE %s%s %s\n", metricPrefix, m.Name, kind)
}

func valueOf(s *procstats.Sample, headlines []procstats.HeadlineValue, m procstats.Measurement) (float64, bool) {
	if m.Scope != procstats.HeadlineScope {
		return s.Task.Number(m.ID)
	}
	for _, h := range headlines {
		if h.ID == m.ID {
			return h.Reading.Number()
		}
	}
	return 0, false
}

func labelsOf(c *TaskConfig) string {
	var parts []string
	for _, label := range [][2]string{
		{"alloc_id", c.AllocID}, {"job", c.JobName}, {"namespace", c.Namespace}, {"task", c.Name}, {"task_group", c.TaskGroupName},
	} {
		parts = append(parts, label[0]+`="`+escapeLabel(label[1])+`"`)
	}
	return strings.Join(parts, ",")
}

func escapeLabel(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\uFFFD"))
}
