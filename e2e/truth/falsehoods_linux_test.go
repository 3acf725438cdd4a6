// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
)

// regressions are the trials that had a false label here once.
func regressions() []trial {
	return map[string][]trial{
		host: {
			{17, "root/half"}, // a quota in a hierarchy in which tacho made no group
			{63, "root/with"},
			{89, "root/with"}, // left its cgroup
			{62, "root/without"},
			{83, "root/without"}, // memory that is not mapped
			{80, "root/half"},
			{67, "nobody/without"}, // the largest process is not the task
			{82, "root/half"},
			{69, "root/without"}, // shared memory
			{146, "root/with"},
			{19, "root/half"},      // left its cgroup while it was read
			{143, "root/half"},     // found outside late
			{12, "nobody/without"}, // a child of vfork has its parent's memory
			{135, "root/without"},  // a program at a low address without its main thread
			// Left the group that counts CPU time, and ended in that of v2, which says how much they used.
			{36, "root/half"},
			{71, "root/with"},
			{131, "root/with"},
			{131, "root/half"},
			{4, "root/with"}, // left all groups and ended between two samples
		},
		"6.12/v2": {
			{11, "root/without"}, // a sample without any process, because a thread of the executor ended
			// Left the cgroup without its main thread, or ended elsewhere between two samples.
			{16, "root/with"},
			{16, "root/half"},
			{50, "root/with"},
			{50, "root/half"},
			{80, "root/with"},
			{80, "root/half"},
			{116, "root/with"},
			{116, "root/half"},
			{133, "root/without"},
		},
		"6.1/v1": {
			{41, "root/with"},
			{41, "root/half"},
			{42, "root/with"},
			{42, "root/half"},
			{45, "root/with"},
			{45, "root/half"},
			{73, "root/with"},
			{73, "root/half"},
			{118, "root/with"},
			{118, "root/half"},
			{125, "root/with"},
			{125, "root/half"},
		},
	}[here()]
}

const host = "host"

// here names the place: the host, or a guest.
func here() string { return cmp.Or(os.Getenv(guestVariable), host) }

// falsehoods counts false labels by kind, in each mode.
type falsehoods struct {
	mu   sync.Mutex
	rows []falseRow
}

type falseRow struct {
	mode  string
	seed  uint64
	found []falsehood
}

func (tab *falsehoods) add(m randomMode, seed uint64, found []falsehood) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.rows = append(tab.rows, falseRow{m.String(), seed, found})
}

// String is one line for each mode: its seeds, those with a false label, and the false labels by kind.
func (tab *falsehoods) String() string {
	kinds := []kind{notExact, tooHigh, tooLow, impossible, falseZero, notClosed, below0, missing, failed}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "PLACE\tMODE\tSEEDS\tFAILED")
	for _, k := range kinds {
		fmt.Fprintf(w, "\t%s", strings.ToUpper(string(k)))
	}
	fmt.Fprintln(w)
	for _, m := range randomModes() {
		count, bad, by := 0, 0, map[kind]int{}
		for _, row := range tab.rows {
			if row.mode != m.String() {
				continue
			}
			count++
			if len(row.found) > 0 {
				bad++
			}
			for _, wrong := range row.found {
				by[wrong.kind]++
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d", here(), m, count, bad)
		for _, k := range kinds {
			fmt.Fprintf(w, "\t%d", by[k])
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return b.String()
}
