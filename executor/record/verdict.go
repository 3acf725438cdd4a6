// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// Verdict says how the main process ended.
type Verdict string

const (
	// Completed ended with exit code 0.
	Completed Verdict = "completed"
	// Failed ended with another exit code.
	Failed Verdict = "failed"
	// Signaled was ended by a signal that we did not send.
	Signaled Verdict = "signaled"
	// Stopped ended because we were asked to stop it.
	Stopped Verdict = "stopped"
	// TimedOut ended because its time was up.
	TimedOut Verdict = "timed_out"
	// StartFailed never ran.
	StartFailed Verdict = "start_failed"
	// ExecutorLost ended with its executor; how the main process ended is not known.
	ExecutorLost Verdict = "executor_lost"
	// Watched was not started by us: the watch has ended, and with it perhaps the processes.
	Watched Verdict = "watched"
)

// Reasons of a watch that ended because what it watched did.
const (
	ProcessEnded = "the process ended"
	GroupEmpty   = "no process was left"
)

// Scope says whose memory limit an OOM kill was about.
type Scope string

const (
	// Own is the task's own limit.
	Own Scope = "own"
	// Descendant is a limit that the task set on a cgroup of its own below.
	Descendant Scope = "descendant"
	// Ancestor is a limit on a group that the task is in together with others.
	Ancestor Scope = "ancestor"
	// HostScope is the machine's memory.
	HostScope Scope = "host"
	// AncestorOrHost is one of the two, where a cgroup namespace hides which.
	AncestorOrHost Scope = "ancestor_or_host"
)

// Diagnosis is why a task ended, with the evidence.
type Diagnosis struct {
	Verdict Verdict `json:"verdict,omitempty"`
	// Outcome is the end in one word, OOM kills included.
	Outcome Outcome `json:"outcome,omitempty"`
	// Summary is one sentence for the user, Operator what an operator wants to know beyond it; see End.
	Summary  string `json:"summary"`
	Operator string `json:"operator,omitempty"`
	// Reason says why the task was stopped, was not started or was lost; empty if no reason was given.
	Reason string `json:"reason,omitempty"`
	// AfterMain reports that the main process had ended by itself when the task was stopped.
	AfterMain bool `json:"after_main,omitempty"`
	// TimeoutSeconds is how long a task that timed out was given; 0 if it did not, or if that is not known.
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
	// ForwardedSignal is the last signal that was sent to the main process through the executor; 0 for none.
	ForwardedSignal int `json:"forwarded_signal,omitempty"`
	// Killers are programs of the host that may have sent the SIGKILL.
	Killers []string `json:"killers,omitempty"`
	OOM     OOM      `json:"oom"`
	// Forks are those that a limit on processes refused; null if none was.
	Forks *RefusedForks `json:"refused_forks,omitempty"`
	// Leftovers are how many processes of each command outlived the main process and were stopped.
	Leftovers Leftovers `json:"leftovers,omitempty"`
	// Cores are the core dumps that processes of the task have left.
	Cores []Core `json:"cores,omitempty"`
	// LastReading is what the task used when it was read last; null if nothing was sampled.
	LastReading *LastReading `json:"last_reading,omitempty"`
	// OOMKilled is what orchestrators ask: the task's own limit, or one that it set below, killed the main process,
	// or the main process failed after such a kill.
	OOMKilled bool `json:"oom_killed"`
	// Stall is one word for what the run waited for; empty where pressure could not be read.
	Stall Stall `json:"stall,omitempty"`
	// Thrashing is what memory the task waited for so long that it is memory-thrashing; null if others had the CPU
	// meanwhile, too.
	Thrashing *Thrashing `json:"thrashing,omitempty"`
	// ThrottledBy is the path of the cgroup above the task's whose CPU quota made it cpu-throttled; empty if it was the
	// task's own.
	ThrottledBy string `json:"throttled_by,omitempty"`
	// Retryable reports that another machine, or another time, could end better: the task is not at fault.
	Retryable bool `json:"retryable"`
	// Evidence are the numbers behind the sentences, by name.
	Evidence map[string]any `json:"evidence,omitempty"`
}

// Leftovers are how many processes of each command outlived the main one and were stopped.
type Leftovers map[string]int

// Text names the commands of most processes: "3 processes outlived the main process and were stopped: sleep (2), sh".
func (l Leftovers) Text() string {
	const most = 3
	names := slices.SortedFunc(maps.Keys(l), func(a, b string) int {
		return cmp.Or(cmp.Compare(l[b], l[a]), cmp.Compare(a, b))
	})
	total := 0
	for i, name := range names {
		if total += l[name]; l[name] > 1 {
			names[i] = fmt.Sprintf("%s (%d)", name, l[name])
		}
	}
	more := ""
	if len(names) > most {
		names, more = names[:most], ", ..."
	}
	return procstats.Counted(total, "process outlived the main process and was stopped: ",
		"processes outlived the main process and were stopped: ") + strings.Join(names, ", ") + more
}

// Core is a core dump.
type Core struct {
	// Path is the file, and Bytes its size; empty if it was not found.
	Path  string `json:"path,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	// Handler is the program that the kernel has handed it to.
	Handler string `json:"handler,omitempty"`
}

// Text names the core dump with its size.
func (c Core) Text() string {
	switch {
	case c.Handler != "":
		return "core dump handed to " + strconv.QuoteToGraphic(procstats.RawName(c.Handler))
	case c.Path == "":
		return "core dump, which was not found"
	}
	return fmt.Sprintf("core dump %s of %s", strconv.QuoteToGraphic(procstats.RawName(filepath.Base(c.Path))),
		procstats.Bytes.Text(float64(c.Bytes)))
}

// OOM is what is known of OOM kills during the run. It is kept apart from the verdict: a task can complete
// although a child of it was killed.
type OOM struct {
	// Kills counts the killed processes, or, where Group is set, how often a whole cgroup was killed. It is null
	// where it could not be counted; Reason says why.
	Kills *int64 `json:"kills"`
	// Group reports that memory.oom.group was on: the kernel's counter is not the number of processes then.
	Group bool `json:"group,omitempty"`
	// Main reports that a kill ended the main process.
	Main bool `json:"main,omitempty"`
	// Scope and Victim are of the kill that ended the main process, else of the last one.
	Scope  Scope   `json:"scope,omitempty"`
	Victim *Victim `json:"victim"`
	Reason string  `json:"reason,omitempty"`
	// Notices are the kills one by one, as they were noticed; of very many some are summed up.
	Notices []Kill `json:"notices,omitempty"`
}

// RefusedForks are forks and clones that failed with EAGAIN because of a limit on processes and threads.
type RefusedForks struct {
	Count int64 `json:"count"`
	// Limit is that of the task's own cgroup; null if it has none: the limit is that of a cgroup above.
	Limit *int64 `json:"limit"`
}

// Thrashing is how long a task waited for memory, at a limit of its own or at those of others.
type Thrashing struct {
	WaitedSeconds float64 `json:"waited_seconds"`
	SpanSeconds   float64 `json:"span_seconds"`
	// Limit is the limit of its own that the task met, and LimitBytes its size; empty if it met none.
	Limit      MemoryLimit `json:"limit,omitempty"`
	LimitBytes int64       `json:"limit_bytes,omitempty"`
}

// MemoryLimit is one of the limits of a cgroup.
type MemoryLimit string

// What the kernel does at the first is kill, at the second slow down.
const (
	MemoryMax  MemoryLimit = "memory limit"
	MemoryHigh MemoryLimit = "memory.high"
)

// remedy says what can be done, without a number to try: that of the advice rests on more than this run.
func (t *Thrashing) remedy() string {
	waited := procstats.Seconds.Text(t.WaitedSeconds) + " of " + procstats.Seconds.Text(t.SpanSeconds)
	if t.Limit == "" {
		return "A parent cgroup or the host has too little memory for its tasks: this one waited for memory for " + waited
	}
	return fmt.Sprintf("Raise the task's %s of %s or reduce its memory use: it waited for memory for %s", t.Limit,
		procstats.Bytes.Text(float64(t.LimitBytes)), waited)
}

// LastReading is the last sample of a task that had a process. A number that was not measured is null.
type LastReading struct {
	// AgeSeconds is how long before the task's end it was.
	AgeSeconds  float64  `json:"age_seconds"`
	MemoryBytes *float64 `json:"memory_bytes"`
	Cores       *float64 `json:"cpu_cores"`
}

// Victim is a process that the OOM killer killed.
type Victim struct {
	// Chosen reports that the kernel's log names it as the one that was chosen: of a cgroup that is killed as a
	// whole, the others are killed with it.
	Chosen bool `json:"-"`
	PID    int  `json:"pid"`
	// Namespace is "host" where PID is a number of the host's PID namespace and the executor lives in another one,
	// in which it cannot be translated any more; empty where PID is the executor's own view.
	Namespace string `json:"pid_namespace,omitempty"`
	Command   string `json:"command"`
	// RSSBytes is its last known resident memory; null where not known.
	RSSBytes *int64 `json:"rss_bytes"`
	// Source is FromKmsg or FromSample.
	Source string `json:"source"`
}

// Sources of a victim.
const (
	// FromKmsg is the kernel's log.
	FromKmsg = "kmsg"
	// FromSample is the last sample: a process in it that was gone after the kill.
	FromSample = "last sample"
)

// Stall is one word for what a run waited for.
type Stall string

const (
	// CPUStarved runs waited for a CPU that others had.
	CPUStarved Stall = "cpu-starved"
	// CPUThrottled runs were held back by a quota: their own, or that of a cgroup above.
	CPUThrottled Stall = "cpu-throttled"
	// MemoryThrashing runs waited for memory to be reclaimed or read back.
	MemoryThrashing Stall = "memory-thrashing"
	// IOBound runs waited for block I/O.
	IOBound Stall = "io-bound"
	// Idle runs neither used nor waited.
	Idle Stall = "idle"
	// Fine runs used what they needed.
	Fine Stall = "fine"
)
