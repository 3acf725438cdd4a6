// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// mostNames is how many names of processes an error lists.
const mostNames = 50

// processOf returns the name of the processes whose rows a request asks for with ?process=NAME; empty for all.
func processOf(r *http.Request) string { return r.URL.Query().Get("process") }

// onlyProcess leaves the rows of the processes with a name. Samples are shared: it changes copies.
func onlyProcess(u *figures.Figures, process string) *figures.Figures {
	if u.Sample == nil {
		return u
	}
	some, sample := *u, *u.Sample
	sample.Processes = named(sample.Processes, process)
	some.Sample = &sample
	return &some
}

// named returns the rows of the processes with a name.
func named(rows []procstats.ProcessRow, process string) []procstats.ProcessRow {
	var some []procstats.ProcessRow
	for i := range rows {
		if rows[i].Command == process {
			some = append(some, rows[i])
		}
	}
	return some
}

// processNames are the names of the processes that were read, to tell a name that is not among them.
type processNames struct {
	read  bool
	names map[string]bool
}

// add notes the rows of one reading.
func (p *processNames) add(rows []procstats.ProcessRow) {
	if p.names == nil {
		p.names = map[string]bool{}
	}
	p.read = true
	for i := range rows {
		if rows[i].Command != "" { // a driver of others gives none
			p.names[rows[i].Command] = true
		}
	}
}

// addPoint notes the processes of a past reading.
func (p *processNames) addPoint(point *series.Point) {
	if point.Gap == series.NoGap {
		p.add(point.Processes)
	}
}

// check rejects a name that no process has. If nothing was read, no name is known.
func (p *processNames) check(process string) error {
	if process == "" || !p.read || p.names[process] {
		return nil
	}
	if len(p.names) == 0 {
		return notFound(fmt.Sprintf("no process named %q: there are no rows of processes", process))
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p.names)) {
		list = append(list, fmt.Sprintf("%q", name)) // a process chooses its name: it can contain anything
	}
	if more := len(list) - mostNames; more > 0 {
		list = append(list[:mostNames], fmt.Sprintf("%d more", more))
	}
	return notFound(fmt.Sprintf("no process named %q; known names: %s", process, strings.Join(list, ", ")))
}
