// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package chart draws what a run used over time: as an image, or with characters on a terminal.
package chart

import (
	"math"
	"slices"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// Unit is what the height of a panel counts.
type Unit uint8

const (
	// Cores are CPUs kept busy.
	Cores Unit = iota + 1
	// Bytes are octets.
	Bytes
	// BytesPerSecond are octets in a second.
	BytesPerSecond
	// Share is a part of the time, from 0 to 1.
	Share
)

// Panel is one of several charts over the same time.
type Panel struct {
	Title string
	Unit  Unit
	Lines []Line
	// Missing says why there is nothing to draw; empty where there is.
	Missing string
}

// Line is one measurement over time. It is drawn in steps: a value holds for the whole report it is of.
type Line struct {
	Name string
	// Main lines are drawn where there is room for few.
	Main bool
	// Limit lines are dashed: what the task may use and not what it used.
	Limit bool
	// Steps are ordered by time. Where one does not start when the one before ended, nothing was measured.
	Steps []Step
}

// Step is one value from a moment to another, in seconds since the start of the run.
type Step struct {
	From, To float64
	Value    float64
}

// Stretches parts the steps where nothing was measured between them.
func (l Line) Stretches() [][]Step {
	var stretches [][]Step
	first := 0
	for i := 1; i < len(l.Steps); i++ {
		if gap(l.Steps[i-1], l.Steps[i]) {
			stretches = append(stretches, l.Steps[first:i])
			first = i
		}
	}
	if first < len(l.Steps) {
		stretches = append(stretches, l.Steps[first:])
	}
	return stretches
}

// gap reports whether nothing was measured between two steps. Two sources of the same report are not read at the
// same instant: what is shorter than a hundredth of the step before is no gap.
func gap(before, after Step) bool {
	return after.From-before.To > 1e-3+(before.To-before.From)/100
}

// End is the last moment of all panels, in seconds since the start of the run; 0 where nothing was measured.
func End(panels []Panel) float64 {
	end := 0.0
	for _, panel := range panels {
		for _, line := range panel.Lines {
			if n := len(line.Steps); n > 0 {
				end = max(end, line.Steps[n-1].To)
			}
		}
	}
	return end
}

// highest is the largest value of a panel; limits far above everything else are left out of it.
func (p Panel) highest() float64 {
	used, limit := 0.0, 0.0
	for _, line := range p.Lines {
		for _, step := range line.Steps {
			if line.Limit {
				limit = max(limit, step.Value)
			} else {
				used = max(used, step.Value)
			}
		}
	}
	if limit <= 4*used {
		return max(used, limit)
	}
	return used
}

// drawable are the lines that fit below the top of the panel.
func (p Panel) drawable(top float64) []Line {
	return slices.DeleteFunc(slices.Clone(p.Lines), func(line Line) bool {
		return line.Limit && slices.ContainsFunc(line.Steps, func(s Step) bool { return s.Value > top })
	})
}

// Panels arranges the reports of a run into charts of CPU, memory, I/O and pressure.
func Panels(r *record.Record, reports []*record.Usage) []Panel {
	s := series{record: r, reports: reports}
	return []Panel{s.cpu(), s.memory(), s.io(), s.pressure()}
}

// series makes lines of reports.
type series struct {
	record  *record.Record
	reports []*record.Usage
}

// line takes one value of each report; reports without it leave a gap.
func (s *series) line(name string, take func(*record.Usage) (float64, bool)) Line {
	line := Line{Name: name}
	for _, u := range s.reports {
		value, ok := take(u)
		if !ok || math.IsNaN(value) || math.IsInf(value, 0) || u.ToMono <= u.FromMono {
			continue
		}
		start := s.reports[0].FromMono
		line.Steps = append(line.Steps, Step{From: u.FromMono - start, To: u.ToMono - start, Value: value})
	}
	return line
}

func (s *series) measured(name string, id procstats.ID, reduction procstats.Reduction) Line {
	m, _ := procstats.Lookup(id)
	return s.reduced(name, m.Name, reduction)
}

func (s *series) reduced(name, measurement string, reduction procstats.Reduction) Line {
	return s.line(name, func(u *record.Usage) (float64, bool) { return u.Measurements[measurement].Value(reduction) })
}

// source is the measurement that a headline was taken from: in the record, else in the last report that says so.
func (s *series) source(id procstats.ID) string {
	m, _ := procstats.Lookup(id)
	if from := s.record.Headline[m.Name].Source; from != "" {
		return from
	}
	for _, u := range slices.Backward(s.reports) {
		if from := u.Headline[m.Name].Source; from != "" {
			return from
		}
	}
	return ""
}

// rateOf is the rate of whatever a headline counter was taken from.
func (s *series) rateOf(name string, id procstats.ID) Line {
	line := s.reduced(name, s.source(id), procstats.Rate)
	line.Main = true
	return line
}

func (s *series) cpu() Panel {
	quota := s.measured("quota", procstats.CgroupCPUQuota, procstats.Last)
	quota.Limit, quota.Main = true, true
	return s.panel(Panel{Title: "CPU, in cores", Unit: Cores}, procstats.CgroupCPUUsage,
		s.rateOf("all", procstats.HeadlineCPU),
		s.measured("user", procstats.CgroupCPUUser, procstats.Rate),
		s.measured("system", procstats.CgroupCPUSystem, procstats.Rate),
		quota)
}

func (s *series) memory() Panel {
	needed := s.line("needed", func(u *record.Usage) (float64, bool) {
		m, _ := procstats.Lookup(procstats.HeadlineMemory)
		value := u.Headline[m.Name].Value
		if value == nil {
			return 0, false
		}
		return *value, true
	})
	needed.Main = true
	highest := s.measured("charged, highest", procstats.CgroupMemoryCurrent, procstats.Max)
	highest.Main = true
	limit := s.measured("limit", procstats.CgroupMemoryMax, procstats.Last)
	limit.Limit, limit.Main = true, true
	return s.panel(Panel{Title: "Memory", Unit: Bytes}, procstats.CgroupMemoryCurrent,
		needed, highest,
		s.measured("anonymous", procstats.CgroupMemoryAnon, procstats.Mean),
		s.measured("files", procstats.CgroupMemoryFile, procstats.Mean),
		s.measured("kernel", procstats.CgroupMemoryKernel, procstats.Mean),
		limit)
}

func (s *series) io() Panel {
	return s.panel(Panel{Title: "Storage, in bytes a second", Unit: BytesPerSecond}, procstats.CgroupIORead,
		s.rateOf("read", procstats.HeadlineIORead),
		s.rateOf("written", procstats.HeadlineIOWrite))
}

func (s *series) pressure() Panel {
	some := func(name string, id procstats.ID) Line {
		line := s.measured(name, id, procstats.Rate)
		line.Main = true
		return line
	}
	return s.panel(Panel{Title: "Share of the time in which the task waited", Unit: Share}, procstats.PSICPUSome,
		some("for a CPU", procstats.PSICPUSome),
		some("for memory", procstats.PSIMemorySome),
		some("for I/O", procstats.PSIIOSome),
		s.measured("all for memory", procstats.PSIMemoryFull, procstats.Rate),
		s.measured("all for I/O", procstats.PSIIOFull, procstats.Rate))
}

// panel adds the lines that have steps; where none of those that are no limit has any, the panel says why, by the
// reason of its most telling measurement.
func (s *series) panel(p Panel, telling procstats.ID, lines ...Line) Panel {
	for _, line := range lines {
		if len(line.Steps) > 0 {
			p.Lines = append(p.Lines, line)
		}
	}
	if slices.ContainsFunc(p.Lines, func(line Line) bool { return !line.Limit }) {
		return p
	}
	p.Lines = nil
	p.Missing = s.whyMissing(telling)
	return p
}

func (s *series) whyMissing(id procstats.ID) string {
	m, _ := procstats.Lookup(id)
	if reason := s.record.Absent[m.Name]; reason != "" {
		return reason
	}
	for _, u := range slices.Backward(s.reports) {
		if reason := u.Absent[m.Name]; reason != "" {
			return reason
		}
	}
	return "it was not recorded over time"
}
