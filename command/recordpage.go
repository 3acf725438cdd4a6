// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// recordPage is a record as text for people, in sections.
type recordPage struct {
	palette palette
	name    string
	record  *record.Record
	text    strings.Builder
}

func newRecordPage(p palette, name string, r *record.Record) *recordPage {
	return &recordPage{palette: p, name: name, record: r}
}

// render returns the page; with all every measurement and every reason for absence is on it.
func (p *recordPage) render(all bool) string {
	p.head()
	p.used()
	p.waited()
	p.ended()
	p.peak()
	p.processes()
	p.limits()
	p.host()
	p.notes()
	if all {
		p.measurements()
		p.absent()
	} else if n := len(p.record.Absent); n > 0 {
		fmt.Fprintf(&p.text, "\n%d measurements, %d absent: --all lists them with the reasons.\n", len(p.record.Measurements), n)
	}
	return p.text.String()
}

func (p *recordPage) section(title string) {
	fmt.Fprintf(&p.text, "\n%s\n", p.palette.bold(title))
}

// facts writes pairs of a word and a text; those with an empty text are left out.
func (p *recordPage) facts(pairs ...[2]string) {
	t := table{indent: "  "}
	for _, pair := range pairs {
		if pair[1] != "" {
			t.add(plain(pair[0], pair[1])...)
		}
	}
	p.text.WriteString(t.render(p.palette))
}

func (p *recordPage) head() {
	r := p.record
	state := cell{text: string(r.State), paint: p.palette.ofState(r.State)}
	fmt.Fprintf(&p.text, "%s  %s\n", p.palette.bold(printable(p.name)), paint(state, state.text))
	exit := ""
	if r.ExitCode != nil || r.Signal != nil {
		exit = exitText(r.ExitCode, r.Signal)
	}
	p.facts(
		[2]string{"command", commandLine(r.Command)},
		[2]string{"in", printable(r.Dir)},
		[2]string{"user", printable(r.User)},
		[2]string{"message", printable(r.Message)},
		[2]string{"labels", labelsText(r.Labels)},
		[2]string{"started", timeText(r.StartedAt)},
		[2]string{"ended", timeText(r.EndedAt)},
		[2]string{"wall time", optional(procstats.Seconds, r.WallSeconds)},
		[2]string{"exit code", exit},
		[2]string{"samples", samplesText(r)},
		[2]string{"numbers of", timeText(r.AsOf)},
	)
}

func labelsText(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, printable(key+"="+labels[key]))
	}
	return strings.Join(pairs, " ")
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05.000 -0700")
}

func samplesText(r *record.Record) string {
	count := fmt.Sprint(r.Samples)
	switch {
	case r.Samples == 0:
		count = "not known"
	case !r.AsOf.IsZero():
		count += " reported"
	}
	if r.Interval <= 0 {
		return count
	}
	return fmt.Sprintf("%s, every %s", count, procstats.Seconds.Text(r.Interval))
}

func (p *recordPage) used() {
	p.section("What it used")
	t := headlineTable(p.record.Headline, p.palette)
	if len(t.rows) == 0 {
		fmt.Fprintf(&p.text, "  not known: %s\n", whyUnknown(p.record.State))
	}
	p.text.WriteString(t.render(p.palette))
}

// whyUnknown says why a record has no numbers.
func whyUnknown(state record.State) string {
	switch state {
	case record.Running:
		return "there is no report yet, and the record is written at the end"
	case record.Lost:
		return "the record was not written to its end, and there is no report"
	case record.Exited:
	}
	return "nothing is recorded"
}

// headlineTable shows each headline with its guarantee and its source, or why there is none.
func headlineTable(values map[string]record.HeadlineValue, palette palette) *table {
	t := &table{indent: "  ", right: map[int]bool{1: true}}
	for _, name := range headlineNames(values) {
		value, given := values[name]
		switch {
		case !given:
			continue
		case value.Value == nil:
			t.add(plain(name, procstats.NoValue, "", printable(value.Reason))...)
		default:
			t.add(cell{text: name}, cell{text: procstats.UnitOf(name).Text(*value.Value), paint: palette.bold},
				cell{text: guaranteeText(value.Guarantee), paint: palette.ofGuarantee(value.Guarantee)},
				cell{text: value.Source, paint: palette.faint})
		}
	}
	return t
}

// headlineNames lists the headlines in the order of the table, and after them those a later version added.
func headlineNames(given map[string]record.HeadlineValue) []string {
	var names []string
	for _, m := range procstats.Table() {
		if m.Scope == procstats.HeadlineScope {
			names = append(names, m.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// guaranteeText is a guarantee in people's words.
func guaranteeText(g procstats.Guarantee) string {
	switch g {
	case procstats.LowerBound:
		return "at least"
	case procstats.UpperBound:
		return "at most"
	case procstats.Exact, procstats.Sampled:
	}
	return string(g)
}

func (p palette) ofGuarantee(g procstats.Guarantee) func(string) string {
	if g == procstats.Exact {
		return p.green
	}
	return p.yellow
}

// valueText writes a value of a record's maps, which is a number or a text.
func valueText(name string, value any) string {
	switch value := value.(type) {
	case float64:
		return procstats.UnitOf(name).Text(value)
	case string:
		return printable(value)
	case nil:
		return procstats.NoValue
	}
	return printable(fmt.Sprint(value))
}

func (p *recordPage) host() {
	h := p.record.Host
	p.section("Where")
	var cgroup string
	if c := p.record.Cgroup; c != nil {
		cgroup = strings.Join(slices.DeleteFunc([]string{c.Layout, c.Placement, c.V2}, func(s string) bool { return s == "" }), ", ")
	}
	memory := ""
	if h.MemoryBytes > 0 {
		memory = ", " + procstats.Bytes.Text(float64(h.MemoryBytes))
	}
	p.facts(
		[2]string{"host", printable(h.Name)},
		[2]string{"system", strings.TrimSpace(printable(h.OS + " " + h.Kernel))},
		[2]string{"machine", fmt.Sprintf("%d CPUs%s", h.CPUs, memory)},
		[2]string{"cgroup", printable(cgroup)},
		[2]string{"recorded by", "tacho " + printable(p.record.TachoVersion)},
	)
	for _, source := range p.record.Sources {
		if !source.Available {
			fmt.Fprintf(&p.text, "  source %s did not work: %s\n", printable(source.Name), printable(source.Reason))
		}
	}
}

func (p *recordPage) notes() {
	if len(p.record.Notes) == 0 {
		return
	}
	p.section("Mind")
	for _, note := range p.record.Notes {
		fmt.Fprintf(&p.text, "  %s\n", printable(note))
	}
}

func (p *recordPage) measurements() {
	p.section("All measurements")
	t := table{indent: "  ", right: map[int]bool{1: true}}
	for _, name := range tableOrder(p.record.Measurements) {
		t.add(plain(name, valueText(name, p.record.Measurements[name]))...)
	}
	p.text.WriteString(t.render(p.palette))
}

func (p *recordPage) absent() {
	if len(p.record.Absent) == 0 {
		return
	}
	p.section("Absent")
	t := table{indent: "  "}
	for _, name := range tableOrder(p.record.Absent) {
		t.add(plain(name, printable(p.record.Absent[name]))...)
	}
	p.text.WriteString(t.render(p.palette))
}

// tableOrder lists the keys in the order of the table, and after them those a later version added.
func tableOrder[V any](values map[string]V) []string {
	var names []string
	for _, m := range procstats.Table() {
		if _, given := values[m.Name]; given {
			names = append(names, m.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, known := procstats.LookupName(name); !known {
			names = append(names, printable(name))
		}
	}
	return names
}
