// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

// cellsPerRow is how many cells of a row change.
const cellsPerRow = 7

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

// overviewCells are the cells of the page of all tasks.
func (p *Page) overviewCells(v *view) (string, cells, error) {
	if err := p.overviewPage(v); err != nil {
		return "", nil, err
	}
	o, _ := v.Body.(overview)
	list := []cell{{"machine", "machine", p.machine(v.request.Context(), v.now, v.Trusted)}}
	for i := range o.Rows {
		r := &o.Rows[i]
		list = append(list,
			cell{r.Key + " state", "state", r}, cell{r.Key + " cpu", "number", r.CPU}, cell{r.Key + " spark", "spark", r.Spark},
			cell{r.Key + " memory", "memory", r.Memory}, cell{r.Key + " io", "io", r},
			cell{r.Key + " pressure", "pressure", r.Pressure}, cell{r.Key + " age", "age", r.Age},
		)
	}
	rendered, err := p.renderCells(list)
	return v.Shape, rendered, err
}

// taskCells are the cells of the page of one task.
func (p *Page) taskCells(v *view) (string, cells, error) {
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
		list = append(list, cell{"age", "age", b.Age})
		for _, f := range b.Figures {
			list = append(list, cell{"figure-" + f.Key, "figure", f})
		}
		list = append(list, cell{"pressure", "pressure-figure", b.Pressure}, cell{"memory-bar", "memory-bar", b.Memory},
			cell{"processes", "processes", b})
		for _, m := range b.Measurements {
			list = append(list, cell{"m " + m.Name, "number", m.Value})
		}
	}
	for _, c := range b.Charts {
		list = append(list, cell{c.Key, "chart", c})
	}
	list = append(list, cell{"happened", "happened", b})
	rendered, err := p.renderCells(list)
	return v.Shape, rendered, err
}
