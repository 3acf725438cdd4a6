// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package doctor has the doctor command: it checks what can be measured on this machine, what cannot and why, and how
// to enable it.
package doctor

import (
	_ "embed" // of the help
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

//go:embed help.txt
var help string

// Command returns tacho doctor.
func Command() *cobra.Command {
	cmd := cli.Described(help, "doctor")
	cmd.GroupID = cli.GroupHost
	format := cli.AddFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := Examine(Host{FS: kernel.HostFS(), Root: "/"})
		if err != nil {
			return err
		}
		err = cli.Print(cmd, format, r, func(p cli.Palette) string { return doctorText(p, r) })
		if err == nil && !r.Usable() {
			return errors.New("nothing can be measured on this machine")
		}
		return err
	}
	return cmd
}

func doctorText(p cli.Palette, r *Report) string {
	text := cli.Sheet{Palette: p}
	for _, c := range r.Checks {
		for _, line := range [][3]string{
			{fmt.Sprintf("%s %s: ", mark(p, c.State), p.Bold(c.Name)), "    ", c.Found},
			{"    without it: ", "      ", c.Costs},
			{"    to enable:  ", "      ", c.Enable},
		} {
			if line[2] != "" {
				text.Hang(line[0], line[1], cli.Printable(line[2]), nil)
			}
		}
	}
	text.Title("Sources")
	t := cli.Table{Indent: "  ", Right: []int{2}}
	for _, s := range r.Sources {
		t.Add(mark(p, s.State()), cli.Plain(strings.TrimSpace(s.Name+" "+s.Version)),
			cli.Plain(fmt.Sprintf("%d of %d", s.Readable, s.Measurements)), cli.Plain(cli.Printable(s.Reason)))
	}
	text.Table(&t)
	if absent := absentTable(p, r); !absent.Empty() {
		text.Title("Not available")
		text.Table(absent)
	}
	fmt.Fprintf(&text, "\n%s available; tacho explain NAME explains one.\n",
		procstats.Counted(len(r.Readable), "measurement is", "measurements are"))
	return text.String()
}

// absentTable lists the absent measurements with the reasons, except those of a source that does not work at all: its
// reason is in the list of sources.
func absentTable(p cli.Palette, r *Report) *cli.Table {
	t := &cli.Table{Indent: "  "}
	for _, name := range cli.TableOrder(r.Absent) {
		if m, _ := procstats.LookupName(name); !hasReason(r.Sources, m.Source) {
			t.Add(cli.Plain(name), cli.Painted(cli.Printable(r.Absent[name]), p.Faint))
		}
	}
	return t
}

// hasReason reports whether a source does not work at all and has a reason of its own.
func hasReason(sources []Source, id procstats.SourceID) bool {
	return slices.ContainsFunc(sources, func(s Source) bool {
		return s.Name == id.String() && s.State() == Missing && s.Reason != ""
	})
}

// mark returns the sign of a state and its colour.
func mark(p cli.Palette, state State) cli.Cell {
	switch state {
	case Works:
		return cli.Painted("ok", p.Green)
	case Partly:
		return cli.Painted("--", p.Yellow)
	case Missing:
	}
	return cli.Painted("no", p.Red)
}

// Host is the files of a machine.
type Host struct {
	FS kernel.FS
	// Root is the directory of /dev, /run and so on: "/", or a directory with captured files in tests.
	Root string
}

// State is how well something works.
type State string

const (
	// Works fully.
	Works State = "works"
	// Partly works; something optional is missing.
	Partly State = "partly"
	// Missing does not work at all.
	Missing State = "missing"
)

// Check is the result of one check.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Found is what the check found.
	Found string `json:"found"`
	// Costs is what is lost; empty if it works.
	Costs string `json:"costs,omitempty"`
	// Enable is how to make it work, a command or a boot parameter; empty if it works or cannot be enabled.
	Enable string `json:"enable,omitempty"`
}

// works returns a check of something that works.
func works(name, found string) Check { return Check{Name: name, State: Works, Found: found} }

// partly returns the check of something optional that is missing: what was found, what is lost, and how to enable it.
func (c Check) partly(found, costs, enable string) Check {
	return Check{Name: c.Name, State: Partly, Found: found, Costs: costs, Enable: enable}
}

// missing returns the check of something that does not work at all.
func (c Check) missing(found, costs, enable string) Check {
	return Check{Name: c.Name, State: Missing, Found: found, Costs: costs, Enable: enable}
}

// unless returns the check, or what is lost because of an error, which may have a remedy of its own.
func (c Check) unless(err error, costs, enable string) Check {
	if err == nil {
		return c
	}
	found := err.Error()
	if remedied := (interface {
		error
		Remedy() string
	})(nil); errors.As(err, &remedied) {
		enable = remedied.Remedy()
		found = strings.TrimSuffix(found, "; "+enable)
	}
	return c.partly(found, costs, enable)
}

// Source is a source and the number of its measurements that are available.
type Source struct {
	record.Source

	Readable     int `json:"readable"`
	Measurements int `json:"measurements"`
}

// State returns how well the source works.
func (s Source) State() State {
	switch {
	case s.Readable == 0:
		return Missing
	case s.Readable < s.Measurements:
		return Partly
	}
	return Works
}

// Report is the result of all checks.
type Report struct {
	Checks  []Check  `json:"checks"`
	Sources []Source `json:"sources"`
	// Readable has the names of the available measurements, Absent the reasons for the others, by name.
	Readable []string          `json:"readable"`
	Absent   map[string]string `json:"absent"`
	// Notes are about the cgroup that a task would get.
	Notes []string `json:"notes,omitempty"`
}

// nameOfRun is the name of the check that starts a task.
const nameOfRun = "run"

// Usable reports whether tasks can be started, and anything of them measured.
func (r *Report) Usable() bool {
	return len(r.Readable) > 0 && !slices.ContainsFunc(r.Checks, func(c Check) bool {
		return c.Name == nameOfRun && c.State == Missing
	})
}

// measure adds the measurements that a collector can read.
func (r *Report) measure(c *source.Collector) {
	r.Absent = map[string]string{}
	for _, reading := range c.Unavailable(c.Selection()) {
		r.Absent[reading.ID().String()] = reading.Reason()
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

// selection returns all measurements of a task, except the cost of measuring, which only an executor can read.
func selection() procstats.Selection {
	return procstats.AllSelection().Minus(procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == procstats.SourceExecutor
	}))
}
