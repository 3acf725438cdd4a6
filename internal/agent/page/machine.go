// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/procstats"
)

// machine is what a page says of the machine.
type machine struct {
	Name, System string
	CPU, Memory  gauge
	Drivers      []driverState
	// Cost is what the agent itself uses.
	Cost snapshot.Cost
}

// gauge is a share of something that the machine has. Bar is empty if it is not known, and Hint says why.
type gauge struct{ Label, Text, Hint, Bar string }

// driverState is a driver in a word.
type driverState struct{ Name, Class, Hint string }

// machine reads what the machine uses.
func (p *Page) machine(ctx context.Context, now *snapshot.Agent, trusted bool) machine {
	n := now.Node
	stats, err := p.agent.NodeStats(ctx)
	if err != nil {
		stats = &node.Stats{Reasons: map[string]string{"cpu": err.Error(), "memory": err.Error()}}
	}
	p.track.add(p.options.Now(), stats)
	busy, cores, whole := stats.Busy(), float64(len(stats.CPU)), float64(stats.Memory.Total)
	used := whole - float64(stats.Memory.Available)
	return machine{
		Name: n.Name, Drivers: driversOf(n.Drivers, trusted), Cost: p.agent.Cost(),
		System: strings.TrimSpace(strings.Join([]string{
			n.Attributes["kernel.name"], n.Attributes["kernel.version"], n.Attributes["cpu.arch"],
		}, " ")),
		CPU: gaugeOf(stats.Reasons["cpu"], busy/cores, gauge{
			Label: "CPU", Text: procstats.CoresText(busy) + " of " + procstats.Counted(len(stats.CPU), "core", "cores"),
			Hint: "all processes of the machine, since the reading before",
		}),
		Memory: gaugeOf(stats.Reasons["memory"], used/whole, gauge{
			Label: "Memory", Text: procstats.Bytes.Text(used) + " of " + procstats.Bytes.Text(whole),
			Hint: "total − available, of the whole machine",
		}),
	}
}

// gaugeOf completes a gauge with a share, which is NaN if nothing was read, or with why it has none.
func gaugeOf(reason string, share float64, g gauge) gauge {
	if reason != "" || math.IsNaN(share) {
		return gauge{Label: g.Label, Text: procstats.NoValue, Hint: cmp.Or(reason, "nothing was read")}
	}
	g.Bar = percent(share)
	return g
}

// driversOf tells trusted readers why a driver is as it is: the driver's own words.
func driversOf(drivers map[string]node.Driver, trusted bool) (list []driverState) {
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		d := drivers[name]
		s := driverState{Name: name, Class: "good", Hint: "healthy"}
		switch {
		case !d.Detected:
			s.Class, s.Hint = "quiet", "not usable here"
		case !d.Healthy:
			s.Class, s.Hint = "bad", "unhealthy"
		}
		if trusted {
			s.Hint = cmp.Or(d.Reason, s.Hint)
		}
		list = append(list, s)
	}
	return list
}
