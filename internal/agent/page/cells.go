// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
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

// overviewSource finds the table that the page was made from. The tasks of the live page are those that the page had
// when it was loaded. If they are sorted by a number, the script moves them as it changes.
func (p *Page) overviewSource(v *view) (source, cells, error) {
	query := v.request.URL.Query()
	l := listingOf(query)
	g := p.overview.find(query.Get("at"))
	remembered := g != nil
	if !remembered {
		g = p.rows(v.now, v.Now)
	}
	groups := g.list(l, v.Now).Groups
	now := func(v *view) (string, cells, error) {
		return p.loadedCells(v, groups, p.rows(v.now, v.Now), l)
	}
	if !remembered {
		return now, nil, nil
	}
	_, shown, err := p.loadedCells(v, groups, g, l)
	return now, shown, err
}

// loadedCells makes the page with the groups that were loaded and the numbers of a table. Rows that have ended stay:
// the page is loaded again for them.
func (p *Page) loadedCells(v *view, groups []group, g *generation, l listing) (string, cells, error) {
	known := make(map[string]*row, len(g.rows))
	for i := range g.rows {
		if r := &g.rows[i]; r.End == nil {
			known[r.Key()] = r
		}
	}
	shown := g.list(l, v.Now)
	shown.Groups = make([]group, 0, len(groups))
	for _, loaded := range groups {
		rows := make([]*row, 0, len(loaded.Rows))
		for _, r := range loaded.Rows {
			rows = append(rows, cmp.Or(known[r.Key()], r))
		}
		if loaded.Rows = rows; loaded.Head {
			loaded.sum(shown.live)
		}
		shown.Groups = append(shown.Groups, loaded)
	}
	if shown.Order != "" && len(groups) > 0 && !shown.reorder() {
		shown.shape += " outdated"
	}
	v.Template, v.Body = "overview", shown
	c, err := p.liveCells(v)
	return shown.shape, c, err
}

// taskSource says what the page of a task shows if nothing was read since it was made.
func (p *Page) taskSource(v *view) (source, cells, error) {
	now := func(v *view) (string, cells, error) {
		if err := p.taskPage(v); err != nil {
			return "", nil, err
		}
		c, err := p.liveCells(v)
		return v.Shape, c, err
	}
	_, shown, err := now(v)
	if body, ok := v.Body.(*taskView); err != nil || !ok || body.at != v.request.URL.Query().Get("at") {
		return now, nil, nil //nolint:nilerr // the first event says that the page is gone
	}
	return now, shown, nil
}
