// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// limits is the section on what the task was allowed: what was asked for, what held, and whose limit that was.
func (p *Page) limits() {
	if len(p.record.Limits) == 0 {
		return
	}
	p.section("Limits")
	t := cli.Table{Indent: "  ", Header: []string{"", "ASKED FOR", "IN FORCE", "WHERE"}, Right: map[int]bool{1: true, 2: true}}
	for _, limit := range p.record.Limits {
		where := limit.Where
		if where == "" && limit.Effective != nil && limit.Name != "cpuset.cpus" {
			where = "an ancestor out of sight"
		}
		t.AddTexts(cli.Printable(limit.Name), limitText(limit.Name, limit.Requested, limit.RequestedText),
			limitText(limit.Name, limit.Effective, limit.EffectiveText), cli.Printable(where))
	}
	p.text.WriteString(t.Render(p.palette))
}

// limitText writes a limit: the text where it has one, such as the list of a cpuset, or the number in its unit. What is
// no row of the table is named as in the kernel.
func limitText(name string, value *float64, text string) string {
	if text != "" {
		return cli.Printable(text)
	}
	unit := procstats.UnitOf(name)
	isBytes := strings.HasPrefix(name, "memory.") && name != "memory.oom.group" || strings.Contains(name, "_bps_") ||
		strings.HasSuffix(name, " rbps") || strings.HasSuffix(name, " wbps")
	if unit == procstats.None && isBytes {
		unit = procstats.Bytes
	}
	return cli.Optional(unit, value)
}

// limitsSummary says in a few words which limits were asked for, and what held where an ancestor has less.
func limitsSummary(r *record.Record) string {
	var words []string
	for _, limit := range r.Limits {
		if limit.Requested == nil {
			continue
		}
		word := limitWord(limit.Name) + " " + limitText(limit.Name, limit.Requested, limit.RequestedText)
		if limit.Effective != nil && limit.EffectiveText == "" && !isOwn(r.Cgroup, limit.Where) {
			word += fmt.Sprintf(" (%s by %s)", limitText(limit.Name, limit.Effective, ""), cmp.Or(cli.Printable(limit.Where), "an ancestor"))
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// isOwn reports whether a folder is one of the task's own groups.
func isOwn(c *record.Cgroup, dir string) bool {
	return c != nil && (c.V2 == dir || slices.Contains(slices.Collect(maps.Values(c.V1)), dir)) && dir != ""
}

// effectiveLimit returns what held of a limit, whosever it was; of records without limits, the task's own.
func effectiveLimit(r *record.Record, id procstats.ID) (limit float64, ok bool) {
	for _, l := range r.Limits {
		if l.Name == id.String() && l.Effective != nil {
			return *l.Effective, true
		}
	}
	limit, ok = r.Measurements[id.String()].(float64)
	return limit, ok
}

// limitWord is what the flag of a limit is called, or the limit's own name.
func limitWord(name string) string {
	switch name {
	case procstats.CgroupMemoryMax.String():
		return "memory"
	case procstats.CgroupMemoryHigh.String():
		return "memory-high"
	case procstats.CgroupMemorySwapMax.String():
		return "swap"
	case "memory.memsw.limit_in_bytes":
		return "memory and swap"
	case "memory.oom.group":
		return "oom-group"
	case procstats.CgroupCPUQuota.String():
		return "cpu"
	case procstats.CgroupCPUWeight.String():
		return "cpu-weight"
	case procstats.CgroupCPUShares.String():
		return "cpu-shares"
	case "cpuset.cpus":
		return "cpuset"
	case procstats.CgroupPidsMax.String():
		return "pids"
	}
	return cli.Printable(name)
}
