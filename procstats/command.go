// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Command sums the ended processes with one name, /proc/PID/comm at their end.
type Command struct {
	// Name is the kernel's: any bytes, at most 15. It is empty for the sum of others.
	Name string `json:"command"`
	// Processes have ended, Failed of them with a status other than 0: see Failures.
	Processes int64 `json:"processes"`
	Failed    int64 `json:"failed"`
	// CPUSeconds is user and system time to the last moment of each process, task_struct.se.sum_exec_runtime.
	CPUSeconds float64 `json:"cpu_seconds"`
	// RunDelaySeconds is how long they were runnable and waited for a CPU, task_struct.sched_info.run_delay; null where
	// the kernel does not count it, and for processes that ran before they were watched.
	RunDelaySeconds *float64 `json:"run_delay_seconds"`
	// PeakRSSBytes is the largest resident set of one process, signal_struct.maxrss. As an upper bound it may be that of a
	// parent: the kernel hands it on to what is executed.
	PeakRSSBytes     int64     `json:"peak_rss_bytes"`
	PeakRSSGuarantee Guarantee `json:"peak_rss_guarantee"`
	// MappedBytes is what one process had mapped of files and shared memory at least: the part of its peak for which it
	// had too few page faults to have touched it first. 0 is true of all, and said where huge pages are the rule.
	MappedBytes int64 `json:"mapped_bytes,omitempty"`
	// ReadBytes and WrittenBytes went from and to storage, as read_bytes and write_bytes of /proc/PID/io; null where the
	// kernel does not count them.
	ReadBytes    *int64 `json:"read_bytes"`
	WrittenBytes *int64 `json:"written_bytes"`
	MinorFaults  int64  `json:"minor_faults"`
	MajorFaults  int64  `json:"major_faults"`
	// Context switches.
	Voluntary   int64 `json:"voluntary_switches"`
	Involuntary int64 `json:"involuntary_switches"`
	// Failures says how they failed, the most frequent first.
	Failures []CommandFailure `json:"failures,omitempty"`
}

// CommandFailure counts the processes that failed in one way.
type CommandFailure struct {
	ExitCode  int   `json:"exit_code,omitempty"`
	Signal    int   `json:"signal,omitempty"`
	Processes int64 `json:"processes"`
}

// CompareCommands orders commands: the one with the most CPU time is the first.
func CompareCommands(a, b *Command) int {
	return cmp.Or(cmp.Compare(b.CPUSeconds, a.CPUSeconds), cmp.Compare(b.Processes, a.Processes))
}

// JoinFailures adds up how the processes of one command failed, the most frequent way first.
func JoinFailures(lists ...[]CommandFailure) []CommandFailure {
	var all []CommandFailure
	for _, list := range lists {
		for _, f := range list {
			i := slices.IndexFunc(all, func(other CommandFailure) bool {
				return other.ExitCode == f.ExitCode && other.Signal == f.Signal
			})
			if i < 0 {
				all = append(all, f)
				continue
			}
			all[i].Processes += f.Processes
		}
	}
	slices.SortFunc(all, func(a, b CommandFailure) int {
		return cmp.Or(
			cmp.Compare(b.Processes, a.Processes), cmp.Compare(a.Signal, b.Signal), cmp.Compare(a.ExitCode, b.ExitCode))
	})
	return all
}

// FailureText says how processes failed, the most frequent way first: "2 by signal 9, 1 with exit code 1"; empty if
// none did.
func (c *Command) FailureText() string {
	var ways []string
	for _, f := range c.Failures {
		way := fmt.Sprintf("%d with exit code %d", f.Processes, f.ExitCode)
		if f.Signal != 0 {
			way = fmt.Sprintf("%d by signal %d", f.Processes, f.Signal)
		}
		ways = append(ways, way)
	}
	return strings.Join(ways, ", ")
}

// Add joins what other processes used, and how they failed; the name stays.
func (c *Command) Add(other *Command) {
	c.Failures = JoinFailures(c.Failures, other.Failures)
	c.Processes += other.Processes
	c.Failed += other.Failed
	c.CPUSeconds += other.CPUSeconds
	c.RunDelaySeconds = plus(c.RunDelaySeconds, other.RunDelaySeconds)
	c.ReadBytes, c.WrittenBytes = plus(c.ReadBytes, other.ReadBytes), plus(c.WrittenBytes, other.WrittenBytes)
	if other.PeakRSSBytes > c.PeakRSSBytes {
		c.PeakRSSBytes, c.PeakRSSGuarantee = other.PeakRSSBytes, other.PeakRSSGuarantee
	}
	c.MappedBytes = max(c.MappedBytes, other.MappedBytes)
	c.MinorFaults += other.MinorFaults
	c.MajorFaults += other.MajorFaults
	c.Voluntary += other.Voluntary
	c.Involuntary += other.Involuntary
}

// plus adds numbers that may not be counted; nil counts nothing.
func plus[N int64 | float64](a, b *N) *N {
	if a == nil || b == nil {
		return b
	}
	return new(*a + *b)
}
