// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"cmp"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// devices writes the section on block devices; nothing if none was used, or they are not known.
func (p *Page) devices() {
	if len(p.record.Devices) == 0 {
		return
	}
	p.section("Storage by device")
	t := cli.Table{Indent: "  ", Header: []string{"DEVICE", "NUMBER", "READ", "WRITTEN", "READS", "WRITES"}, Right: []int{2, 3, 4, 5}}
	layers := false
	for _, d := range p.record.Devices {
		name := cli.Printable(cmp.Or(d.Name, procstats.NoValue))
		if d.Layer {
			name, layers = name+" *", true
		}
		t.AddTexts(name, d.Number, procstats.Bytes.Text(float64(d.ReadBytes)), procstats.Bytes.Text(float64(d.WrittenBytes)),
			procstats.None.Text(float64(d.Reads)), procstats.None.Text(float64(d.Writes)))
	}
	p.text.WriteString(t.Render(p.palette))
	if layers {
		p.line("* passes its I/O on to other devices, which count it again")
	}
}
