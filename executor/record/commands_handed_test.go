// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/procstats"
)

// TestContinue holds that what several readers have counted one after the other is added up by command, and that each
// time between two of them is stated.
func TestContinue(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0).UTC() }
	row := func(name string, n int64, ways ...procstats.CommandFailure) procstats.Command {
		c := procstats.Command{Name: name, Processes: n, CPUSeconds: float64(n), Failures: ways}
		for _, way := range ways {
			c.Failed += way.Processes
		}
		return c
	}
	killed, failed := procstats.CommandFailure{Signal: 9, Processes: 1}, procstats.CommandFailure{ExitCode: 1, Processes: 2}
	first := &Commands{
		Rows: []procstats.Command{row("cc", 5, killed), row("sh", 1)}, Others: new(row("", 4)), LostRecords: 1, Since: at(1),
		Gaps: []Gap{{at(2), at(3)}},
	}
	second := &Commands{Rows: []procstats.Command{row("ld", 6), row("cc", 4, failed, killed)}, Others: new(row("", 3)), LostRecords: 2, Since: at(20)}
	second.Continue(&Handed{At: at(10), Commands: first}, at(20))
	want := &Commands{
		Rows: []procstats.Command{
			row("cc", 9, failed, procstats.CommandFailure{Signal: 9, Processes: 2}),
			row("ld", 6), row("sh", 1),
		},
		Others: new(row("", 7)), LostRecords: 3, Since: at(1), Gaps: []Gap{{at(2), at(3)}, {at(10), at(20)}},
	}
	if d := cmp.Diff(want, second); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(first.Gaps) != 1 || first.Rows[0].Processes != 5 {
		t.Errorf("what was handed over has changed: %+v", first)
	}
	ended := (&Handed{At: at(30), Commands: second}).Until(at(40))
	if n := len(ended.Gaps); n != 3 || ended.Gaps[2] != (Gap{at(30), at(40)}) || ended.Processes() != 23 {
		t.Errorf("%d processes, gaps %v", ended.Processes(), ended.Gaps)
	}
	for i := range 3 * mostGaps {
		next := &Commands{}
		next.Continue(&Handed{At: at(100 + 10*i), Commands: ended}, at(105+10*i))
		ended = next
	}
	if n := len(ended.Gaps); n != mostGaps || ended.Gaps[n-1].To != at(105+10*(3*mostGaps-1)) || ended.Processes() != 23 {
		t.Errorf("%d processes, %d gaps: %v", ended.Processes(), n, ended.Gaps)
	}
}

// TestSetCommandsAgain holds that commands that come later replace those that were handed over before, in the rows of
// the processes too.
func TestSetCommandsAgain(t *testing.T) {
	w, s := cpuSample(10, 1)
	r := &Record{Processes: ProcessesOf(w, s, true, nil), Headline: map[string]HeadlineValue{}, Measurements: map[string]any{}}
	r.SetCommands(commandsOf(4, 1))
	if len(r.Sources) != 1 || r.Commands.Processes() != 4 || *r.Processes.UnattributedCPUSeconds != 6 {
		t.Errorf("sources %v, %d processes, %v s unattributed", r.Sources, r.Commands.Processes(), *r.Processes.UnattributedCPUSeconds)
	}
	r.SetCommands(commandsOf(9, 1))
	if len(r.Sources) != 1 || r.Commands.Processes() != 9 || *r.Processes.UnattributedCPUSeconds != 1 || r.Processes.Exited.Processes != 8 {
		t.Errorf("sources %v, %d processes, exited %+v, %v s unattributed", r.Sources, r.Commands.Processes(), r.Processes.Exited, *r.Processes.UnattributedCPUSeconds)
	}
}
