// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"strconv"

	"github.com/tachograph/tacho/executor/record"
)

// addOOMKill appends the event of an OOM kill, or that another process is known now to be the victim of one. It is made
// from what the record will say.
func (j *journal) addOOMKill(kill record.Kill, again bool) {
	kind := "oom_kill"
	if again {
		kind = "oom_victim"
	}
	j.add(kind, kill.Sentence(), annotations(&kill))
}

func annotations(kill *record.Kill) map[string]string {
	a := map[string]string{"scope": string(kill.Scope), "kills": strconv.FormatInt(kill.Kills, 10)}
	for name, value := range map[string]*int64{
		"limit_bytes": kill.LimitBytes, "peak_bytes": kill.PeakBytes, "headroom_bytes": kill.HeadroomBytes,
	} {
		if value != nil {
			a[name] = strconv.FormatInt(*value, 10)
		}
	}
	for name, value := range map[string]string{"limit_of": kill.Where, "reason": kill.Reason} {
		if value != "" {
			a[name] = value
		}
	}
	if kill.Group {
		a["group"] = "true"
	}
	victim := kill.Victim()
	if victim == nil {
		return a
	}
	a["victim_pid"], a["victim_command"], a["victim_source"] = strconv.Itoa(victim.PID), victim.Command, victim.Source
	if victim.Namespace != "" {
		a["victim_pid_namespace"] = victim.Namespace
	}
	if victim.RSSBytes != nil {
		a["victim_rss_bytes"] = strconv.FormatInt(*victim.RSSBytes, 10)
	}
	return a
}
