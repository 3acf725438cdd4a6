// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// Page lays out a record as text, in sections.
type Page struct {
	// FailedFirst lists the commands with most failed processes first.
	FailedFirst bool
	// Compared says what the runs before took.
	Compared string

	cli.Sheet
	name   string
	record *record.Record
}

// NewPage returns the page of the record of the run name.
func NewPage(p cli.Palette, name string, r *record.Record) *Page {
	return &Page{Sheet: cli.Sheet{Palette: p}, name: name, record: r}
}

// Render returns the page: what fits on a screen, or all that is known.
func (p *Page) Render(all bool) string {
	if all {
		return p.whole()
	}
	return p.screen()
}

// screen returns the page that fits on a screen of 80 columns and 40 lines, unless texts of the run are long.
func (p *Page) screen() string {
	r := p.record
	p.facts()
	p.Title("Why it ended")
	p.why()
	if r.Diagnosis.Verdict == record.StartFailed {
		return p.String()
	}
	p.Title("What it used, and what it waited for")
	if len(r.Headline) == 0 {
		p.line("unknown: %s", whyUnknown(r.State))
	}
	_, since := writtenOf(r).Text()
	p.Facts(append(usedLines(r, since), [2]string{"peak by", largestAtPeak(r)}, [2]string{"compared", p.Compared})...)
	p.largest()
	p.WriteByte('\n')
	p.Hang("", "", fmt.Sprintf("%s, %d absent: --all shows them, with sources, guarantees and evidence.",
		procstats.Counted(len(r.Measurements), "measurement", "measurements"), len(r.Absent)), nil)
	return p.String()
}

// whole returns all that is known: all measurements, and the reason for each absent one, block devices, and the
// evidence of a success too.
func (p *Page) whole() string {
	p.facts([2]string{"wall time", wallText(p.record)},
		[2]string{"exit code", strings.TrimPrefix(ExitText(p.record.ExitCode, p.record.Signal), procstats.NoValue)},
		[2]string{"samples", samplesText(p.record)})
	p.used()
	p.waited()
	p.Title("Why it ended")
	p.why()
	p.evidence(p.record.Diagnosis.Evidence)
	p.peak()
	p.processes()
	p.commands()
	p.section("Limits", LimitTable(p.record))
	p.host()
	p.notes()
	p.devices()
	p.Title("All measurements")
	p.Table(ValueTable(p.record.Measurements))
	absent := ValueTable(p.record.Absent)
	absent.Right = nil // they are reasons
	p.section("Absent", absent)
	return p.String()
}

// section writes a section that is a table, unless it is empty.
func (p *Page) section(title string, t *cli.Table) {
	if !t.Empty() {
		p.Title(title)
		p.Table(t)
	}
}

// line writes a line of a section.
func (p *Page) line(format string, args ...any) { p.painted(nil, fmt.Sprintf(format, args...)) }

// painted writes a line of a section in a colour; nil for none.
func (p *Page) painted(paint func(string) string, text string) {
	p.Hang("  ", "    ", text, paint)
}

// headline writes the name of the run, and how it ended or the state that it is in.
func (p *Page) headline() {
	state := cli.Painted(cli.Printable(p.record.StateText()), StatePaint(p.Palette, p.record.State))
	if outcome := p.record.End().Outcome; outcome != "" {
		state = cli.Painted(cli.Printable(string(outcome)), OutcomePaint(p.Palette, outcome))
	}
	fmt.Fprintf(p, "%s  %s\n", p.Bold(cli.Printable(p.name)), state.String())
}

// facts writes what was run, when and where, and more.
func (p *Page) facts(more ...[2]string) {
	r := p.record
	p.headline()
	p.Facts(append([][2]string{
		{"command", cli.CommandLine(r.Command)},
		{"started", record.Join(" ", TimeText(r.StartedAt), named("by ", cli.Printable(r.User)))},
		{"ended", TimeText(r.EndedAt)},
		{"in", cli.Printable(r.Dir)},
		{"on", cli.Printable(hostText(r))},
		{"message", cli.Printable(r.Message)},
		{"labels", LabelsText(r.Labels)},
		{"as of", TimeText(r.AsOf)},
	}, more...)...)
}

// wallText is how long a run took, and its main process where that is another time.
func wallText(r *record.Record) string {
	text := cli.Optional(procstats.Seconds, r.WallSeconds)
	if r.MainSeconds != nil {
		text += ", its main process " + procstats.Seconds.Text(*r.MainSeconds)
	}
	return text
}

// LabelsText returns labels as NAME=VALUE, sorted by name.
func LabelsText(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, cli.Printable(key+"="+labels[key]))
	}
	return strings.Join(pairs, " ")
}

// TimeText returns the local time to the millisecond, or nothing for the zero time.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05.000 -0700")
}

func samplesText(r *record.Record) string {
	count := fmt.Sprint(r.Samples)
	switch {
	case r.Samples == 0:
		count = "unknown"
	case !r.AsOf.IsZero():
		count += " reported"
	}
	if often := r.SamplingText(); often != "" {
		count += ", " + often
	}
	return record.Join(", ", count, r.GapText())
}

func (p *Page) used() {
	p.Title("What it used")
	t := HeadlineTable(p.record.Headline, p.Palette)
	if t.Empty() {
		p.line("unknown: %s", whyUnknown(p.record.State))
	}
	p.Table(t)
}

// whyUnknown returns the reason why a record has no numbers.
func whyUnknown(state record.State) string {
	return cmp.Or(map[record.State]string{
		record.Running: "no report yet; the record is completed at the end",
		record.Lost:    "the record was not completed, and there is no report",
	}[state], record.NotRecorded)
}

// HeadlineTable lists the headlines with guarantee and source, or with the reason for their absence.
func HeadlineTable(values map[string]record.HeadlineValue, palette cli.Palette) *cli.Table {
	t := &cli.Table{Indent: "  ", Right: []int{1}}
	for _, name := range cli.TableOrder(values) {
		value := values[name]
		known, reason := value.Known()
		if known == nil {
			t.AddTexts(name, procstats.NoValue, "", cli.Printable(reason))
			continue
		}
		t.Add(cli.Plain(name), cli.Painted(procstats.UnitOf(name).Text(*known), palette.Bold),
			cli.Painted(cli.Printable(cli.GuaranteeText(value.Guarantee)), GuaranteePaint(palette, value.Guarantee)),
			cli.Painted(cli.Printable(value.Source), palette.Faint))
	}
	return t
}

// GuaranteePaint returns the colour of a guarantee.
func GuaranteePaint(p cli.Palette, g procstats.Guarantee) func(string) string {
	if g == procstats.Exact {
		return p.Green
	}
	return p.Yellow
}

// ValueText returns a value of a record as text; it is a number in the unit of name, or a text.
func ValueText(name string, value any) string {
	switch value := value.(type) {
	case float64:
		return procstats.UnitOf(name).Text(value)
	case string:
		return cli.Printable(value)
	case nil:
		return procstats.NoValue
	}
	return cli.Printable(fmt.Sprint(value))
}

// hostText names the machine of a run: "web1, linux 6.1.0, 2 CPUs, 4 GiB".
func hostText(r *record.Record) string {
	h, memory := r.Host, ""
	if h.MemoryBytes > 0 {
		memory = procstats.Bytes.Text(float64(h.MemoryBytes))
	}
	system := strings.TrimSpace(h.OS + " " + h.Kernel)
	return record.Join(", ", h.Name, system, procstats.Counted(h.CPUs, "CPU", "CPUs"), memory)
}

func (p *Page) host() {
	p.Title("Host")
	cgroup := ""
	if c := p.record.Cgroup; c != nil {
		cgroup = record.Join(", ", c.Layout, c.Placement, c.V2)
	}
	p.Facts(
		[2]string{"cgroup", cli.Printable(cgroup)},
		[2]string{"recorded by", "tacho " + cli.Printable(p.record.TachoVersion)},
	)
	for _, source := range p.record.Sources {
		if !source.Available {
			p.line("source %s not available: %s", cli.Printable(source.Name), cli.Printable(source.Reason))
		}
	}
}

func (p *Page) notes() {
	for i, note := range p.record.AllNotes() {
		if i == 0 {
			p.Title("Notes")
		}
		p.line("%s", cli.Printable(note))
	}
}

// ValueTable lists measurements.
func ValueTable[V any](values map[string]V) *cli.Table {
	t := &cli.Table{Indent: "  ", Right: []int{1}}
	for _, name := range cli.TableOrder(values) {
		t.AddTexts(name, ValueText(name, values[name]))
	}
	return t
}

// StatePaint returns the colour of a state; nil for none.
func StatePaint(p cli.Palette, state record.State) func(string) string {
	return map[record.State]func(string) string{record.Running: p.Green, record.Lost: p.Red}[state]
}

// ExitText returns the exit code, or the signal as "sig 9", or procstats.NoValue.
func ExitText(code, signal *int) string {
	switch {
	case signal != nil:
		return fmt.Sprintf("sig %d", *signal)
	case code != nil:
		return strconv.Itoa(*code)
	}
	return procstats.NoValue
}

// LimitTable lists the limits of a run: requested, effective, and the cgroup that has the effective one.
func LimitTable(r *record.Record) *cli.Table {
	t := &cli.Table{Indent: "  ", Header: []string{"", "REQUESTED", "EFFECTIVE", "CGROUP"}, Right: []int{1, 2}}
	for _, limit := range r.Limits {
		where := limit.Where
		if where == "" && limit.Effective != nil && limit.Name != "cpuset.cpus" {
			where = "an ancestor outside the cgroup namespace"
		}
		requested, effective := limit.Texts()
		t.AddTexts(cli.Printable(limit.Name), cli.Printable(requested), cli.Printable(effective), cli.Printable(where))
	}
	return t
}

// limitsSummary lists the requested limits, with the effective one if an ancestor has a lower one.
func limitsSummary(r *record.Record) string {
	var words []string
	for _, limit := range r.Limits {
		if limit.Requested == nil {
			continue
		}
		requested, effective := limit.Texts()
		word := limitWord(limit.Name) + " " + cli.Printable(requested)
		if limit.Effective != nil && *limit.Effective < *limit.Requested && limit.EffectiveText == "" &&
			!isOwn(r.Cgroup, limit.Where) {
			word += fmt.Sprintf(" (%s by %s)", effective, cmp.Or(cli.Printable(limit.Where), "an ancestor"))
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
