// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/procstats"
)

// machine is what a page says of the machine.
type machine struct {
	Name, System  string
	CPU, Memory   gauge
	Cores, Uptime string
	Drivers       []driverState
	// Cost is what the agent itself uses.
	Cost string
}

// gauge is a share of something that the machine has.
type gauge struct {
	Text, Hint, Bar string
	Absent          bool
}

// driverState is a driver in a word.
type driverState struct{ Name, Version, Class, Hint string }

// machine reads what the machine uses.
func (p *Page) machine(ctx context.Context, now *snapshot.Agent, trusted bool) machine {
	n := now.Node
	m := machine{Name: n.Name, Drivers: driversOf(n.Drivers, trusted)}
	if cores := len(n.Resources.Cores); cores > 0 {
		m.Cores = strconv.Itoa(cores)
	}
	m.System = strings.TrimSpace(strings.Join([]string{
		n.Attributes["kernel.name"], n.Attributes["kernel.version"], n.Attributes["cpu.arch"],
	}, " "))
	stats, err := p.agent.NodeStats(ctx)
	if err != nil {
		m.CPU, m.Memory = unread(err.Error()), unread(err.Error())
	} else {
		m.CPU, m.Memory = cpuGauge(stats), memoryGauge(stats)
		if stats.Uptime > 0 {
			m.Uptime = procstats.AgeText(stats.Uptime)
		}
	}
	cost := p.agent.Cost()
	if cost.Uptime > 0 {
		m.Cost = procstats.Share.Text(cost.CPUSeconds/cost.Uptime.Seconds()) + " of a core since it started"
		if cost.RSSBytes > 0 {
			m.Cost += ", " + procstats.Bytes.Text(float64(cost.RSSBytes)) + " resident"
		}
		if cost.Backlogged > 0 {
			m.Cost += ", " + procstats.None.Text(float64(cost.Backlogged)) + " late readings"
		}
		if cost.HistoryDropped > 0 {
			m.Cost += ", " + procstats.None.Text(float64(cost.HistoryDropped)) + " readings dropped from history"
		}
	}
	return m
}

// unread is a gauge without a value, and why it has none.
func unread(reason string) gauge {
	return gauge{Text: procstats.NoValue, Absent: true, Hint: cmp.Or(reason, "nothing was read")}
}

func cpuGauge(s *node.Stats) gauge {
	if reason := s.Reasons["cpu"]; reason != "" || len(s.CPU) == 0 {
		return unread(reason)
	}
	var busy float64
	for _, c := range s.CPU {
		busy += c.TotalPercent / 100
	}
	return gauge{
		Text: procstats.CoresText(busy) + " of " + strconv.Itoa(len(s.CPU)) + " cores",
		Bar:  percent(busy / float64(len(s.CPU))),
		Hint: "all processes of the machine, since the reading before",
	}
}

func memoryGauge(s *node.Stats) gauge {
	if reason := s.Reasons["memory"]; reason != "" || s.Memory.Total == 0 {
		return unread(reason)
	}
	used := float64(s.Memory.Total) - float64(s.Memory.Available)
	return gauge{
		Text: procstats.Bytes.Text(used) + " of " + procstats.Bytes.Text(float64(s.Memory.Total)),
		Bar:  percent(used / float64(s.Memory.Total)),
		Hint: "total − available, of the whole machine",
	}
}

// driversOf tells trusted readers why a driver is as it is: the driver's own words.
func driversOf(drivers map[string]node.Driver, trusted bool) []driverState {
	var list []driverState
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		d := drivers[name]
		if !trusted {
			d.Reason = ""
		}
		s := driverState{Name: name, Version: d.Version, Class: "good", Hint: cmp.Or(d.Reason, "healthy")}
		switch {
		case !d.Detected:
			s.Class = "quiet"
			s.Hint = cmp.Or(d.Reason, "not usable here")
		case !d.Healthy:
			s.Class = "bad"
			s.Hint = cmp.Or(d.Reason, "unhealthy")
		}
		list = append(list, s)
	}
	return list
}
