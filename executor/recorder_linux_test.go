// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// record makes a folder for the record of the fixture's task.
func (f *fixture) record() string {
	f.t.Helper()
	dir := filepath.Join(f.dir, "record")
	store := testkit.Value(record.Create(dir))(f.t)
	must(f.t, store.Close())
	return dir
}

// TestGaugesOfShortRun holds that the sample from before the start is nobody's: a task that is over before the second
// tick was alone, and did not have no memory; one that nobody looked at has no gauges.
func TestGaugesOfShortRun(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		for name, script := range map[string]string{"looked at once": "sleep 0.4", "not looked at": "exit 0"} {
			t.Run(name, func(t *testing.T) {
				f := start(t)
				dir := f.record()
				f.run(script, place, func(r *proto.LaunchRequest) {
					r.Record = &proto.RecordOptions{Dir: dir, IntervalNs: int64(time.Hour), ReportIntervalNs: int64(time.Hour)}
				})
				_, final := f.wait()
				if h := final.Headline[procstats.HeadlineMemory.String()]; h.Value != nil && *h.Value == 0 {
					t.Errorf("memory_bytes is 0 by %s, want its memory or none", h.Source)
				}
				if p := final.Peak; p != nil && (p.At.Before(final.StartedAt) || p.MemoryBytes == 0) {
					t.Errorf("memory was highest %s after the start, with %v bytes", p.At.Sub(final.StartedAt), p.MemoryBytes)
				}
				for usage, err := range record.ReadUsage(dir) {
					must(t, err)
					for _, id := range []procstats.ID{procstats.TreeProcesses, procstats.TreeRSS, procstats.CgroupMemoryCurrent} {
						if least := usage.Measurements[id.String()].Min; least != nil && *least == 0 {
							t.Errorf("at its lowest %s was 0 in the report", id)
						}
					}
				}
			})
		}
	})
}

// TestFirstSample holds that whoever is content with an old sample gets none from before the start.
func TestFirstSample(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.runSleeper(place)
		sample := testkit.Value(f.Sample(t.Context(), time.Hour, true))(t)
		if n, ok := sample.Task.Number(procstats.TreeProcesses); !ok || n < 1 || len(sample.Processes) < 1 {
			t.Errorf("%v processes (measured: %t) and %d rows while the task runs", n, ok, len(sample.Processes))
		}
	})
}

// TestReportOfShortRun holds that the one report of a task that is over before anybody looks adds up too.
func TestReportOfShortRun(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		dir := f.record()
		f.run("exit 0", place, func(r *proto.LaunchRequest) {
			r.Record = &proto.RecordOptions{Dir: dir, IntervalNs: int64(time.Second), ReportIntervalNs: int64(time.Minute)}
		})
		f.wait()
		text := testkit.Value(os.ReadFile(filepath.Join(dir, "usage.jsonl")))(t)
		var report record.Usage
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		p := report.Processes
		if p == nil || p.TotalCPUSeconds == nil || p.UnattributedCPUSeconds == nil {
			t.Fatalf("the report has no sum of its processes: %s", text)
		}
		if *p.TotalCPUSeconds <= 0 || len(report.Headline) == 0 {
			t.Errorf("the report tells nothing: %s", text)
		}
	})
}

// TestIncompleteRecord holds that the caller is told of a record that could not be written, and of the first cause.
func TestIncompleteRecord(t *testing.T) {
	t.Parallel()
	f := start(t)
	dir := f.record()
	f.run("sleep 0.3; rm record/info.json; mkdir -p record/info.json/in-the-way", func(r *proto.LaunchRequest) {
		r.Record = &proto.RecordOptions{Dir: dir}
	})
	if _, final := f.wait(); !strings.HasPrefix(final.Incomplete, "write "+filepath.Join(dir, "info.json")) {
		t.Errorf("the record says %q of what could not be written", final.Incomplete)
	}
}
