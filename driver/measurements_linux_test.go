// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestOptionalMeasurements follows the size of a task's directory while the task fills it, and its proportional memory,
// which also readers without process rows get.
func TestOptionalMeasurements(t *testing.T) {
	for name, rows := range map[string]int{"with process rows": driver.DefaultProcessRows, "without": 0} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(c *driver.Config) { c.MaxRows = &rows })
			const fill = "dd if=/dev/zero of=local/fill bs=64k count=64; touch full; exec sleep 1000"
			config := f.shell("")
			config.DriverConfig = msgpack(t, map[string]any{
				"command": "sh", "args": []string{"-c", "while ! [ -e go ]; do sleep 0.02; done; " + fill},
				"measurements": "default,smaps", "disk": map[string]any{"interval": "1s", "budget": "100ms"},
			})
			f.start(config)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			stream := testkit.Value(f.TaskStats(ctx, config.ID, 100*time.Millisecond))(t)
			before := receive(t, stream, procstats.DiskUsage, 0)
			if pss := receive(t, stream, procstats.SmapsPSS, 1); pss < 4096 {
				t.Errorf("%v bytes of proportional memory", pss)
			}
			must(t, os.WriteFile(filepath.Join(config.AllocDir, config.Name, "go"), nil, 0o600))
			const size = 64 * 64 << 10
			if after := receive(t, stream, procstats.DiskUsage, before+size); after > before+2*size {
				t.Errorf("the directory grew from %v to %v bytes, want %d more", before, after, size)
			}
		})
	}
}

// receive returns the first value of a measurement that is not below the least.
func receive(t *testing.T, stream driver.StatsStream, id procstats.ID, least float64) float64 {
	t.Helper()
	for {
		sample, err := stream.Recv()
		if err != nil {
			t.Fatal(id, err)
		}
		if v, ok := sample.Task.Number(id); ok && v >= least {
			return v
		}
	}
}
