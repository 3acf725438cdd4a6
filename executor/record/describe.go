// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// Outcome is how a task ended, in one word: the verdict, unless an OOM kill ended the main process.
type Outcome string

// OOMKilled is the outcome of a task whose main process, or the cgroup with it, was the victim of an OOM killer.
const OOMKilled Outcome = "oom-killed"

// Success reports whether the main process did what it was started for.
func (o Outcome) Success() bool { return o == Outcome(Completed) || o == Outcome(Watched) }

// End says how a task ended, in the words that every surface shows. No command line is in it.
type End struct {
	Outcome Outcome
	// Summary is one sentence: "Killed: out of memory (limit 48 MiB, peak 48 MiB)".
	Summary string
	// OOM says what OOM killers did, and to whom; empty if there was no kill.
	OOM string
	// LastReading is what the task used when it was read last, for every end but a success: "3.1 s before: 1.9 GiB,
	// 0.98 cores". It is empty if nothing was sampled.
	LastReading string
	// Remedy says what can be done; empty if nothing can.
	Remedy string
}

// Operator returns what an operator wants to know beyond the summary; empty if that is nothing.
func (e End) Operator() string { return Join(". ", e.LastReading, e.Remedy) }

// End describes how the task ended, from the facts of the record; its sentences are empty while the task runs.
func (r *Record) End() End {
	d := &r.Diagnosis
	if d.Verdict == "" {
		if r.State == Lost {
			return End{Summary: "Lost: the executor is gone and has not completed the record"}
		}
		return End{}
	}
	t := describer{d: d}
	if r.ExitCode != nil {
		t.exitCode = *r.ExitCode
	}
	if r.Signal != nil {
		t.signal = *r.Signal
	}
	end := t.end()
	if d.Outcome == "" && d.Summary != "" { // a version that kept the sentences and not all of their facts
		end.Summary, end.Remedy = d.Summary, d.Operator
	}
	end.Summary += CauseNote(r.Cause)
	return end
}

// CauseNote says on whose account a task ended, behind how it did; empty if on its own.
func CauseNote(cause string) string {
	switch cause {
	case "operator":
		return ", on request"
	case "host":
		return ", on the host's account"
	}
	return ""
}

// describer puts a diagnosis into words.
type describer struct {
	d                *Diagnosis
	exitCode, signal int
}

func (t describer) end() End {
	kill := decisive(t.d.OOM.Notices)
	end := End{Outcome: Outcome(t.d.Verdict), Summary: t.summary(kill), OOM: t.d.OOM.text(), Remedy: t.remedy(kill)}
	if t.killedMain(kill) {
		end.Outcome = OOMKilled
	}
	if !end.Outcome.Success() {
		end.LastReading = t.d.LastReading.text()
	}
	return end
}

// killedMain reports that a kill ended the main process; earlier versions said so of single kills only.
func (t describer) killedMain(kill *Kill) bool { return kill != nil && (t.d.OOM.Main || kill.Main) }

func (t describer) summary(kill *Kill) string {
	killed := t.killedMain(kill) && t.d.Verdict == Signaled
	text := t.verdict()
	if killed {
		text = "Killed: " + kill.cause()
	}
	switch forks := t.d.Forks.text(); {
	case forks == "":
	case !killed && (t.d.Verdict == Failed || t.d.Verdict == Signaled):
		text += " after " + forks
	default:
		text += "; " + forks
	}
	if killed {
		return text
	}
	switch kills := t.d.OOM.Kills; {
	case kills == nil:
	case kill != nil:
		text += "; " + t.killed(*kills) + kill.cause()
	case *kills > 0:
		text += "; " + KillsText(*kills)
	}
	if len(t.d.Leftovers) > 0 && t.d.Verdict != Stopped && t.d.Verdict != TimedOut { // there it is the rest of the end
		text += "; " + t.d.Leftovers.Text()
	}
	if n := len(t.d.Cores); n > 0 {
		text += "; " + t.d.Cores[0].Text()
		if n > 1 {
			text += fmt.Sprintf(", and %d more", n-1)
		}
	}
	return text
}

// verdict says how the main process ended.
func (t describer) verdict() string {
	switch t.d.Verdict {
	case Completed:
		return "Completed with exit code 0"
	case Failed:
		return fmt.Sprintf("Failed with exit code %d", t.exitCode)
	case Signaled:
		return "Terminated by signal " + signalName(t.signal) + t.sender()
	case Stopped:
		if t.d.Reason != "" {
			return "Stopped because " + t.d.Reason + t.escalation()
		}
		return "Stopped on request" + t.escalation()
	case TimedOut:
		if after := t.d.TimeoutSeconds; after > 0 {
			return "Timed out after " + procstats.Seconds.Text(after) + t.escalation()
		}
		return "Timed out" + t.escalation()
	case Watched:
		return "Watched until " + t.d.Reason
	case StartFailed:
		return Join(": ", "Start failed", t.d.Reason)
	case ExecutorLost:
		return "Executor lost: " + cmp.Or(t.d.Reason, "how the main process ended is not known")
	}
	return ""
}

// escalation says that a main process which did not exit when it was asked to was killed, and how it had ended if only
// what it left behind was stopped.
func (t describer) escalation() string {
	switch {
	case !t.d.AfterMain && t.signal == sigkill && t.d.ForwardedSignal != sigkill && !t.d.OOM.Main:
		return ", and killed because it did not exit in time"
	case !t.d.AfterMain:
		return ""
	case t.signal != 0:
		return "; the main process had been terminated by signal " + signalName(t.signal) + " before"
	case t.exitCode != 0:
		return fmt.Sprintf("; the main process had failed with exit code %d before", t.exitCode)
	}
	return "; the main process had completed with exit code 0 before"
}

// sender says what is known of who sent the signal. Of a SIGKILL the sender is unknown; only we and the kernel can be
// excluded.
func (t describer) sender() string {
	switch {
	case t.d.ForwardedSignal == t.signal:
		return ", forwarded on request"
	case t.signal != sigkill:
		return ""
	case t.d.OOM.Kills == nil:
		return "; it is not known whether the OOM killer sent it: " + t.d.OOM.Reason
	}
	text := ", not by the kernel's OOM killer"
	if len(t.d.Killers) > 0 {
		text += "; " + strings.Join(t.d.Killers, " and ") + " may have sent it"
	}
	return text
}

// text says what forks were refused; empty for none.
func (f *RefusedForks) text() string {
	if f == nil {
		return ""
	}
	text := procstats.Counted(f.Count, "fork was", "forks were") + " refused by "
	if f.Limit == nil {
		return text + "the pids limit of a parent cgroup"
	}
	return text + fmt.Sprintf("the pids limit of %d", *f.Limit)
}

// killed counts what the OOM killer did, if the main process ended otherwise; the cause of the last kill follows it.
func (t describer) killed(kills int64) string {
	switch o := t.d.OOM; {
	case o.Main && kills == 1:
		return "the main process was killed: "
	case o.Group && kills == 1:
		return "a whole cgroup was killed: "
	case o.Group:
		return fmt.Sprintf("%d OOM kills, some of whole cgroups, last cause: ", kills)
	case kills == 1 && o.Victim != nil:
		return "process " + o.Victim.label() + " was killed: "
	case kills == 1:
		return "a process was killed: "
	}
	return fmt.Sprintf("%d processes were killed, last cause: ", kills)
}

func (t describer) remedy(kill *Kill) string {
	if kill == nil {
		if t.d.Verdict == Signaled && t.signal == sigkill && t.d.ForwardedSignal != sigkill {
			const senders = "a CPU time limit (ulimit -t) or timeout -s KILL in the command, a person, a supervisor or " +
				"a user-space OOM killer"
			if t.d.OOM.Kills == nil {
				return "Look for an OOM kill in the kernel's log; others that send SIGKILL are " + senders
			}
			return "Look for who sent SIGKILL: " + senders
		}
		switch {
		case t.d.Forks != nil:
			return "Raise the limit on processes or start fewer of them at once; threads count too"
		case t.d.Thrashing != nil:
			return t.d.Thrashing.remedy()
		}
		return ""
	}
	cgroup := ""
	if kill.Where != "" {
		cgroup = " (" + kill.Where + ")"
	}
	try := ""
	if kill.Scope == Own && kill.LimitBytes != nil {
		try = fmt.Sprintf(" (try %d MiB)", nextLimit(float64(*kill.LimitBytes)))
	}
	return strings.NewReplacer(" CGROUP", cgroup, " TRY", try).Replace(kill.Scope.words().remedy)
}

// scopeWords are what is said of kills: the cause follows "killed: ", at follows their number, and in the remedy CGROUP
// stands for the group with the limit, TRY for the next limit to try.
type scopeWords struct{ cause, at, remedy string }

// words returns what is said of kills of a scope; the zero scope is of a driver that says no more.
func (s Scope) words() scopeWords {
	switch s {
	case Own:
		return scopeWords{
			"out of memory", " at the task's own limit",
			"Raise the task's memory limit TRY or reduce its memory use: with the same limit it will end the same way",
		}
	case Descendant:
		return scopeWords{
			"out of memory at a limit set inside the task", " at a limit set inside the task",
			"The limit is set inside the task CGROUP: change it there",
		}
	case Ancestor:
		return scopeWords{
			"out of memory in a parent cgroup shared with other tasks", " at the limit of a parent cgroup",
			"Raise the memory limit of the parent cgroup CGROUP or run fewer tasks in it",
		}
	case HostScope:
		return scopeWords{
			"the host ran out of memory", " because the host ran out of memory",
			"The host is overcommitted: move tasks away, lower their limits or add memory",
		}
	case AncestorOrHost:
		return scopeWords{
			"a parent cgroup or the host ran out of memory",
			" at the limit of a parent cgroup, or because the host ran out of memory",
			"A parent cgroup or the host has too little memory for its tasks; a cgroup namespace hides which",
		}
	}
	return scopeWords{"out of memory", "", "Compare the task's memory limit and the host's memory with what the task uses"}
}

// cause says whose memory a kill was about: it follows "killed: ".
func (k *Kill) cause() string {
	words, peak := k.Scope.words(), "task peak"
	text := words.cause
	if k.Scope == Own {
		peak = "peak"
		if k.LimitBytes == nil {
			text += words.at
		}
	}
	var numbers []string
	if k.LimitBytes != nil {
		numbers = append(numbers, "limit "+procstats.Bytes.Text(float64(*k.LimitBytes)))
	}
	if k.PeakBytes != nil {
		numbers = append(numbers, peak+" "+procstats.Bytes.Text(float64(*k.PeakBytes)))
	}
	if len(numbers) > 0 {
		text += " (" + strings.Join(numbers, ", ") + ")"
	}
	return text
}

// Sentence says in one sentence what a kill did, for the journal while the task runs.
func (k *Kill) Sentence() string {
	var text string
	victim := k.Victim()
	switch {
	case k.Main && victim != nil && victim != &k.Victims[0]:
		text = "Main process " + k.Victims[0].label() + " was killed with its cgroup, of which the kernel chose " +
			victim.label() + ": "
	case k.Main && len(k.Victims) > 0:
		text = "Main process " + k.Victims[0].label() + " was killed: "
	case k.Group:
		text = "A whole cgroup of the task was killed: "
	case k.Kills > 1 && len(k.Victims) > 0:
		text = fmt.Sprintf("%d processes were killed, %s among them: ", k.Kills, k.Victims[0].label())
	case k.Kills > 1:
		text = fmt.Sprintf("%d processes were killed: ", k.Kills)
	case len(k.Victims) > 0:
		text = "Process " + k.Victims[0].label() + " was killed: "
	default:
		text = "A process of the task was killed: "
	}
	text += k.cause()
	if k.Others {
		text += "; the main process is still running"
	}
	return text
}

// text says what OOM killers did: "1 OOM kill at the task's own limit: sh[9551], 49.3 MiB resident (kernel log)".
func (o *OOM) text() string {
	if o.Kills == nil || *o.Kills == 0 {
		return ""
	}
	text := KillsText(*o.Kills) + o.Scope.words().at
	v := o.Victim
	if v == nil {
		return text
	}
	text += ": " + v.label()
	if v.RSSBytes != nil {
		text += ", " + procstats.Bytes.Text(float64(*v.RSSBytes)) + " resident"
	}
	if v.Source == FromKmsg {
		return text + " (kernel log)"
	}
	return text + " (" + v.Source + ")"
}

// KillsText counts OOM kills.
func KillsText(kills int64) string { return procstats.Counted(kills, "OOM kill", "OOM kills") }

// text is empty for no reading, and for one without a number.
func (l *LastReading) text() string {
	if l == nil {
		return ""
	}
	var used []string
	if l.MemoryBytes != nil {
		used = append(used, procstats.Bytes.Text(*l.MemoryBytes))
	}
	if l.Cores != nil {
		used = append(used, procstats.Cores.Text(*l.Cores))
	}
	if len(used) == 0 {
		return ""
	}
	return procstats.Seconds.Text(l.AgeSeconds) + " before: " + strings.Join(used, ", ")
}

// StallText is the word for what the run waited for, with the cgroup above it that throttled it: "cpu-throttled by
// /batch".
func (d *Diagnosis) StallText() string {
	return Join(" by ", string(d.Stall), d.ThrottledBy)
}

// label is the command and the number, as in php-fpm[79699].
func (v *Victim) label() string { return fmt.Sprintf("%s[%d]", v.Command, v.PID) }

// signalName writes a signal of Linux as people know it: 9 (SIGKILL), 37 (SIGRTMIN+3).
func signalName(number int) string {
	if names := signalNames(); number > 0 && number < len(names) && names[number] != "" {
		return fmt.Sprintf("%d (SIG%s)", number, names[number])
	}
	return fmt.Sprint(number)
}

// ParseSignal reads a signal of Linux, such as TERM, SIGTERM, 15, SIGRTMIN+3 or SIGRTMAX-1, signal(7); ok is false for
// anything else.
func ParseSignal(word string) (number int, ok bool) {
	word = strings.ToUpper(strings.TrimSpace(word))
	name := strings.TrimPrefix(word, "SIG")
	others := map[string]string{"IOT": "ABRT", "CLD": "CHLD", "POLL": "IO", "RTMIN+0": "RTMIN", "RTMAX": "RTMAX-0"}
	name = cmp.Or(others[name], name)
	if i := slices.Index(signalNames(), name); i > 0 && name != "" {
		return i, true
	}
	if below, found := strings.CutPrefix(name, "RTMAX-"); found {
		number, err := strconv.ParseUint(below, 10, 8)
		return lastRealtime - int(number), err == nil && number <= lastRealtime-firstRealtime
	}
	number, err := strconv.Atoi(word)
	return number, err == nil && number > 0 && number <= lastRealtime
}

// The realtime signals. The C library keeps 32 and 33 for its threads.
const firstRealtime, lastRealtime = 34, 64

func signalNames() []string {
	names := []string{
		1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
		11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP",
		20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH",
		29: "IO", 30: "PWR", 31: "SYS", firstRealtime: "RTMIN",
	}
	for number := firstRealtime + 1; number <= lastRealtime; number++ {
		names = append(names, fmt.Sprintf("RTMIN+%d", number-firstRealtime))
	}
	return names
}

// RetryReason says why another start may end better; empty unless the diagnosis is retryable.
func (d *Diagnosis) RetryReason() string {
	if !d.Retryable {
		return ""
	}
	return (&Kill{Scope: d.OOM.Scope}).cause()
}
