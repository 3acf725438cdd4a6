// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package shape makes random tasks from a seed: trees of processes that use CPU, memory and files in ways that are hard to
// account for. The same seed always gives the same task, so a process finds its own part by the seed and its path in the
// tree, and a test knows what was to be used.
package shape

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is what a step does.
type Kind string

// The kinds of steps. Memory that is not released by its step is held until the process ends.
const (
	Burn       Kind = "burn"       // keep one CPU busy for Time
	Threads    Kind = "threads"    // Count threads that keep a CPU busy for Time each
	Sleep      Kind = "sleep"      // do nothing for Time
	Churn      Kind = "churn"      // Count short-lived children, one after the other, busy for Time each
	Private    Kind = "private"    // map Size bytes of anonymous memory and touch it
	Spike      Kind = "spike"      // the same for Time only
	Mapped     Kind = "mapped"     // map Size bytes of anonymous shared memory and touch it
	Memfd      Kind = "memfd"      // write Size bytes to a memfd that is not mapped
	Shm        Kind = "shm"        // write Size bytes to a deleted file in /dev/shm that is not mapped
	Shared     Kind = "shared"     // a mapping of Size bytes that Count children touch too
	Pipes      Kind = "pipes"      // fill Count pipes
	Sockets    Kind = "sockets"    // fill Count socket pairs
	Huge       Kind = "huge"       // map Size bytes of huge pages
	Write      Kind = "write"      // write Size bytes to a new file
	Direct     Kind = "direct"     // the same past the page cache
	Store      Kind = "store"      // the same through a mapping
	Sendfile   Kind = "sendfile"   // the same by sendfile(2)
	Copy       Kind = "copy"       // the same by copy_file_range(2), of a file that is written first
	Reserve    Kind = "reserve"    // reserve Size bytes for a file, and write none of them
	Overwrite  Kind = "overwrite"  // write Size bytes over a file that was there before the task
	ReadBack   Kind = "readback"   // write and sync Size bytes, drop them from the page cache, read them again
	Escape     Kind = "escape"     // move into a cgroup beside the task's
	Nest       Kind = "nest"       // move into a cgroup of its own below the task's
	Session    Kind = "setsid"     // become a session leader
	Exec       Kind = "exec"       // execute the program again, and go on
	Leaderless Kind = "leaderless" // end the main thread, and go on in another
	Ignore     Kind = "ignore"     // ignore SIGCHLD: the kernel reaps the children
	Child      Kind = "child"      // start Process
)

// After is what becomes of a file that was written.
type After string

// What becomes of files.
const (
	Keep     After = "keep"
	Sync     After = "fsync"
	Unlink   After = "unlink"
	Truncate After = "truncate"
)

// Step is one thing that a process does.
type Step struct {
	Kind  Kind
	Size  int64
	Count int
	Time  time.Duration
	After After
	// Process is the child that is started, and Wait whether its parent waits for it before its next step.
	Process *Process
	Wait    bool
}

// Process is one process of a task.
type Process struct {
	Steps []Step
	// Daemon processes are started by a process in between that ends at once, and are in a session of their own.
	Daemon bool
	// Holds means that the process stays with all it has until the main process lets it go.
	Holds bool
	// Lingers means that it stays even then, until it is killed.
	Lingers bool
}

// Shape is a whole task.
type Shape struct {
	Seed   uint64
	Shrink int64
	Main   Process
	// Hold is how long the main process stays when all other processes are done or hold; 0 means that it ends with its last
	// step, whatever the others do.
	Hold time.Duration
	// Quota is that of a cgroup above the task's, in hundredths of a core; 0 for none.
	Quota int
	// Interval is the time between two samples.
	Interval time.Duration
	// Reaps means that the main process waits for its children at the end.
	Reaps bool
	// All selects all measurements, MaxRows limits the rows of processes, and WaitAll waits for processes that outlive main.
	All     bool
	MaxRows int
	WaitAll bool
}

// Flags are those of tacho run for the shape.
func (s Shape) Flags() []string {
	flags := []string{"--live", "never", "--interval", s.Interval.String(), "--report-interval", (4 * s.Interval).String()}
	if s.All {
		flags = append(flags, "--measurements", "all")
	}
	if s.MaxRows > 0 {
		flags = append(flags, "--max-rows", strconv.Itoa(s.MaxRows))
	}
	if s.WaitAll {
		flags = append(flags, "--wait-all")
	}
	return flags
}

// Find returns the process at a path: the numbers of the steps that lead to it, from the main process.
func (s Shape) Find(path string) (Process, error) {
	p := s.Main
	for number := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' }) {
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= len(p.Steps) || p.Steps[i].Process == nil {
			return Process{}, fmt.Errorf("no process %q in the shape of seed %d", path, s.Seed)
		}
		p = *p.Steps[i].Process
	}
	return p, nil
}

// Processes counts the processes of the shape that say what they did, the main one included.
func (s Shape) Processes() int { return s.Main.count() }

func (p Process) count() int {
	n := 1
	for _, step := range p.Steps {
		if step.Process != nil {
			n += step.Process.count()
		}
	}
	return n
}

// Files returns the files that have to be there before the task, with their sizes.
func (s Shape) Files() map[string]int64 {
	files := map[string]int64{}
	s.Main.files("", files)
	return files
}

func (p Process) files(path string, files map[string]int64) {
	for i, step := range p.Steps {
		if step.Kind == Overwrite {
			files[FileName(path, i)] = step.Size
		}
		if step.Process != nil {
			step.Process.files(Below(path, i), files)
		}
	}
}

// FileName is the name of the file that a step of the process at a path works on.
func FileName(path string, step int) string { return "f" + Below(path, step) }

// Below is the path of the process that a step of the one at a path starts.
func Below(path string, step int) string {
	return strings.TrimPrefix(fmt.Sprintf("%s.%d", path, step), ".")
}

// String describes the shape in one line.
func (s Shape) String() string {
	text := s.Main.String()
	if s.Hold > 0 {
		text += " hold " + s.Hold.String()
	}
	if s.Quota > 0 {
		text += fmt.Sprintf(" on %d %% of a core", s.Quota)
	}
	if s.Reaps {
		text += " reap"
	}
	return text + " (" + strings.Join(s.Flags(), " ") + ")"
}

func (p Process) String() string {
	words := make([]string, 0, len(p.Steps))
	for _, step := range p.Steps {
		words = append(words, step.String())
	}
	text := strings.Join(words, ", ")
	switch {
	case p.Lingers:
		text += " lingers"
	case p.Holds:
		text += " holds"
	}
	return "[" + text + "]"
}

func (s Step) String() string {
	text := string(s.Kind)
	if s.Count > 0 {
		text += fmt.Sprintf(" %d", s.Count)
	}
	if s.Size > 0 {
		text += fmt.Sprintf(" %d KiB", s.Size>>10)
	}
	if s.Time > 0 {
		text += " " + s.Time.String()
	}
	if s.After != "" && s.After != Keep {
		text += " " + string(s.After)
	}
	if s.Process == nil {
		return text
	}
	if s.Process.Daemon {
		text = "daemon"
	}
	if s.Wait {
		text += " (waited for)"
	}
	return text + s.Process.String()
}
