// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package shape

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Report is what one process says of itself when its steps are done.
type Report struct {
	Path string `json:"path"`
	// CPU is the process's own clock.
	CPU time.Duration `json:"cpu"`
	// Held is memory that a cgroup is charged for and the process holds on to; Sockets and Huge are in none.
	Held    int64 `json:"held,omitempty"`
	Sockets int64 `json:"sockets,omitempty"`
	Huge    int64 `json:"huge,omitempty"`
	// Lasting is held by children of the process until the main one lets them go.
	Lasting int64 `json:"lasting,omitempty"`
	// Most is the largest Held and Lasting there was.
	Most int64 `json:"most,omitempty"`
	// Handed is what was written to files in a file system on a disk, by any way; Stored is the part that was on the disk
	// when the system call returned, and Dropped the part that was deleted first.
	Handed  int64 `json:"handed,omitempty"`
	Stored  int64 `json:"stored,omitempty"`
	Dropped int64 `json:"dropped,omitempty"`
	// Read is what system calls moved from files; Loaded is the part that came from the disk.
	Read   int64 `json:"read,omitempty"`
	Loaded int64 `json:"loaded,omitempty"`
	// Before is the CPU time of the main process before it moved to the meter, Moving what it used to move, Brought the
	// memory that it had then, and Offset how much more than the task's own cgroup the one above was charged then.
	Before  time.Duration `json:"before,omitempty"`
	Moving  time.Duration `json:"moving,omitempty"`
	Brought int64         `json:"brought,omitempty"`
	Offset  int64         `json:"offset,omitempty"`
	// Inner is the time from the main process's first step to its last. HeldFrom and HeldTo are when all others were done,
	// and when the main process let go, on the monotonic clock.
	Inner    time.Duration `json:"inner,omitempty"`
	HeldFrom time.Duration `json:"held_from,omitempty"`
	HeldTo   time.Duration `json:"held_to,omitempty"`
	// Done means that the process was there when all were done, in the hold of the main process.
	Done bool `json:"done,omitempty"`
}

// Parse reads what all processes of a task reported.
func Parse(text string) ([]Report, error) {
	var all []Report
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var r Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("parse report %q: %w", lines.Text(), err)
		}
		all = append(all, r)
	}
	return all, nil
}
