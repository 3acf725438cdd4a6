// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
)

// TestReportOfShortRun holds that the one report of a task that is over before anybody looks adds up too.
func TestReportOfShortRun(t *testing.T) {
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		dir := filepath.Join(f.dir, "record")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		store, err := record.Create(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		f.run("exit 0", place, func(r *proto.LaunchRequest) {
			r.Record = &proto.RecordOptions{Dir: dir, IntervalNs: int64(time.Second), ReportIntervalNs: int64(time.Minute)}
		})
		f.wait()
		text, err := os.ReadFile(filepath.Join(dir, "usage.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
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
