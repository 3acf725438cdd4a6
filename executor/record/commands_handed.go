// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// handedFile is in an executor's directory.
const handedFile = "commands.json"

// Handed is what a caller that counts the ended processes of a task beside its executor leaves in the executor's
// directory: for the record, if the caller is not there at the end, and for the caller's successor.
type Handed struct {
	// At is until when they were counted.
	At       time.Time `json:"at"`
	Commands *Commands `json:"commands"`
}

// Write replaces what is in the directory.
func (h *Handed) Write(dir string) error {
	text, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode commands: %w", err)
	}
	path := filepath.Join(dir, handedFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write commands: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write commands: %w", err)
	}
	return nil
}

// ReadHanded reads it. The error wraps fs.ErrNotExist if there is none.
func ReadHanded(dir string) (*Handed, error) {
	path := filepath.Join(dir, handedFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read commands: %w", err)
	}
	h := &Handed{Commands: &Commands{}}
	if err := json.Unmarshal(text, h); err != nil {
		return nil, fmt.Errorf("read commands: %s: %w", path, err)
	}
	return h, nil
}

// Until returns them for a time up to which nobody has counted any more.
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
