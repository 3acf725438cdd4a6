// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// LimitTable lists the limits of a run: requested, effective, and the cgroup that has the effective one.
func LimitTable(r *record.Record) *cli.Table {
	t := &cli.Table{Indent: "  ", Header: []string{"", "REQUESTED", "EFFECTIVE", "CGROUP"}, Right: []int{1, 2}}
	for _, limit := range r.Limits {
		where := limit.Where
		if where == "" && limit.Effective != nil && limit.Name != "cpuset.cpus" {
			where = "an ancestor outside the cgroup namespace"
		}
		t.AddTexts(cli.Printable(limit.Name), limitText(limit.Name, limit.Requested, limit.RequestedText),
			limitText(limit.Name, limit.Effective, limit.EffectiveText), cli.Printable(where))
	}
	return t
}

// limitText returns the text of a limit, such as the list of a cpuset, or its number in its unit. Limits that are not
// in the table have the names of the kernel.
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

// limitsSummary lists the requested limits, with the effective one if an ancestor has a lower one.
func limitsSummary(r *record.Record) string {
	var words []string
	for _, limit := range r.Limits {
		if limit.Requested == nil {
			continue
		}
		word := limitWord(limit.Name) + " " + limitText(limit.Name, limit.Requested, limit.RequestedText)
		if limit.Effective != nil && *limit.Effective < *limit.Requested && limit.EffectiveText == "" &&
			!isOwn(r.Cgroup, limit.Where) {
			word += fmt.Sprintf(" (%s by %s)", limitText(limit.Name, limit.Effective, ""),
				cmp.Or(cli.Printable(limit.Where), "an ancestor"))
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// isOwn reports whether dir is a cgroup of the task.
func isOwn(c *record.Cgroup, dir string) bool {
	return c != nil && (c.V2 == dir || slices.Contains(slices.Collect(maps.Values(c.V1)), dir)) && dir != ""
}

// EffectiveLimit returns the effective limit, which includes the cgroups above; of records without limits it returns
// the limit of the task's own cgroup.
func EffectiveLimit(r *record.Record, id procstats.ID) (limit float64, ok bool) {
	for _, l := range r.Limits {
		if l.Name == id.String() && l.Effective != nil {
			return *l.Effective, true
		}
	}
	return numberOf(r.Measurements, id)
}

// limitWord returns the name of a limit's flag, or the name of the limit if it has no flag.
func limitWord(name string) string {
	word := map[string]string{
		procstats.CgroupMemoryMax.String(): "memory", procstats.CgroupMemoryHigh.String(): "memory-high",
		procstats.CgroupMemorySwapMax.String(): "swap", "memory.memsw.limit_in_bytes": "memory and swap",
		"memory.oom.group": "oom-group", "cpuset.cpus": "cpuset", procstats.CgroupPidsMax.String(): "pids",
		procstats.CgroupCPUQuota.String(): "cpu", procstats.CgroupCPUWeight.String(): "cpu-weight",
		procstats.CgroupCPUShares.String(): "cpu-shares",
	}[name]
	return cmp.Or(word, cli.Printable(name))
}
