// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"math"
	"strconv"
	"time"
)

// cell is one element that changes: its name, the template of its content and the data of it.
type cell struct {
	name, template string
	data           any
}

func (p *Page) renderCells(list []cell) (cells, error) {
	rendered := make(cells, len(list))
	for _, c := range list {
		html, err := p.fragment(c.template, c.data)
		if err != nil {
			return nil, err
		}
		rendered[c.name] = html
	}
	return rendered, nil
}

// overviewSource is the live page of tasks. The tasks are those that the page had when it was loaded, in their order:
// rows that change places under the pointer are of no use to anybody.
type overviewSource struct {
	page    *Page
	listing listing
	loaded  *overview
	// pointed is when the small lines last got a point.
	pointed time.Time
}

// overviewSource finds the table that the page was made from.
func (p *Page) overviewSource(v *view) (source, cells, error) {
	query := v.request.URL.Query()
	l := listingOf(query)
	g := p.overview.find(query.Get("at"))
	if g == nil {
		g = p.rows(v.now, v.Now)
		return &overviewSource{page: p, listing: l, loaded: g.list(l, v.Now), pointed: g.at}, nil, nil
	}
	s := &overviewSource{page: p, listing: l, loaded: g.list(l, v.Now), pointed: g.at}
	shown, err := p.renderCells(s.list(g, s.loaded))
	return s, shown, err
}

// cells implements source.
func (s *overviewSource) cells(v *view) (string, cells, error) {
	g := s.page.rows(v.now, v.Now)
	now := g.list(s.listing, v.Now)
	list := append(s.list(g, now), cell{"machine", "machine", s.page.machine(v.request.Context(), v.now, v.Trusted)})
	rendered, err := s.page.renderCells(append(list, s.sparks(g)...))
	return now.shape, rendered, err
}

// list are the cells of the loaded page with the numbers of a table.
func (s *overviewSource) list(g *generation, now *overview) []cell {
	list := []cell{{"read", "text", now.Read}}
	for _, f := range now.Filters {
		list = append(list, cell{f.Key, "text", f.Count})
	}
	for _, loaded := range s.loaded.Groups {
		if loaded.Head {
			loaded.sum(now.live)
			list = append(list, cell{"job " + loaded.Job + " cpu", "number", loaded.CPU}, cell{"job " + loaded.Job + " memory", "number", loaded.Memory},
				cell{"job " + loaded.Job + " count", "text", strconv.Itoa(loaded.Count) + " tasks"})
		}
	}
	for _, r := range s.rows(g) {
		list = append(list,
			cell{r.Key + " state", "state", r}, cell{r.Key + " cpu", "number", r.CPU}, cell{r.Key + " memory", "memory", r.Memory},
			cell{r.Key + " io", "io", r}, cell{r.Key + " pressure", "pressure", r.Pressure}, cell{r.Key + " age", "age", r.Age},
		)
	}
	return list
}

// rows are those of the loaded page, without those that have ended: the page is loaded again for them.
func (s *overviewSource) rows(g *generation) []*row {
	known := make(map[string]*row, len(g.rows))
	for i := range g.rows {
		if g.rows[i].End == nil {
			known[g.rows[i].Key] = &g.rows[i]
		}
	}
	rows := make([]*row, 0, len(s.loaded.rows))
	for _, r := range s.loaded.rows {
		if found := known[r.Key]; found != nil {
			rows = append(rows, found)
		}
	}
	return rows
}

// sparks are the lines of tasks whose history was not read yet when the page was made, once it has been.
func (s *overviewSource) sparks(g *generation) (list []cell) {
	missing := map[string]*row{}
	for _, r := range s.loaded.rows {
		if !r.Spark.whole {
			missing[r.Key] = r
		}
	}
	for _, r := range s.rows(g) {
		if loaded := missing[r.Key]; loaded != nil && r.Spark.whole {
			loaded.Spark.whole = true
			list = append(list, cell{r.Key + " spark", "spark", r.Spark})
		}
	}
	return list
}

// points implements pointSource.
func (s *overviewSource) points(v *view) (*points, bool) {
	passed := v.Now.Sub(s.pointed)
	if passed < trackStep {
		return nil, false
	}
	s.pointed = v.Now
	known := map[string]*row{}
	for _, r := range s.rows(s.page.rows(v.now, v.Now)) {
		known[r.Key] = r
	}
	p := &points{Step: math.Round(1e4*float64(passed)/float64(trackSpan)) / 1e4, Values: make([]*float64, len(s.loaded.rows))}
	for i, r := range s.loaded.rows {
		if r = known[r.Key]; r != nil && !math.IsNaN(r.Spark.newest) {
			value := math.Round(1e4*r.Spark.newest) / 1e4
			p.Values[i] = &value
		}
	}
	return p, true
}

// taskSource is the live page of one task.
type taskSource struct{ page *Page }

// taskSource says what the page of a task shows if nothing was read since it was made.
func (p *Page) taskSource(v *view) (source, cells, error) {
	s := taskSource{p}
	if err := p.taskPage(v); err != nil {
		return s, nil, nil //nolint:nilerr // the first event says that the page is gone
	}
	if body, _ := v.Body.(*taskView); body.at != v.request.URL.Query().Get("at") {
		return s, nil, nil
	}
	_, shown, err := s.cells(v)
	return s, shown, err
}

// cells implements source.
func (s taskSource) cells(v *view) (string, cells, error) {
	p := s.page
	if err := p.taskPage(v); err != nil {
		return "", nil, err
	}
	b, _ := v.Body.(*taskView)
	list := []cell{
		{"machine", "machine", p.machine(v.request.Context(), v.now, v.Trusted)},
		{"reason", "reason", b},
	}
	if b.Up != "" {
		list = append(list, cell{"up", "text", b.Up})
	}
	if b.Read {
		list = append(list, cell{"age", "reading-age", b.Age})
		for _, f := range b.Figures {
			list = append(list, cell{"figure-" + f.Key, "figure", f})
		}
		list = append(list, cell{"pressure", "pressure-figure", b.Pressure}, cell{"memory-bar", "memory-bar", b.Memory}, cell{"notes", "notes", b},
			cell{"processes", "processes", b}, cell{"commands", "commands", b.Commands})
		for _, m := range b.Measurements {
			list = append(list, cell{"m " + m.Name, "number", m.Value})
		}
	}
	for _, c := range b.Charts {
		list = append(list, cell{c.Key, "chart", c})
	}
	for _, l := range b.Logs {
		list = append(list, cell{"log " + l.Stream, "log", l})
	}
	list = append(list, cell{"happened", "happened", b})
	rendered, err := p.renderCells(list)
	return v.Shape, rendered, err
}
