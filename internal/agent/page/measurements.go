// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import "github.com/tachograph/tacho/procstats"

// measurement is a row of the table as the page shows it.
type measurement struct {
	procstats.Measurement
	Guarantee string
}

// measurementsPage fills the page of everything that can be measured.
func (p *Page) measurementsPage(v *view) error {
	var rows []measurement
	for _, m := range procstats.Table() {
		words := guaranteeWords(m.Guarantee)
		if m.Scope == procstats.HeadlineScope {
			words = "that of what it is taken from, given with each value"
		}
		rows = append(rows, measurement{m, words})
	}
	v.Title, v.Template, v.Body = "Measurements", "measurements", rows
	return nil
}
