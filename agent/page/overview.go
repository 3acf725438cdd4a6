// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"html/template"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tachograph/tacho/agent/snapshot"
	"github.com/tachograph/tacho/procstats"
)

// overview is the page of all tasks.
type overview struct {
	Rows, Ended []row
	Query, Sort string
	// Columns can be sorted by.
	Columns map[string]column
	Total   int
}

// column is the link of a column's header to the page sorted by it.
type column struct{ Link, Order string }

// row is one task in a table.
type row struct {
	Key, Path, Name, Job, Group, Allocation, ID string
	Index                                       int
	Condition                                   condition
	Restarts                                    int
	CPU, Read, Write                            number
	Spark                                       template.HTML
	Memory                                      memory
	Pressure                                    pressure
	Age                                         age
	End                                         *ending

	sort sortKeys
}

// sortKeys are a row's numbers in the order of people; absent ones are below all.
type sortKeys struct{ cpu, memory, io, pressure float64 }

// age is how old a row's numbers are.
type age struct {
	Text, Hint string
	Stale      bool
}

// shared is the newest table of tasks, made once for all who look.
type shared struct {
	mu   sync.Mutex // guards following
	at   time.Time
	rows []row
}

// rows returns a row for every task, at most half an interval old.
func (p *Page) rows(known *snapshot.Agent, now time.Time) []row {
	s := &p.overview
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && now.Sub(s.at) < p.options.Interval/2 && !now.Before(s.at) {
		return s.rows
	}
	p.past.begin(now)
	rows := []row{}
	for _, t := range tasksOf(known, false) { // all readers share them
		rows = append(rows, p.row(t, now))
	}
	s.at, s.rows = now, rows
	return rows
}

func (p *Page) row(t task, now time.Time) row {
	a := t.allocation
	r := row{
		Key: t.key(), Path: t.path(), Name: printable(t.state.Name), Job: printable(a.JobID), Group: printable(a.Group),
		Index: a.Index, ID: a.ID, Allocation: short(a.ID), Condition: t.condition(), Restarts: t.state.State.Restarts,
	}
	if t.dead() {
		r.End = endingOf(t, p.past.record(t))
		return r
	}
	before, newest, recent := p.past.of(t, now)
	list := t.usage.Headlines
	if t.usage.Sample == nil || !t.usage.Running {
		why := t.absentReason()
		r.CPU, r.Read, r.Write = absent("cpu_cores", why), absent("io_read_bytes_total", why), absent("io_write_bytes_total", why)
		r.Memory, r.Pressure = memory{Needed: absent("memory_bytes", why)}, pressure{Hint: why}
	} else {
		r.CPU = headline(list, procstats.HeadlineCores, procstats.CoresText)
		r.Read = rateNumber(list, procstats.HeadlineIORead, newest.rate(before, ioRead))
		r.Write = rateNumber(list, procstats.HeadlineIOWrite, newest.rate(before, ioWrite))
		r.Memory = memoryOf(t)
		r.Pressure = pressureOf(&newest, before)
	}
	r.Spark = sparkOf(recent, now)
	r.Age = ageOf(t, now)
	r.sort = sortKeysOf(t, &newest, before)
	return r
}

func ageOf(t task, now time.Time) age {
	d, ok := t.age(now)
	if !ok {
		return age{Text: procstats.NoValue, Hint: t.absentReason(), Stale: true}
	}
	limit := max(5*time.Second, 3*t.usage.Interval)
	a := age{Text: procstats.AgeText(d), Hint: "since the newest reading", Stale: d > limit || t.usage.Reason != ""}
	if t.usage.Reason != "" {
		a.Hint += ": " + printable(t.usage.Reason)
	}
	if t.usage.Backlogged > 0 {
		a.Hint += "; readings that came late: " + procstats.None.Text(float64(t.usage.Backlogged))
	}
	if t.usage.HistoryDropped > 0 {
		a.Hint += "; readings not in the history, because the disk was too slow: " + procstats.None.Text(float64(t.usage.HistoryDropped))
	}
	return a
}

func sortKeysOf(t task, newest, before *moment) sortKeys {
	k := sortKeys{cpu: -1, memory: -1, io: -1, pressure: -1}
	if v, ok := headlineValue(t.usage.Headlines, procstats.HeadlineCores); ok {
		k.cpu = v
	}
	if v, ok := headlineValue(t.usage.Headlines, procstats.HeadlineMemory); ok {
		k.memory = v
	}
	if read, write := newest.rate(before, ioRead), newest.rate(before, ioWrite); !math.IsNaN(read + write) {
		k.io = read + write
	}
	for _, q := range []quantity{stallCPU, stallMemory, stallIO} {
		if v := newest.rate(before, q); !math.IsNaN(v) {
			k.pressure = max(k.pressure, v)
		}
	}
	return k
}

// rateNumber is the rate of a headline that is a counter.
func rateNumber(list []procstats.HeadlineValue, id procstats.ID, rate float64) number {
	n := headline(list, id, procstats.Bytes.Text)
	switch {
	case n.Absent:
		return n
	case math.IsNaN(rate):
		return absent(n.Name, "a rate needs an earlier reading")
	}
	n.Text = procstats.BytesPerSecond.Text(rate)
	return n
}

// overviewPage fills the page of all tasks.
func (p *Page) overviewPage(v *view) error {
	values := v.request.URL.Query()
	o := overview{Query: printable(values.Get("q")), Sort: values.Get("sort"), Columns: map[string]column{}}
	for _, r := range p.rows(v.now, v.Now) {
		o.Total++
		if o.Query != "" && !r.matches(o.Query) {
			continue
		}
		if r.End != nil {
			o.Ended = append(o.Ended, r)
		} else {
			o.Rows = append(o.Rows, r)
		}
	}
	sortRows(o.Rows, o.Sort)
	slices.SortStableFunc(o.Ended, func(a, b row) int { return b.End.at.Compare(a.End.at) })
	for _, name := range []string{"name", "cpu", "memory", "io", "pressure"} {
		values.Set("sort", name)
		c := column{Link: "/?" + values.Encode()}
		if o.Sort == name {
			c.Order = "descending"
			if name == "name" {
				c.Order = "ascending"
			}
		}
		o.Columns[name] = c
	}
	v.Title, v.Template, v.Body = "Tasks", "overview", o
	v.Live, v.Shape = "/page/stream/", o.shape()
	if v.request.URL.RawQuery != "" {
		v.Live += "?" + v.request.URL.RawQuery
	}
	return nil
}

// shape tells tables with other rows apart.
func (o overview) shape() string {
	parts := make([]string, 0, len(o.Rows)+len(o.Ended))
	for _, r := range o.Rows {
		parts = append(parts, r.Key)
	}
	slices.Sort(parts)
	for _, r := range o.Ended {
		parts = append(parts, r.Key+" ended")
	}
	return digest(parts)
}

func (r *row) matches(query string) bool {
	query = strings.ToLower(query)
	for _, text := range []string{r.Name, r.Job, r.Group, r.ID, r.Condition.Word} {
		if strings.Contains(strings.ToLower(text), query) {
			return true
		}
	}
	return false
}

func sortRows(rows []row, by string) {
	value := map[string]func(*row) float64{
		"cpu": func(r *row) float64 { return r.sort.cpu }, "memory": func(r *row) float64 { return r.sort.memory },
		"io": func(r *row) float64 { return r.sort.io }, "pressure": func(r *row) float64 { return r.sort.pressure },
	}[by]
	slices.SortStableFunc(rows, func(a, b row) int {
		if value != nil {
			if c := cmp.Compare(value(&b), value(&a)); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
	})
}
