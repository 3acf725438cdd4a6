// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/procstats"
)

// step is the time between the readings that tell how long a task has run: Prometheus finds one that is 5 minutes old.
const step = 5 * time.Minute

// queries are for what a Prometheus server knows of tasks in so many days, by the measurement that each gives; that
// without one is for the number of steps in which there were readings.
func queries(days int) map[string]string {
	all := map[string]string{
		"": fmt.Sprintf("count_over_time(tacho_task_cgroup_memory_peak_bytes[%dd:%ds])", days, int(step.Seconds())),
	}
	for id, function := range map[procstats.ID]string{
		procstats.CgroupMemoryPeak: "max_over_time", procstats.CgroupMemorySwapPeak: "max_over_time",
		procstats.HeadlineCoresAverage: "last_over_time", procstats.CgroupMemoryEventsOOMKill: "max_over_time",
		procstats.CgroupCPUThrottled: "increase",
	} {
		all[id.String()] = fmt.Sprintf("%s(tacho_task_%s[%dd])", function, id, days)
	}
	return all
}

// vector is the answer to a query.
type vector struct {
	Data struct {
		Result []struct {
			Metric map[string]string
			Value  []any // a time, and the number as text
		}
	}
}

// AddHistory adds to tasks what a Prometheus server knows of allocations that have used more than Nomad says, or that
// it no longer knows.
func AddHistory(ctx context.Context, address string, days int, tasks []*Task) (err error) {
	c, err := client.New(client.Options{Address: address})
	if err != nil {
		return fmt.Errorf("prometheus at %s: %w", address, err)
	}
	defer c.Close()
	base, _ := url.Parse(address) // which New has accepted
	values := map[[5]string]map[string]float64{}
	for name, query := range queries(days) {
		answer, err := client.Get[vector](ctx, c, strings.TrimSuffix(base.EscapedPath(), "/")+"/api/v1/query", "query", query)
		if err != nil {
			return fmt.Errorf("prometheus at %s: %w; --prometheus names the address of a Prometheus server", address, err)
		}
		for _, r := range answer.Value.Data.Result {
			m := r.Metric
			of := [...]string{m["namespace"], parentOf(m["job"]), m["task_group"], m["task"], m["alloc_id"]}
			if values[of] == nil {
				values[of] = map[string]float64{}
			}
			text, _ := r.Value[len(r.Value)-1].(string)
			if value, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(value) {
				values[of][name] = value
			}
		}
	}
	found := false
	for _, t := range tasks {
		for of, v := range values {
			peak, measured := v[procstats.CgroupMemoryPeak.String()]
			if !measured || of != [...]string{t.Namespace, t.jobName, t.Group, t.Name, of[4]} {
				continue
			}
			found = true
			t.add(seen{
				alloc: of[4], span: step * time.Duration(v[""]), peak: peak,
				swap: v[procstats.CgroupMemorySwapPeak.String()], cores: v[procstats.HeadlineCoresAverage.String()],
				throttled: v[procstats.CgroupCPUThrottled.String()], kills: int64(v[procstats.CgroupMemoryEventsOOMKill.String()]),
			})
		}
	}
	if !found {
		return fmt.Errorf("prometheus at %s: no series tacho_task_cgroup_memory_peak_bytes of these tasks in %d days; it "+
			"must scrape the driver's endpoint with honor_labels: docs/howto.md", address, days)
	}
	return nil
}
