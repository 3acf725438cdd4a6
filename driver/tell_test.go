// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/exposition"
	"github.com/tachograph/tacho/procstats"
)

func TestSentence(t *testing.T) {
	number := func(f float64) *float64 { return &f }
	one := int64(1)
	whole := &record.Record{
		WallSeconds: number(100),
		Diagnosis:   record.Diagnosis{Verdict: record.Failed, Summary: "failed with exit code 1", OOM: record.OOM{Kills: &one}},
		Headline: map[string]record.HeadlineValue{
			"memory_peak_bytes": {Value: number(203 << 20), Guarantee: procstats.Exact},
			"cpu_seconds_total": {Value: number(341.2), Guarantee: procstats.Exact},
		},
		Measurements: map[string]any{
			"cgroup_memory_max_bytes":       float64(400 << 20),
			"psi_memory_some_seconds_total": 12.0, "psi_cpu_some_seconds_total": 3.0,
		},
	}
	for _, test := range []struct {
		name   string
		record *record.Record
		want   string
	}{
		{"everything", whole, "failed with exit code 1: peak 203 MiB of 400 MiB (exact), 5m41.2s of CPU time, " +
			"waited 12 % of the time for memory, 1 OOM kill"},
		{"processes that outlived the main one", &record.Record{
			WallSeconds: number(0.01), SpanSeconds: number(10),
			Diagnosis:    record.Diagnosis{Summary: "completed"},
			Measurements: map[string]any{"psi_cpu_some_seconds_total": 3.0},
		}, "completed: waited 30 % of the time for a CPU"},
		{"nothing measured", &record.Record{Diagnosis: record.Diagnosis{Summary: "completed"}}, "completed"},
		{"a bound, no limit, a little CPU", &record.Record{
			Diagnosis: record.Diagnosis{Summary: "completed"},
			Headline: map[string]record.HeadlineValue{
				"memory_peak_bytes": {Value: number(1.5 * (1 << 20)), Guarantee: procstats.UpperBound},
				"cpu_seconds_total": {Value: number(0.1234)},
			},
		}, "completed: peak 1.5 MiB (upper bound), 123 ms of CPU time"},
		{"hardly any CPU", &record.Record{
			Diagnosis: record.Diagnosis{Summary: "completed"},
			Headline:  map[string]record.HeadlineValue{"cpu_seconds_total": {Value: number(0.002178)}},
		}, "completed: 2.18 ms of CPU time"},
	} {
		if d := cmp.Diff(test.want, sentence(test.record)); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
	if a := recordAnnotations(whole); a["verdict"] != "failed" || a["oom.kills"] != "1" || a["memory_peak_bytes.guarantee"] != "exact" {
		t.Errorf("annotations %v", a)
	}
}

func TestFamilies(t *testing.T) {
	sample := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Second, Wall: time.Unix(1001, 0)}}
	sample.Sources[procstats.SourceCgroup] = sample.Stamp
	sample.SetNumber(procstats.CgroupCPUUsage, 1.5)
	sample.SetNumber(procstats.CgroupMemoryCurrent, 4096)
	sample.SetAbsent(procstats.CgroupMemoryPeak, "not here")
	sample.SetNumber(procstats.PSICPUSome, 3)
	var written strings.Builder
	if err := exposition.WriteText(&written, families([]taskSample{
		{&TaskConfig{ID: "2", Name: "b\"\\\n", JobName: "j"}, sample, time.Unix(1000, 0)},
		{&TaskConfig{ID: "1", Name: "a", JobName: "j"}, sample, time.Unix(1000, 0)},
	})); err != nil {
		t.Fatal(err)
	}
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
