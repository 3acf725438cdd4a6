// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"fmt"
	"strings"

	"github.com/tachograph/tacho/procstats"
)

// telling puts a diagnosis into sentences.
type telling struct {
	e          Evidence
	d          *Diagnosis
	kill       *Kill // the decisive one, nil for none
	killedMain bool
}

// user returns the sentence for whoever started the task.
func (t telling) user() string {
	if t.killedMain && t.d.Verdict == Signaled {
		return "killed by the kernel's OOM killer " + t.kill.why()
	}
	text := t.ending()
	if t.kill != nil && t.d.OOM.Kills != nil {
		text += fmt.Sprintf("; %s %s", t.killed(), t.kill.why())
	}
	return text
}

func (t telling) ending() string {
	switch t.d.Verdict {
	case Completed:
		return "completed with exit code 0"
	case Failed:
		return fmt.Sprintf("failed with exit code %d", t.e.ExitCode)
	case Signaled:
		return "ended by signal " + signalName(t.e.Signal) + t.sender()
	case Stopped:
		if t.e.Reason != "" {
			return "stopped because " + t.e.Reason + t.before()
		}
		return "stopped on request" + t.before()
	case TimedOut:
		return "stopped because its time was up" + t.before()
	case StartFailed:
		if t.e.Reason != "" {
			return "could not be started: " + t.e.Reason
		}
		return "could not be started"
	case ExecutorLost:
		return "lost its executor; how the main process ended is not known"
	}
	return ""
}

// before says how the main process had ended where only what it left behind was stopped, and that it was killed where
// it did not end when it was asked to.
func (t telling) before() string {
	switch {
	case !t.e.AfterMain && t.e.Signal == sigkill && t.e.PassedOn != sigkill && !t.killedMain:
		return ", and killed before it had ended by itself"
	case !t.e.AfterMain:
		return ""
	case t.e.Signal != 0:
		return "; the main process had ended by signal " + signalName(t.e.Signal) + " before"
	case t.e.ExitCode != 0:
		return fmt.Sprintf("; the main process had failed with exit code %d before", t.e.ExitCode)
	}
	return "; the main process had completed with exit code 0 before"
}

// sender says of a SIGKILL where it did not come from; nobody can say where it did.
func (t telling) sender() string {
	switch {
	case t.e.PassedOn == t.e.Signal:
		return ", passed on for somebody who asked"
	case t.e.Signal != sigkill:
		return ""
	case t.d.OOM.Kills == nil:
		return "; whether the kernel's OOM killer sent it is not known: " + t.d.OOM.Reason
	}
	text := ", which the kernel's OOM killer did not send"
	if len(t.e.Killers) > 0 {
		text += "; " + strings.Join(t.e.Killers, " and ") + " may have: it runs here"
		if len(t.e.Killers) > 1 {
			text = strings.TrimSuffix(text, "it runs here") + "they run here"
		}
	}
	return text
}

// killed counts what the OOM killer did.
func (t telling) killed() string {
	kills := *t.d.OOM.Kills
	switch {
	case t.killedMain && kills == 1:
		return "the main process was killed by the kernel's OOM killer"
	case t.d.OOM.Group && kills == 1:
		return "a whole cgroup was killed by the kernel's OOM killer"
	case t.d.OOM.Group:
		return fmt.Sprintf("%d OOM kills, of whole cgroups among them, came", kills)
	case kills == 1 && t.d.OOM.Victim != nil:
		return t.d.OOM.Victim.name() + " was killed by the kernel's OOM killer"
	case kills == 1:
		return "a process was killed by the kernel's OOM killer"
	}
	return fmt.Sprintf("%d processes were killed by the kernel's OOM killer, the last", kills)
}

// why says whose memory a kill was about: it follows "was killed".
func (k *Kill) why() string {
	limit := ""
	if k.LimitBytes != nil {
		limit = " of " + procstats.Bytes.Text(float64(*k.LimitBytes))
	}
	peak := ""
	if k.PeakBytes != nil {
		peak = fmt.Sprintf(" (peak %s)", procstats.Bytes.Text(float64(*k.PeakBytes)))
	}
	switch k.Scope {
	case Own:
		return "at the task's own memory limit" + limit + peak
	case Descendant:
		return "at a memory limit" + limit + " that the task set below its own" + peak
	case Ancestor:
		return "at the memory limit" + limit + " of a group that the task shares with others" + peak
	case HostScope:
		return "because the host ran out of memory" + peak
	case AncestorOrHost:
		return "because a group above the task, or the host, ran out of memory" + peak
	}
	return "for a reason that is not known" + peak
}

// operator returns the sentence for whoever runs the machine; empty where there is nothing to do.
func (t telling) operator() string {
	if t.kill == nil {
		if t.d.Verdict == Signaled && t.e.Signal == sigkill && t.e.PassedOn != sigkill {
			return "a SIGKILL from outside: look for who sent it, a person, a supervisor or a user-space OOM killer"
		}
		return ""
	}
	where := ""
	if t.kill.Where != "" {
		where = " (" + t.kill.Where + ")"
	}
	switch t.kill.Scope {
	case Own:
		return "the task's own memory limit" + where + " is too low for what it does: the same limit ends the same way"
	case Descendant:
		return "the task limits a part of itself" + where + ": the limit is in the task, not in the place it was given"
	case Ancestor:
		return "the group above the task" + where + " is too small for the tasks in it: raise its limit or give it fewer tasks"
	case HostScope:
		return "the host has promised more memory than it has: move tasks away, lower their limits or add memory"
	case AncestorOrHost:
		return "a group above the task, or the host, is too small for the tasks in it; a cgroup namespace hides which"
	}
	return ""
}

// Sentence says in one sentence what a kill did, for the journal while the task runs.
func (k *Kill) Sentence() string {
	var text string
	switch {
	case k.Main && len(k.Victims) > 0:
		text = "the main process " + k.Victims[0].label() + " was killed"
	case k.Group:
		text = "a whole cgroup of the task was killed"
	case k.Kills > 1:
		text = fmt.Sprintf("%d processes were killed", k.Kills)
		if len(k.Victims) > 0 {
			text += ", " + k.Victims[0].label() + " among them,"
		}
	case len(k.Victims) > 0:
		text = "worker " + k.Victims[0].label() + " was killed"
	default:
		text = "a process of the task was killed"
	}
	text += " " + k.why()
	if k.Others {
		text += " while the main process runs on"
	}
	return text
}

// label is the command and the number, as in php-fpm[79699].
func (v *Victim) label() string { return fmt.Sprintf("%s[%d]", v.Command, v.PID) }

func (v *Victim) name() string { return "process " + v.label() }

// signalName writes a signal of Linux as people know it: 9 (SIGKILL).
func signalName(number int) string {
	names := [...]string{
		1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
		11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP",
		20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH",
		29: "IO", 30: "PWR", 31: "SYS",
	}
	if number <= 0 || number >= len(names) {
		return fmt.Sprint(number)
	}
	return fmt.Sprintf("%d (SIG%s)", number, names[number])
}
