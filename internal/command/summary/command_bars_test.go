// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestCommandBarsText(t *testing.T) {
	row := func(name string, n int64, cpu float64) procstats.Command {
		return procstats.Command{Name: name, Processes: n, CPUSeconds: cpu}
	}
	c := &record.Commands{
		Rows:            []procstats.Command{row("cc1", 412, 5), row("s\x1bh", 1, 2.5), row("ld", 3, 0.0625)},
		TotalCPUSeconds: new(10.0), UnattributedCPUSeconds: new(-0.5),
	}
	want := `CPU by command, all processes that ended
  cc1           ×412      5 s  ██████████   50 %
  s\x1bh          ×1    2.5 s  █████        25 %
  ld              ×3  62.5 ms  ▏           0.6 %
  unattributed        -500 ms               -5 %
`
	testkit.Diff(t, "result", want, CommandBarsText(&record.Record{Commands: c}, cli.Palette{}, 65))
	for _, none := range []*record.Commands{nil, {Reason: "no"}, {Rows: c.Rows}, {TotalCPUSeconds: new(1.0)}} {
		testkit.Equal(t, CommandBarsText(&record.Record{Commands: none}, cli.Palette{}, 65), "", "%+v", none)
	}
}

func TestFailedFirst(t *testing.T) {
	r := &record.Record{Commands: &record.Commands{Rows: []procstats.Command{
		{Name: "much", Processes: 1, CPUSeconds: 2},
		{Name: "broken", Processes: 3, Failed: 2, CPUSeconds: 1, Failures: []procstats.CommandFailure{{Signal: 9, Processes: 2}}},
	}}}
	for _, first := range []bool{false, true} {
		page := NewPage(cli.Palette{}, "run", r)
		page.FailedFirst = first
		text := page.Render(false)
		if strings.Index(text, "broken") < strings.Index(text, "much") != first ||
			!strings.Contains(text, "2 of 3 broken failed: 2 by signal 9") {
			t.Errorf("failed first %v:\n%s", first, text)
		}
	}
}
