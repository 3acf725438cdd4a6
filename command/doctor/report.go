// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package doctor finds out what of a task can be measured on this machine, what cannot, why, and what would
// change that.
package doctor

import (
	"slices"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// Host is where a machine's files are.
type Host struct {
	FS kernel.FS
	// Root is the folder that /dev, /run and the like are in: "/", or a folder of captured files in tests.
	Root string
}

// State says how well something works.
type State string

const (
	// Works is as good as it gets.
	Works State = "works"
	// Partly has something missing that can be done without.
	Partly State = "partly"
	// Missing does not work.
	Missing State = "missing"
)

// Check is one thing about the machine that measuring depends on.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Found is what is there.
	Found string `json:"found"`
	// Costs is what cannot be had because of it; empty where it works.
	Costs string `json:"costs,omitempty"`
	// Enable is what would make it work, a command or a boot parameter; empty where it works or nothing would.
	Enable string `json:"enable,omitempty"`
}

// Source is one source and how many of its measurements can be read.
type Source struct {
	record.Source

	Readable     int `json:"readable"`
	Measurements int `json:"measurements"`
}

// State says how well the source works.
func (s Source) State() State {
	switch {
	case s.Readable == 0:
		return Missing
	case s.Readable < s.Measurements:
		return Partly
	}
	return Works
}

// Report is what was found out.
type Report struct {
	Checks  []Check  `json:"checks"`
	Sources []Source `json:"sources"`
	// Readable are the names of the measurements that can be read, Absent the reasons of the others, by name.
	Readable []string          `json:"readable"`
	Absent   map[string]string `json:"absent"`
	// Notes say what is lost in the cgroup that a task would get.
	Notes []string `json:"notes,omitempty"`
}

// Usable reports whether anything can be measured here.
func (r *Report) Usable() bool { return len(r.Readable) > 0 }

// measure adds what a collector can read, for the selection it was opened with.
func (r *Report) measure(c *source.Collector) {
	r.Absent = map[string]string{}
	for _, reading := range c.Unavailable(c.Selection()) {
		m, _ := procstats.Lookup(reading.ID())
		r.Absent[m.Name] = reading.Reason()
	}
	names := c.Selection().Names()
	r.Readable = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, absent := r.Absent[name]
		return absent
	})
	for _, d := range c.Describe() {
		s := Source{Source: record.Source{Name: d.ID.String(), Version: d.Version, Available: d.Available, Reason: d.Reason}}
		for _, name := range names {
			if m, _ := procstats.LookupName(name); m.Source == d.ID {
				s.Measurements++
				if slices.Contains(r.Readable, name) {
					s.Readable++
				}
			}
		}
		r.Sources = append(r.Sources, s)
	}
}

// selection is everything that a task could have here. What the measuring itself costs is left out: only an executor
// can say that, and it always can.
func selection() procstats.Selection {
	return procstats.AllSelection().Minus(procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == procstats.SourceExecutor
	}))
}
