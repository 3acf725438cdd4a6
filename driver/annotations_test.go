// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestRecordAnnotations(t *testing.T) {
	r := &record.Record{
		Diagnosis: record.Diagnosis{
			Verdict: record.Signaled, Outcome: record.OOMKilled, Operator: "Raise the limit", Stall: record.Idle,
			OOM:     record.OOM{Kills: new(int64(1)), Scope: record.Own, Victim: &record.Victim{PID: 7, Command: "sh"}},
			Killers: []string{"/opt/bin/watchdog"},
		},
		Signal: new(9),
		Headline: map[string]record.HeadlineValue{
			"memory_peak_bytes": {Value: new(1024.0), Guarantee: procstats.Exact}, "cpu_seconds_total": {Reason: "not measured"},
		},
		Measurements: map[string]any{
			"cgroup_memory_events_oom_kill_total": 1.0, "cgroup_memory_events_high_total": 0.0, "psi_memory_full_seconds_total": 0.25,
			"tree_rss_bytes": 4096.0,
		},
	}
	want := map[string]string{
		"verdict": "signaled", "outcome": "oom-killed", "operator": "Raise the limit", "stall": "idle", "oom.kills": "1",
		"oom.scope": "own", "oom.victim": "7 (sh)", "memory_peak_bytes": "1024", "memory_peak_bytes.guarantee": "exact",
		"cgroup_memory_events_oom_kill_total": "1", "cgroup_memory_events_high_total": "0", "psi_memory_full_seconds_total": "0.25",
		"message_redacted": "Terminated by signal 9 (SIGKILL), not by the kernel's OOM killer; 1 OOM kill; peak 1 KiB (exact)",
	}
	got := recordAnnotations(r)
	if got[record.BasisAnnotation] != r.AdviceBasis() {
		t.Errorf("record %q", got[record.BasisAnnotation])
	}
	delete(got, record.BasisAnnotation)
	testkit.Diff(t, "annotations", want, got)
}

// TestRetryableEnd is what a host reads that does not act on it itself.
func TestRetryableEnd(t *testing.T) {
	r := &record.Record{Diagnosis: record.Diagnosis{
		Verdict: record.Signaled, Retryable: true, OOM: record.OOM{Kills: new(int64(1)), Scope: record.HostScope},
	}}
	testkit.Equal(t, recordAnnotations(r)["retryable"], "the host ran out of memory", "annotation")
	if got := endMessage(r); !strings.HasSuffix(got, "; not the task's fault: another start may end better") {
		t.Errorf("message %q", got)
	}
	r.Diagnosis.Retryable = false
	if got := endMessage(r); got != r.Sentence() || recordAnnotations(r)["retryable"] != "" {
		t.Errorf("of an end at its own limit: %q", got)
	}
}

func TestFamilies(t *testing.T) {
	sample := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Second, Wall: time.Unix(1001, 0)}}
	sample.SetRead(procstats.SourceCgroup, sample.Stamp)
	sample.SetNumber(procstats.CgroupCPUUsage, 1.5)
	sample.SetNumber(procstats.CgroupMemoryCurrent, 4096)
	sample.SetAbsent(procstats.CgroupMemoryPeak, "not here")
	sample.SetNumber(procstats.PSICPUSome, 3)
	var written strings.Builder
	must(t, exposition.Text.Write(&written, families([]taskSample{
		{&TaskConfig{ID: "2", Name: "b\"\\\n", JobName: "j"}, sample, time.Unix(1000, 0)},
		{&TaskConfig{ID: "1", Name: "a", JobName: "j"}, sample, time.Unix(1000, 0)},
	})))
	page := written.String()
	for _, want := range []string{
		"# TYPE tacho_task_cgroup_cpu_usage_seconds_total counter\n" +
			`tacho_task_cgroup_cpu_usage_seconds_total{job="j",task="a"} 1.5` + "\n" +
			`tacho_task_cgroup_cpu_usage_seconds_total{job="j",task="b\"\\\n"} 1.5` + "\n",
		"# TYPE tacho_task_memory_charged_bytes gauge\n",
		"# TYPE tacho_task_psi_cpu_waiting_seconds_total counter\n",
		`tacho_task_cpu_cores_average{job="j",task="a"} 1.5`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no\n%s\nin\n%s", want, page)
		}
	}
	if strings.Contains(page, "peak") {
		t.Errorf("a series for what is absent:\n%s", page)
	}
}
