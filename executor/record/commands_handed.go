// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Handed is what a caller that counts the ended processes of a task beside its executor hands over: for the record,
// if the caller is not there at the end, and for its successor.
type Handed struct {
	// At is until when they were counted.
	At       time.Time `json:"at"`
	Commands *Commands `json:"commands"`
}

// Until returns them for a later time, until which nothing was counted any more.
func (h *Handed) Until(end time.Time) *Commands {
	c := *h.Commands
	c.addGap(h.At, end)
	return &c
}

// Continue adds what was counted until an earlier time, and says that nothing was counted between that and the time
// from which c was.
func (c *Commands) Continue(before *Handed, from time.Time) {
	earlier := before.Until(from)
	c.Since, c.Gaps = earlier.Since, earlier.Gaps
	c.LostRecords += earlier.LostRecords
	c.Rows = joinRows(earlier.Rows, c.Rows)
	if others := earlier.Others; others != nil && c.Others != nil {
		others = new(*others)
		others.Add(c.Others)
		c.Others = others
	} else if others != nil {
		c.Others = others
	}
}

// joinRows adds up rows by command; the one with the most CPU time is the first.
func joinRows(before, now []procstats.Command) []procstats.Command {
	all := make([]procstats.Command, 0, len(before)+len(now))
	at := make(map[string]int)
	for _, rows := range [][]procstats.Command{before, now} {
		for i := range rows {
			if k, known := at[rows[i].Name]; known {
				all[k].Add(&rows[i])
				continue
			}
			at[rows[i].Name] = len(all)
			all = append(all, rows[i])
		}
	}
	slices.SortStableFunc(all, func(a, b procstats.Command) int { return procstats.CompareCommands(&a, &b) })
	return all
}

// mostGaps bounds the gaps of a record; further ones are joined with the last, and with the time between them.
const mostGaps = 16

func (c *Commands) addGap(from, to time.Time) {
	if !to.After(from) {
		return
	}
	c.Gaps = slices.Clone(c.Gaps)
	if n := len(c.Gaps); n == mostGaps {
		c.Gaps[n-1].To = to
		return
	}
	c.Gaps = append(c.Gaps, Gap{From: from, To: to})
}
