// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"time"
)

// cells are the elements of a page that change, by what they carry in data-live.
type cells map[string]string

// liveCells renders a page and returns the content of its elements with data-live. They are not in each other.
func (p *Page) liveCells(v *view) (cells, error) {
	v.Machine = p.machine(v.request.Context(), v.now, v.Trusted)
	rest, err := p.execute("page", v)
	if err != nil {
		return nil, err
	}
	found := cells{}
	attribute := []byte(` data-live="`)
	for {
		at := bytes.Index(rest, attribute)
		if at < 0 {
			return found, nil
		}
		tag, _, _ := bytes.Cut(rest[bytes.LastIndexByte(rest[:at], '<')+1:at], []byte(" "))
		name, after, _ := bytes.Cut(rest[at+len(attribute):], []byte(`"`))
		_, after, _ = bytes.Cut(after, []byte(">")) // attributes have it as &gt;
		end := endOf(after, tag)
		if end < 0 {
			return nil, fmt.Errorf("element %s of the page has no end", name)
		}
		found[html.UnescapeString(string(name))] = string(after[:end])
		rest = after[end:]
	}
}

// endOf returns where the end tag of an element is, in what follows its start tag; -1 if there is none.
func endOf(content, tag []byte) int {
	text := string(tag)
	starts, end := [][]byte{[]byte("<" + text + " "), []byte("<" + text + ">")}, []byte("</"+text+">")
	from, open := 0, 0
	for {
		at := bytes.Index(content[from:], end)
		if at < 0 {
			return -1
		}
		for _, start := range starts {
			open += bytes.Count(content[from:from+at], start)
		}
		if open == 0 {
			return from + at
		}
		open--
		from += at + len(end)
	}
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
	s := &overviewSource{page: p, listing: listingOf(query)}
	g := p.overview.find(query.Get("at"))
	if g == nil {
		g = p.rows(v.now, v.Now)
		s.loaded, s.pointed = g.list(s.listing, v.Now), g.at
		return s, nil, nil
	}
	s.loaded, s.pointed = g.list(s.listing, v.Now), g.at
	_, shown, err := s.show(v, g)
	return s, shown, err
}

// cells implements source.
func (s *overviewSource) cells(v *view) (string, cells, error) {
	return s.show(v, s.page.rows(v.now, v.Now))
}

// show makes the loaded page with the numbers of a table. Rows that have ended stay: the page is loaded again for them.
func (s *overviewSource) show(v *view, g *generation) (string, cells, error) {
	now := g.list(s.listing, v.Now)
	known := s.known(g)
	shown := *now
	shown.Groups = make([]group, 0, len(s.loaded.Groups))
	for _, loaded := range s.loaded.Groups {
		rows := make([]*row, 0, len(loaded.Rows))
		for _, r := range loaded.Rows {
			if current := known[r.Key()]; current != nil {
				r = current
			}
			rows = append(rows, r)
		}
		if loaded.Rows = rows; loaded.Head {
			loaded.sum(now.live)
		}
		shown.Groups = append(shown.Groups, loaded)
	}
	v.Template, v.Body = "overview", &shown
	c, err := s.page.liveCells(v)
	for _, r := range s.loaded.rows {
		// The small lines get points. Only one whose history was not read yet when the page was made is drawn again.
		if current := known[r.Key()]; r.Spark.whole || current == nil || !current.Spark.whole {
			delete(c, r.Key()+" spark")
		} else {
			r.Spark.whole = true
		}
	}
	return now.shape, c, err
}

// known returns the rows of a table that have not ended, by key.
func (s *overviewSource) known(g *generation) map[string]*row {
	known := make(map[string]*row, len(g.rows))
	for i := range g.rows {
		if r := &g.rows[i]; r.End == nil {
			known[r.Key()] = r
		}
	}
	return known
}

// points implements source.
func (s *overviewSource) points(v *view) *points {
	passed := v.Now.Sub(s.pointed)
	if passed < trackStep {
		return nil
	}
	s.pointed = v.Now
	known := s.known(s.page.rows(v.now, v.Now))
	p := &points{
		Step:   math.Round(1e4*float64(passed)/float64(trackSpan)) / 1e4,
		Values: make([]*float64, len(s.loaded.rows)),
	}
	for i, r := range s.loaded.rows {
		if r = known[r.Key()]; r != nil && !math.IsNaN(r.Spark.newest) {
			value := math.Round(1e4*r.Spark.newest) / 1e4
			p.Values[i] = &value
		}
	}
	return p
}

// taskSource is the live page of one task.
type taskSource struct{ page *Page }

// taskSource says what the page of a task shows if nothing was read since it was made.
func (p *Page) taskSource(v *view) (source, cells, error) {
	s := taskSource{p}
	_, shown, err := s.cells(v)
	if body, ok := v.Body.(*taskView); err != nil || !ok || body.at != v.request.URL.Query().Get("at") {
		return s, nil, nil //nolint:nilerr // the first event says that the page is gone
	}
	return s, shown, nil
}

// cells implements source.
func (s taskSource) cells(v *view) (string, cells, error) {
	if err := s.page.taskPage(v); err != nil {
		return "", nil, err
	}
	c, err := s.page.liveCells(v)
	return v.Shape, c, err
}

// points implements source: there are no small lines.
func (s taskSource) points(*view) *points { return nil }
