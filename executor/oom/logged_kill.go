// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package oom notices OOM kills of a task's processes, and decides whose limit was hit and which process was killed.
//
// A [Monitor] combines three sources. The kernel's notifications and counters: on cgroup version 2 it polls
// memory.events of the task and memory.events.local of the groups above it, on version 1 it registers eventfds with
// cgroup.event_control; between events no thread and no timer runs. The kernel's log, if it may be read, names the
// victim. Otherwise the victim is among the processes of the last sample that are being killed.
//
// To find out why a kill is reported as it is: monitor_linux.go decides that it happened and whose limit it was,
// victim_linux.go which process it was, and record.Diagnose whether it ended the task.
package oom

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// LogRecord is one record of /dev/kmsg, Documentation/ABI/testing/dev-kmsg.
type LogRecord struct {
	// Priority is the syslog level and facility.
	Priority int
	// Time is when it was logged, on the log's own clock: since boot, without suspended time, and not steered as
	// CLOCK_MONOTONIC is. The two drift apart by some parts in a hundred thousand.
	Time time.Duration
	// Text is the message without its dictionary.
	Text string
}

var errRecord = errors.New("not a record of /dev/kmsg")

// ParseLogRecord reads "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,more];TEXT" and passes over the dictionary lines that may
// follow, which begin with a space.
func ParseLogRecord(data []byte) (LogRecord, error) {
	head, text, found := bytes.Cut(data, []byte{';'})
	if !found {
		return LogRecord{}, fmt.Errorf("%w: no semicolon", errRecord)
	}
	var priority uint32
	var sequence, stamp uint64
	const most = uint64(1<<63-1) / uint64(time.Microsecond)
	if _, err := fmt.Sscanf(string(head), "%d,%d,%d", &priority, &sequence, &stamp); err != nil || stamp > most {
		return LogRecord{}, fmt.Errorf("%w: %q", errRecord, head)
	}
	text, _, _ = bytes.Cut(text, []byte{'\n'})
	return LogRecord{
		Priority: int(priority), Time: time.Duration(stamp) * time.Microsecond,
		Text: kernel.Unescape(string(text), `\x`, 16),
	}, nil
}

// Constraint says which memory had run out: also that of the nodes that a cpuset or a memory policy allows.
type Constraint string

const (
	// ConstraintNone is the memory of the whole machine.
	ConstraintNone Constraint = "CONSTRAINT_NONE"
	// ConstraintMemcg is the limit of a memory cgroup.
	ConstraintMemcg Constraint = "CONSTRAINT_MEMCG"
)

// LoggedKill is one process that the OOM killer ended, according to the log.
type LoggedKill struct {
	// Time is of the record that says "Killed process".
	Time time.Duration
	// PID is the number in the initial PID namespace.
	PID int
	// Command is the kernel's comm.
	Command string
	// RSS is anonymous, file and shared memory that was resident; HasRSS says whether the log has it.
	RSS    int64
	HasRSS bool
	// Constraint is empty where the kernel left out, or rate-limited, the line that has it.
	Constraint Constraint
	// OOMCgroup is the group whose limit was hit; empty for the machine's memory, and if it is not logged. TaskCgroup is
	// the killed process's own group, or one above it. Both are paths from the real root of the hierarchy.
	OOMCgroup, TaskCgroup string
	// Group is the cgroup that was killed as a whole, memory.oom.group; empty if one process was chosen.
	Group string
}

// chosen reports whether the kernel chose this very process, in a line "oom-kill:…" of its own. The others of a group
// are killed after it.
func (k LoggedKill) chosen() bool { return k.Group == "" && k.TaskCgroup != "" }

// LogParser combines the records of a log. A kill takes several: since Linux 5.0 "oom-kill:…" with the groups,
// then "… Killed process N (COMM) …" with the sizes, then, with memory.oom.group, "Tasks in … are going to be
// killed" and one "Killed process" for each. The kernel prints at most ten of the first kind in five seconds, and all
// of the others. The zero LogParser is ready for use.
type LogParser struct {
	dump *LoggedKill // from the line before "Killed process"
	// group is the cgroup that is being killed as a whole, since groupAt.
	group   string
	groupAt time.Duration
	// lastPID is the process of the last "Killed process": a group's first victim can be named again.
	lastPID int
}

// groupSpan bounds the time in which all processes of a group are killed: a later kill without an announcement is
// another one.
const groupSpan = time.Second

// Add takes the next record. ok reports that it completes a kill. Records of programs are ignored.
func (p *LogParser) Add(r LogRecord) (kill LoggedKill, ok bool) {
	if facility := r.Priority >> 3; facility != 0 {
		return LoggedKill{}, false
	}
	switch text := r.Text; {
	case strings.HasPrefix(text, "oom-kill:"):
		dump, ok := parseDump(text)
		p.dump, p.group, p.lastPID = nil, "", 0
		if ok {
			p.dump = &dump
		}
	case strings.HasPrefix(text, "Tasks in "):
		const end = " are going to be killed due to memory.oom.group set"
		group, ok := strings.CutSuffix(strings.TrimPrefix(text, "Tasks in "), end)
		if ok {
			p.group, p.groupAt = group, r.Time
		}
	default:
		kill, ok = parseKilled(text)
		if !ok {
			return LoggedKill{}, false
		}
		kill.Time = r.Time
		if r.Time-p.groupAt > groupSpan {
			p.group = ""
		}
		return p.complete(kill)
	}
	return LoggedKill{}, false
}

// complete adds what the lines before said.
func (p *LogParser) complete(kill LoggedKill) (LoggedKill, bool) {
	again := kill.PID == p.lastPID
	switch {
	case p.group != "":
		if again {
			return LoggedKill{}, false
		}
		kill.Group, kill.TaskCgroup = p.group, p.group
		if p.dump != nil {
			kill.Constraint, kill.OOMCgroup = p.dump.Constraint, p.dump.OOMCgroup
		}
	case p.dump != nil && p.dump.PID == kill.PID:
		kill.Constraint, kill.OOMCgroup, kill.TaskCgroup = p.dump.Constraint, p.dump.OOMCgroup, p.dump.TaskCgroup
		p.lastPID = kill.PID
	default:
		// The first lines of another kill are missing.
		p.dump, p.lastPID = nil, kill.PID
	}
	return kill, true
}

// parseDump reads
//
//	oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,\
//	task=tail,pid=7,uid=0
//
// with global_oom instead of oom_memcg=… if no cgroup's limit was the reason. Names of groups and processes
// may have commas in them: what surrounds them is looked for from the outside.
func parseDump(text string) (LoggedKill, bool) {
	m := dumpPattern().FindStringSubmatch(text)
	if m == nil {
		return LoggedKill{}, false
	}
	kill := LoggedKill{Constraint: Constraint(m[1]), Command: procstats.EscapeName(m[3])}
	var ok bool
	if kill.PID, ok = number(m[4]); !ok {
		return LoggedKill{}, false
	}
	var before string
	if before, kill.TaskCgroup, ok = strings.Cut(m[2], ",task_memcg="); !ok {
		return kill, true // a kernel without memory cgroups
	}
	if _, limit, ok := strings.Cut(before, ",oom_memcg="); ok {
		// Until Linux 5.1 the constraint of a cgroup could be printed as none.
		kill.OOMCgroup, kill.Constraint = limit, ConstraintMemcg
	}
	return kill, true
}

//nolint:gochecknoglobals // constant, compiled with the first kill
var dumpPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)^oom-kill:constraint=(.*?),(.*),task=(.*),pid=(\d+),uid=`)
})

// parseKilled reads
//
//	Memory cgroup out of memory: Killed process 7 (tail) total-vm:46872kB, anon-rss:44032kB, file-rss:1596kB, \
//	shmem-rss:0kB, UID:0 …
//
// "Out of memory: …" if it was the machine's, and without anything before "Killed process" up to Linux 5.0.
func parseKilled(text string) (LoggedKill, bool) {
	m := killedPattern().FindStringSubmatch(text)
	if m == nil {
		return LoggedKill{}, false
	}
	kill := LoggedKill{Command: procstats.EscapeName(m[3])}
	var ok bool
	if kill.PID, ok = number(m[2]); !ok {
		return LoggedKill{}, false
	}
	kill.RSS, kill.HasRSS = resident(m[4])
	if strings.HasPrefix(m[1], "Out of memory") {
		kill.Constraint = ConstraintNone
	}
	return kill, true
}

// killedPattern ends the name at the last parenthesis: the name may have some in it, and the sizes do not.
//
//nolint:gochecknoglobals // constant, compiled with the first kill
var killedPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)^(|.*?ut of memory.*?)Killed process (\d+) \((.*)\)(.*)$`)
})

// resident returns the sum of anon-rss, file-rss and, since Linux 4.5, shmem-rss, which are in KiB.
func resident(sizes string) (bytes int64, ok bool) {
	for field := range strings.FieldsSeq(sizes) {
		name, value, found := strings.Cut(strings.TrimSuffix(field, ","), ":")
		if !found || name != "anon-rss" && name != "file-rss" && name != "shmem-rss" {
			continue
		}
		const kibibyte, most = 1024, 1 << 50
		n, err := strconv.ParseInt(strings.TrimSuffix(value, "kB"), 10, 64)
		if err != nil || n < 0 || n > most {
			return 0, false
		}
		bytes, ok = bytes+n*kibibyte, true
	}
	return bytes, ok
}

func number(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil && n > 0
}

// In reports whether the process was in a cgroup or below it, and returns the real path of that cgroup. group is its
// path as far as it is visible: in a cgroup namespace the first part is missing.
func (k LoggedKill) In(group string) (real string, ok bool) {
	group = strings.Trim(path.Clean("/"+group), "/")
	if group == "" || k.TaskCgroup == "" {
		return "", false
	}
	inner := "/" + group + "/"
	i := strings.Index(strings.TrimSuffix(k.TaskCgroup, "/")+"/", inner)
	if i < 0 {
		return "", false
	}
	return k.TaskCgroup[:i] + strings.TrimSuffix(inner, "/"), true
}
