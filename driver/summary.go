// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// sentence says in one sentence how a task ended and what it used: "failed with exit code 1: peak 203 MiB of 400 MiB
// (exact), 5m41s of CPU time, waited 12 % of the time for memory, 1 OOM kill". What was not measured is not mentioned.
func sentence(r *record.Record) string {
	var used []string
	for _, text := range []string{peakText(r), cpuText(r), waitText(r), oomText(r)} {
		if text != "" {
			used = append(used, text)
		}
	}
	if len(used) == 0 {
		return r.Diagnosis.Summary
	}
	summary := r.Diagnosis.Summary
	// The diagnosis may have counted the kills already.
	if kills := oomText(r); kills != "" && strings.Contains(strings.ToLower(summary), "oom") {
		used = used[:len(used)-1]
	}
	if summary == "" {
		return strings.Join(used, ", ")
	}
	return summary + ": " + strings.Join(used, ", ")
}

func peakText(r *record.Record) string {
	peak := r.Headline[procstats.HeadlineMemoryPeak.String()]
	if peak.Value == nil {
		return ""
	}
	text := "peak " + procstats.Bytes.Text(*peak.Value)
	if limit, ok := r.Measurements[procstats.CgroupMemoryMax.String()].(float64); ok {
		text += " of " + procstats.Bytes.Text(limit)
	}
	return text + " (" + strings.ReplaceAll(string(peak.Guarantee), "_", " ") + ")"
}

func cpuText(r *record.Record) string {
	cpu := r.Headline[procstats.HeadlineCPU.String()]
	if cpu.Value == nil {
		return ""
	}
	return procstats.Seconds.Text(*cpu.Value) + " of CPU time"
}

// waitText names what the task waited for longest, from one percent of its time on.
func waitText(r *record.Record) string {
	span, ok := r.Span()
	if !ok {
		return ""
	}
	longest, what := 0.01, ""
	for _, stall := range []struct {
		id   procstats.ID
		what string
	}{{procstats.PSIMemorySome, "memory"}, {procstats.PSIIOSome, "I/O"}, {procstats.PSICPUSome, "a CPU"}} {
		waited, ok := r.Measurements[stall.id.String()].(float64)
		if share := waited / span; ok && share >= longest {
			longest, what = share, stall.what
		}
	}
	if what == "" {
		return ""
	}
	return fmt.Sprintf("waited %s of the time for %s", procstats.Share.Text(min(1, longest)), what)
}

func oomText(r *record.Record) string {
	kills := r.Diagnosis.OOM.Kills
	switch {
	case kills == nil || *kills == 0:
		return ""
	case *kills == 1:
		return "1 OOM kill"
	}
	return fmt.Sprintf("%d OOM kills", *kills)
}

// recordAnnotations are the record's main numbers by name, for whoever reads events by machine.
func recordAnnotations(r *record.Record) map[string]string {
	a := map[string]string{"verdict": string(r.Diagnosis.Verdict)}
	for name, h := range r.Headline {
		if h.Value != nil {
			a[name] = strconv.FormatFloat(*h.Value, 'f', -1, 64)
			a[name+".guarantee"] = string(h.Guarantee)
		}
	}
	if kills := r.Diagnosis.OOM.Kills; kills != nil {
		a["oom.kills"] = strconv.FormatInt(*kills, 10)
	}
	if scope := r.Diagnosis.OOM.Scope; scope != "" {
		a["oom.scope"] = string(scope)
	}
	if victim := r.Diagnosis.OOM.Victim; victim != nil {
		a["oom.victim"] = fmt.Sprintf("%d (%s)", victim.PID, victim.Command)
	}
	if r.Diagnosis.Stall != "" {
		a["stall"] = string(r.Diagnosis.Stall)
	}
	if r.Diagnosis.Operator != "" {
		a["operator"] = r.Diagnosis.Operator
	}
	return a
}
