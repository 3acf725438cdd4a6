// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

const (
	// pageRows is how many tasks one page lists, fewRows how many ended ones it adds.
	pageRows = 40
	fewRows  = 5
	// leastGroup is how many tasks a job has on a page that gives it a line of its own.
	leastGroup = 3
)

// listing is which tasks a page shows, and in which order.
type listing struct {
	// Query is a part of a name, a state or an id; State is one of the filters, Sort one of the orders.
	Query, State, Sort string
	// Page counts from 1.
	Page int
}

func listingOf(values url.Values) listing {
	l := listing{Query: values.Get("q"), State: values.Get("state"), Sort: values.Get("sort"), Page: 1}
	if !slices.Contains([]string{"problems", "running", "waiting", "ended"}, l.State) {
		l.State = ""
	}
	if l.Sort != "name" && !slices.Contains(sortable(), l.Sort) {
		l.Sort = ""
	}
	if n, err := strconv.Atoi(values.Get("page")); err == nil && n > 1 {
		l.Page = n
	}
	return l
}

// encode is the query of the listing's address.
func (l listing) encode() string {
	values := url.Values{"q": {l.Query}, "state": {l.State}, "sort": {l.Sort}}
	if l.Page > 1 {
		values.Set("page", strconv.Itoa(l.Page))
	}
	maps.DeleteFunc(values, func(_ string, value []string) bool { return value[0] == "" })
	return values.Encode()
}

// Link is the address of the listing.
func (l listing) Link() string { return strings.TrimSuffix("/?"+l.encode(), "?") }

// With returns the first page of another state or order.
func (l listing) With(state, sort string) listing {
	l.State, l.Sort, l.Page = state, sort, 1
	return l
}

// overview is the page of tasks.
type overview struct {
	listing
	Groups        []group
	Failed, Ended section
	Waiting       []waiting
	// Counts are the tasks that pass each filter.
	Counts map[string]int
	Pages  []choice
	// Total counts all tasks, Matching those that run and are listed, on this page or another.
	Total, Matching int
	// Read says how old the newest reading is.
	Read string
	// Order has the places of the rows, as the page was loaded, in the order of a number; empty if there is no such order.
	Order string

	// live are all that run and match. shape tells listings of other tasks apart.
	live      []*row
	shape, at string
}

// section is a list of ended tasks, the newest first.
type section struct {
	Rows []*row
	// All is where the others are, if there are others; Count counts all.
	All   string
	Count int
}

// group is the tasks of one job.
type group struct {
	// Head says that the job has a line of its own.
	Head        bool
	Job, Link   string
	Count       int
	CPU, Memory number
	Rows        []*row
}

// choice is one of several links; On marks the one that the reader has followed.
type choice struct {
	Key, Label, Link string
	On               bool
}

// list makes the page of a listing.
func (g *generation) list(l listing, now time.Time) *overview {
	o := &overview{listing: l, Counts: map[string]int{}, Total: len(g.rows), at: g.number()}
	var live, ended []*row
	var newest time.Time
	for i := range g.rows {
		r := &g.rows[i]
		if l.Query != "" && !r.matches(l.Query) {
			continue
		}
		if r.read.After(newest) {
			newest = r.read
		}
		for _, state := range r.states() {
			o.Counts[state]++
		}
		switch {
		case l.State != "" && !slices.Contains(r.states(), l.State):
		case r.End != nil:
			ended = append(ended, r)
		default:
			live = append(live, r)
		}
	}
	if !newest.IsZero() {
		o.Read = "read " + procstats.AgeText(now.Sub(newest)) + " ago"
	}
	o.Waiting, o.live, o.shape = g.waiting, live, shapeOf(live, ended, g.waiting)
	o.running(live)
	o.finished(ended)
	return o
}

// states are the filters that a task passes.
func (r *row) states() []string {
	states := []string{""}
	switch {
	case r.End != nil:
		states = append(states, "ended")
		if r.End.Class == "bad" || r.End.Class == "warn" {
			states = append(states, "problems")
		}
		return states
	case r.Condition.Word == "running":
		states = append(states, "running")
	default:
		states = append(states, "waiting")
	}
	if r.severity > 0 {
		states = append(states, "problems")
	}
	return states
}

// finished lists ended tasks: the newest failures before what runs, the newest others behind it.
func (o *overview) finished(rows []*row) {
	slices.SortStableFunc(rows, func(a, b *row) int { return b.End.EndedAt.Compare(a.End.EndedAt) })
	if o.State == "ended" {
		o.Matching = len(rows)
		from, to := o.window()
		o.Ended = section{Rows: rows[from:to], Count: len(rows)}
		return
	}
	for _, r := range rows {
		s, state := &o.Ended, "ended"
		if slices.Contains(r.states(), "problems") {
			s, state = &o.Failed, "problems"
		}
		s.Count++
		if len(s.Rows) < fewRows || o.State == "problems" {
			s.Rows = append(s.Rows, r)
		} else {
			s.All = o.With(state, o.Sort).Link()
		}
	}
	if o.State == "problems" && o.Failed.Count > pageRows {
		o.Failed.Rows, o.Failed.All = o.Failed.Rows[:pageRows], o.With("ended", o.Sort).Link()
	}
	if o.Page > 1 {
		o.Failed, o.Ended = section{}, section{}
	}
}

// running lists tasks that run or will run.
func (o *overview) running(rows []*row) {
	if o.State == "ended" {
		return
	}
	o.Matching = len(rows)
	sortRows(rows, o.Sort)
	from, to := o.window()
	byJob := o.Sort == "" || o.Sort == "name"
	for _, r := range rows[from:to] {
		shown := *r // others show it in other groups
		if n := len(o.Groups); n == 0 || (byJob && o.Groups[n-1].Job != r.Job()) {
			o.Groups = append(o.Groups, group{Job: r.Job(), Link: "/?" + url.Values{"q": {r.Job()}}.Encode()})
		}
		g := &o.Groups[len(o.Groups)-1]
		g.Rows = append(g.Rows, &shown)
	}
	if !byJob && len(o.Groups) > 0 {
		o.reorder()
	}
	for i := range o.Groups {
		g := &o.Groups[i]
		if g.Head = byJob && len(g.Rows) >= leastGroup; !g.Head {
			continue
		}
		for _, r := range g.Rows {
			r.Grouped = true
		}
		g.sum(rows)
	}
}

const noNumbers = "no task of the job has numbers"

// noise is by how much numbers differ at least that rows change places for.
func noise(by string) float64 {
	return map[string]float64{"cpu": 0.01, "memory": 1 << 20, "io": 16 << 10, "pressure": 0.01}[by]
}

// reorder sorts the rows of a page as it was loaded. It returns false if a task of another page belongs into the upper
// half of the first one.
func (o *overview) reorder() bool {
	rows := o.Groups[0].Rows
	order := make([]int, len(rows))
	loaded := map[string]bool{}
	for i, r := range rows {
		order[i], loaded[r.Key()] = i, true
	}
	value := func(r *row) float64 {
		if least := noise(o.Sort); least > 0 {
			return math.Floor(r.sort[o.Sort] / least)
		}
		return r.sort[o.Sort]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(value(rows[b]), value(rows[a])) })
	o.Order = strings.Trim(fmt.Sprint(order), "[]")
	middle := value(rows[order[len(order)/2]])
	return o.Page > 1 || !slices.ContainsFunc(o.live, func(r *row) bool { return value(r) > middle && !loaded[r.Key()] })
}

// sum adds up what all tasks of the job use, on this page or another.
func (g *group) sum(rows []*row) {
	cpu, memory, missing, known := 0.0, 0.0, 0, false
	g.Count = 0
	for _, r := range rows {
		if r.Job() != g.Job {
			continue
		}
		g.Count++
		if r.Condition.Word == "running" && (r.sort["cpu"] < 0 || r.sort["memory"] < 0) {
			missing++
		}
		known = known || r.sort["cpu"] >= 0 || r.sort["memory"] >= 0
		cpu, memory = cpu+max(0, r.sort["cpu"]), memory+max(0, r.sort["memory"])
	}
	if missing > 0 && !known { // zeros would say that the tasks use nothing
		g.CPU, g.Memory = absent("cpu_cores", noNumbers), absent("memory_bytes", noNumbers)
		return
	}
	guarantee := procstats.Exact
	if missing > 0 {
		guarantee = procstats.LowerBound
	}
	total := func(name, text string) number {
		n := numberOf(name, text, "", guarantee, time.Time{})
		n.Hint = "sum over the tasks of the job"
		if missing > 0 {
			n.Hint += "; " + strconv.Itoa(missing) + " that run have no numbers"
		}
		return n
	}
	g.CPU = total("cpu_cores", procstats.CoresText(cpu))
	g.Memory = total("memory_bytes", procstats.Bytes.Text(memory))
}

// window is which of the matching tasks the page shows, and fills the links to the others.
func (o *overview) window() (from, to int) {
	pages := max(1, (o.Matching+pageRows-1)/pageRows)
	o.Page = min(o.Page, pages)
	for n := 1; n <= pages && pages > 1; n++ {
		if n > 2 && n < pages-1 && (n < o.Page-1 || n > o.Page+1) {
			if o.Pages[len(o.Pages)-1].Label != "…" {
				o.Pages = append(o.Pages, choice{Label: "…"})
			}
			continue
		}
		l := o.listing
		l.Page = n
		o.Pages = append(o.Pages, choice{Label: strconv.Itoa(n), Link: l.Link(), On: n == o.Page})
	}
	return (o.Page - 1) * pageRows, min(o.Page*pageRows, o.Matching)
}

// shapeOf tells tables with other rows apart.
func shapeOf(live, ended []*row, wait []waiting) string {
	parts := []string{fmt.Sprint(wait)}
	for _, r := range slices.Concat(live, ended) {
		parts = append(parts, fmt.Sprint(r.Key(), r.End != nil))
	}
	slices.Sort(parts)
	return digest(parts)
}

func (r *row) matches(query string) bool {
	texts := []string{r.Name(), r.Job(), r.Group(), r.ID(), r.Condition.Word, r.Last, r.Trouble}
	if r.End != nil {
		texts = append(texts, r.End.Summary)
	}
	return slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(query))
	})
}

// sortRows sorts by a number, by name, or by job with problems first: jobs that have one, and in a job its tasks.
func sortRows(rows []*row, by string) {
	worst := map[string]int{}
	if by == "" {
		for _, r := range rows {
			worst[r.Job()] = max(worst[r.Job()], r.severity)
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int {
		severity := 0
		if by == "" {
			severity = cmp.Compare(b.severity, a.severity)
		}
		return cmp.Or(cmp.Compare(b.sort[by], a.sort[by]), cmp.Compare(worst[b.Job()], worst[a.Job()]),
			cmp.Compare(a.Job(), b.Job()), severity, cmp.Compare(a.Group(), b.Group()), cmp.Compare(a.Index(), b.Index()),
			cmp.Compare(a.Name(), b.Name()))
	})
}

// overviewPage fills the page of all tasks.
func (p *Page) overviewPage(v *view) error {
	o := p.rows(v.now, v.Now).list(listingOf(v.request.URL.Query()), v.Now)
	v.Title, v.Template, v.Body = "Tasks", "overview", o
	v.Shape = o.shape
	values, _ := url.ParseQuery(o.encode()) // it was just encoded
	values.Set("at", o.at)
	v.Live = "/page/stream/?" + values.Encode()
	return nil
}
