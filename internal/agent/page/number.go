// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"bytes"
	"cmp"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

// number is a value as people see it, with where it comes from.
type number struct {
	// Text is the value with its unit; a dash if it is absent.
	Text string
	// Mark is ≥, ≤ or ~ if the value is not exact; Words are the same for screen readers.
	Mark, Words string
	// Hint says source, guarantee and age, or why there is no value.
	Hint string
	// Name is the row of the table that explains it.
	Name   string
	Absent bool

	guarantee procstats.Guarantee
	// vacuous says that all that is known is that the value is at least 0.
	vacuous bool
}

// absent is a number that was not measured.
func absent(name, reason string) number {
	hint := name + ": not measured: " + cmp.Or(reason, "no reason reported")
	return number{Text: procstats.NoValue, Absent: true, Name: name, Hint: hint}
}

// vacuous is a number whose only known property is that it is at least 0: it was measured, and says nothing.
func vacuous(name string) number {
	hint := name + ": not known: " + procstats.ReasonVacuous
	return number{Text: procstats.NoValue, Absent: true, Name: name, vacuous: true, Hint: hint}
}

// guaranteeText is how a guarantee is written before a number, in a sign and in words, and in full.
func guaranteeText(g procstats.Guarantee) (mark, words, full string) {
	switch g {
	case procstats.LowerBound:
		return "≥", "at least", "lower bound: can miss something, never counts too much"
	case procstats.UpperBound:
		return "≤", "at most", "upper bound: can count too much, never misses anything"
	case procstats.Sampled:
		return "~", "sampled", "sampled: right at the moments of reading"
	case procstats.Exact:
		return "", "", "exact: the kernel's own accounting"
	}
	return "", "", string(g)
}

// numberOf is a value of a measurement that was taken from source. The time is that of sources that are read more
// seldom than others, else zero: a page says once how old it is, and what stays the same is not sent again.
func numberOf(name, text, source string, g procstats.Guarantee, at time.Time) number {
	mark, words, full := guaranteeText(g)
	n := number{Text: text, Name: name, Mark: mark, Words: words, guarantee: g}
	parts := []string{name}
	if source != "" && source != name {
		parts = append(parts, "from "+source)
	}
	if full != "" {
		parts = append(parts, full)
	}
	if !at.IsZero() {
		parts = append(parts, "read at "+at.Format("15:04:05.000"))
	}
	n.Hint = strings.Join(parts, " · ")
	return n
}

// headline writes one of the headlines of a reading, in its own unit.
func headline(list []procstats.HeadlineValue, id procstats.ID, write func(float64) string) number {
	return headlineAt(list, id, write, "not read", time.Time{})
}

// headlineAt writes one of the headlines of a reading or a record; missing says why there is none.
func headlineAt(
	list []procstats.HeadlineValue, id procstats.ID, write func(float64) string, missing string, at time.Time,
) number {
	h, found := figures.Headline(list, id)
	value, ok := h.Reading.Number()
	switch {
	case !found:
		return absent(id.String(), missing)
	case !ok:
		return absent(id.String(), h.Reading.Reason())
	case h.Guarantee.Vacuous(value):
		return vacuous(id.String())
	}
	return numberOf(id.String(), write(value), h.Source, h.Guarantee, at)
}

// slowSource is how much older than its sample a reading has to be for its time to be told.
const slowSource = 2 * time.Second

// reading writes one reading with everything the table says of it.
func reading(s *procstats.Sample, r procstats.Reading) number {
	m, _ := procstats.Lookup(r.ID())
	return readingAs(s, r, m.Guarantee)
}

// readingAs writes one reading with a guarantee that the table does not know.
func readingAs(s *procstats.Sample, r procstats.Reading, g procstats.Guarantee) number {
	m, _ := procstats.Lookup(r.ID())
	name := r.ID().String()
	if !r.Present() {
		return absent(name, r.Reason())
	}
	var at time.Time
	if stamp, ok := s.ReadAt(r.ID()); ok && (s.Mono-stamp.Mono).Abs() > slowSource {
		at = stamp.Wall
	}
	if text, ok := r.Text(); ok {
		return numberOf(name, text, "", g, at)
	}
	value, _ := r.Number()
	if g.Vacuous(value) {
		return vacuous(name)
	}
	return numberOf(name, m.Unit.Text(value), m.File, g, at)
}

// guaranteeOf says what a measurement guarantees.
func guaranteeOf(m procstats.Measurement) string {
	if m.Scope == procstats.HeadlineScope {
		return "that of what it is taken from, given with each value"
	}
	_, _, words := guaranteeText(m.Guarantee)
	return words
}

// measurementsPage fills the page of everything that can be measured.
func (p *Page) measurementsPage(v *view) error {
	v.Title, v.Template, v.Body = "Measurements", "measurements", procstats.Table()
	return nil
}

// memory is a task's memory against its limit.
type memory struct {
	Needed, Charged, Cache, Peak, Limit number
	// Bar is nil if there is nothing to compare.
	Bar *bar
	// Share is the needed part of the limit in words.
	Share string
	Class string
}

// bar is a stacked bar in percent of its width.
type bar struct {
	Needed, Cache string
	// CacheX is where the cache begins, PeakX where the peak is; PeakX is empty if it is not known.
	CacheX, PeakX string
	Label         string
	Limited       bool
}

// The parts of its limit from which a task's need is in trouble, and on the way to it.
const nearLimit, towardsLimit = 0.9, 0.75

// memoryOf splits what is charged to a task into what it needs and what the kernel can take back.
func memoryOf(t task) memory {
	list, sample := t.usage.Headlines, t.usage.Sample
	m := memory{
		Needed:  headline(list, procstats.HeadlineMemory, procstats.Bytes.Text),
		Charged: headline(list, procstats.HeadlineMemoryCharged, procstats.Bytes.Text),
		Peak:    headline(list, procstats.HeadlineMemoryPeak, procstats.Bytes.Text),
		Cache:   absent("memory_charged_bytes", "only a memory cgroup counts page cache separately"),
		Limit:   absent("cgroup_memory_max_bytes", "no limit was read"),
	}
	needed, okNeeded := figures.HeadlineNumber(list, procstats.HeadlineMemory)
	charged, okCharged := figures.HeadlineNumber(list, procstats.HeadlineMemoryCharged)
	peak, okPeak := figures.HeadlineNumber(list, procstats.HeadlineMemoryPeak)
	if okNeeded && okCharged {
		m.Cache = numberOf("memory_charged_bytes", procstats.Bytes.Text(max(0, charged-needed)),
			"memory_charged_bytes − memory_bytes", procstats.Exact, time.Time{})
	}
	limit, limited := sample.Task.Number(procstats.CgroupMemoryMax)
	if r, found := sample.Task.Get(procstats.CgroupMemoryMax); found {
		m.Limit = reading(sample, r)
	}
	used, ok := charged, okCharged
	if !ok {
		used, ok = needed, okNeeded
	}
	if !ok {
		return m
	}
	scale := limit
	if !limited {
		scale = max(used, peak) * 1.05
	}
	if scale <= 0 {
		return m
	}
	m.Bar = &bar{
		Needed: percent(min(needed, used) / scale), CacheX: percent(min(needed, used) / scale),
		Cache: percent(max(0, used-needed) / scale), Limited: limited,
	}
	if okPeak {
		m.Bar.PeakX = percent(min(peak, scale) / scale)
	}
	m.Bar.Label = "needed " + m.Needed.Text + ", page cache " + m.Cache.Text + ", peak " + m.Peak.Text
	if limited {
		m.Share = procstats.Share.Text(needed / limit)
		m.Bar.Label += ", limit " + m.Limit.Text
		// Page cache is taken back at the limit; what is needed is what kills.
		if needed/limit >= nearLimit {
			m.Class = "bad"
		} else if needed/limit >= towardsLimit {
			m.Class = "warn"
		}
	}
	return m
}

// percent writes a share of 1 for a bar.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(1000*min(1, max(0, share)))/10, 'f', -1, 64)
}

// pressure is what a task waited for in the last seconds.
type pressure struct {
	// Word is empty if pressure could not be read; Hint says why then.
	Word, Class, Hint string
	// Most is the largest share, if the task is held up.
	Most   string
	Shares []share
	// Throttling says how long CPU quotas have held the task back since its start.
	Throttling []string
}

// share is one resource's part in it.
type share struct{ Name, Text, Bar, Class string }

// pressureSince says what a task waited for until its newest moment, from one that is old enough, else the oldest.
func pressureSince(moments []moment, newest *moment) pressure {
	from, _ := since(moments, newest, pressureSpan-time.Second)
	return pressureOf(newest, from)
}

// pressureOf says in a word what a task waited for between two moments.
func pressureOf(newest, before *moment) pressure {
	w := newest.Waits(before)
	if w.CPUSome == nil && w.MemorySome == nil && w.IOSome == nil {
		if before != nil {
			return pressure{Hint: "pressure is not read: the kernel has no pressure files for this task"}
		}
		return pressure{Hint: "pressure needs an earlier reading"}
	}
	stall := record.StallOf(w)
	p := pressures[stall]
	p.Word = string(stall)
	if p.Word == string(record.CPUThrottled) && w.ThrottledAbove() {
		p.Hint = "throttled by the CPU quota of a cgroup above its own"
	}
	label := string(procstats.Exact)
	if w.Left != nil && *w.Left > 0 {
		label = "without those that run outside its cgroup"
	}
	var shares []string
	most := 0.0
	for _, s := range []struct {
		name  string
		value *float64
	}{{"cpu", w.CPUSome}, {"memory", w.MemorySome}, {"io", w.IOSome}} {
		shown := share{Name: s.name, Text: procstats.NoValue, Class: s.name}
		if s.value != nil {
			shown.Text, shown.Bar = procstats.Share.Text(min(1, *s.value)), percent(*s.value)
			if *s.value > most && (p.Class == "warn" || p.Class == "bad") {
				most, p.Most = *s.value, shown.Text
			}
		}
		p.Shares = append(p.Shares, shown)
		shares = append(shares, s.name+" "+shown.Text)
	}
	p.Hint += "; some of its processes waited for " + strings.Join(shares, ", ") +
		" of the time (psi_*_some_seconds_total, " + label + ")"
	return p
}

// pressureSpan is the time that the word for a task's pressure is about: over shorter ones it would flicker.
const pressureSpan = 10 * time.Second

// pressures are the words for what a task waits for, with the class of their colour and a sentence.
//
//nolint:gochecknoglobals // a constant table
var pressures = map[record.Stall]pressure{
	record.MemoryThrashing: {Class: "bad", Hint: "it waits for memory to be reclaimed or read back"},
	record.CPUThrottled:    {Class: "warn", Hint: "throttled by its own quota"},
	record.IOBound:         {Class: "warn", Hint: "it waits for block I/O"},
	record.CPUStarved:      {Class: "warn", Hint: "it waits for a CPU that others use"},
	record.Idle:            {Class: "quiet", Hint: "it neither uses nor waits"},
	record.Fine:            {Class: "good", Hint: "nothing held it up in the last seconds"},
	"":                     {Class: "quiet", Hint: "pressure is not known of all its processes and resources"},
}

// formatTime writes a moment for people who may sit in another time zone.
func formatTime(t time.Time) string { return formatAs(t, "2006-01-02 15:04:05 MST") }

// formatClock writes a moment of the last hours.
func formatClock(t time.Time) string { return formatAs(t, time.TimeOnly) }

// formatDay writes a moment to the minute.
func formatDay(t time.Time) string { return formatAs(t, "Jan 2 15:04") }

// formatAs writes a moment in the agent's time zone: plugins of drivers send UTC.
func formatAs(t time.Time, layout string) string {
	if t.IsZero() {
		return procstats.NoValue
	}
	return t.Local().Format(layout)
}

// formatEvent writes a moment that may be of another day.
func formatEvent(t time.Time) string {
	if day := time.DateOnly; t.Local().Format(day) != time.Now().Format(day) {
		return t.Local().Format("Jan 2 15:04:05")
	}
	return formatClock(t)
}

// visible replaces what would not be seen in a page, or would turn its text around: names and logs may contain
// anything. It is applied once, to all that is rendered; markup is the templates' business.
func visible(rendered []byte) []byte {
	if bytes.IndexFunc(rendered, isHidden) < 0 {
		return rendered
	}
	return bytes.Map(func(r rune) rune {
		if isHidden(r) {
			return unicode.ReplacementChar
		}
		return r
	}, rendered)
}

func isHidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' && r != '\t' }

// textOf writes a number of one of the types that there are; one that is not known is a dash.
func textOf(unit procstats.Unit) func(value any) string {
	return func(value any) string {
		if n, ok := numberIn(value); ok {
			return unit.Text(n)
		}
		return procstats.NoValue
	}
}

// numberIn returns a number of one of the types that there are; ok is false if it is not known.
func numberIn(value any) (n float64, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(value))
	switch {
	case v.CanFloat():
		return v.Float(), true
	case v.CanInt():
		return float64(v.Int()), true
	}
	return 0, false
}

// countedText writes a number of things.
func countedText(value any, one, many string) string {
	n, _ := numberIn(value)
	return procstats.Counted(n, one, many)
}

// shareText writes a part of a whole.
func shareText(part, whole any) string {
	of, known := numberIn(whole)
	if n, ok := numberIn(part); ok && known && of > 0 {
		return procstats.Share.Text(n / of)
	}
	return procstats.NoValue
}
