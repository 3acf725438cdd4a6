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
	"sync"
	"time"

	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/chart"
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

// machineTrack remembers what the machine used while pages were open. Nothing reads the machine otherwise.
type machineTrack struct {
	mu     sync.Mutex // guards points
	points []machinePoint
}

// machinePoint is one reading; a number is NaN if it was not read.
type machinePoint struct {
	at                         time.Time
	busy, cores, memory, whole float64
}

const (
	machineStep  = 5 * time.Second
	machineSpan  = time.Hour
	machineApart = 3 * machineStep
)

// add takes a reading into account.
func (t *machineTrack) add(at time.Time, stats *node.Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.points); n > 0 && at.Sub(t.points[n-1].at).Abs() < machineStep {
		return
	}
	x := machinePoint{at: at, busy: math.NaN(), memory: math.NaN()}
	if len(stats.CPU) > 0 && stats.Reasons["cpu"] == "" {
		x.busy, x.cores = stats.Busy(), float64(len(stats.CPU))
	}
	if stats.Reasons["memory"] == "" {
		x.whole = float64(stats.Memory.Total)
		x.memory = x.whole - float64(stats.Memory.Available)
	}
	t.points = append(t.points, x)
	for len(t.points) > 0 && at.Sub(t.points[0].at) > machineSpan {
		t.points = t.points[1:]
	}
}

// charts draws what is remembered.
func (t *machineTrack) charts(now time.Time) []drawnChart {
	t.mu.Lock()
	points := t.points
	t.mu.Unlock()
	since := now.Add(-customary)
	if len(points) > 0 && points[0].at.Before(since) {
		since = points[0].at
	}
	const mostTicks = 6
	f := &frame{axis: chart.Axis{Since: since, Until: now, Ticks: chart.ClockTicks(since.Local(), now, mostTicks)}}
	cpu := chart.Chart{Title: "CPU of the machine, in cores", Unit: procstats.Cores}
	memory := chart.Chart{Title: "Memory of the machine, without what is available", Unit: procstats.Bytes}
	var busy, used []float64
	for i, x := range points {
		apart := i > 0 && x.at.Sub(points[i-1].at) > machineApart
		f.axis.Moments = append(f.axis.Moments, chart.Moment{At: x.at, Break: apart})
		busy, used = append(busy, x.busy), append(used, x.memory)
		cpu.Limits = []chart.Limit{{Label: "cores", Value: x.cores}}
		memory.Limits = []chart.Limit{{Label: "total", Value: x.whole}}
	}
	cpu.Series = []chart.Series{{Label: "used", Class: "cpu", Area: true, Values: busy}}
	memory.Series = []chart.Series{{Label: "used", Class: "memory", Area: true, Values: used}}
	return []drawnChart{f.draw("machine-cpu", "cpu_cores", cpu), f.draw("machine-memory", "memory_bytes", memory)}
}

// machinePage fills the page of the machine.
func (p *Page) machinePage(v *view) error {
	p.machine(v.request.Context(), v.now, v.Trusted) // so that there is a reading
	v.Title, v.Template, v.Body, v.Live = "Machine", "machine-page", p.track.charts(v.Now), "/page/stream/machine"
	return nil
}

// machineSource says what the page of the machine shows.
func (p *Page) machineSource(*view) (source, cells, error) {
	return p.filledBy(p.machinePage), nil, nil
}
