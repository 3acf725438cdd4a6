// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
)

// TestTotalOfWatched holds that a watched cgroup has no total if it is not known what it had used before.
func TestTotalOfWatched(t *testing.T) {
	dir := t.TempDir()
	used := func(usec string) {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "cpu.stat"), []byte("usage_usec "+usec+"\n"), 0o600))
	}
	used("unreadable")
	r := &reading{Reader: reader.Open(reader.Options{
		Target: source.Target{Cgroup: procstats.Cgroup{V2: dir}}, Selection: procstats.SourceSelection(procstats.SourceCgroup), Watched: true,
		Packets: network.Absent(procstats.Selection{}, ""),
	})}
	defer r.Close(nil)
	for _, step := range []struct{ before, now string }{{"unreadable", "5000000"}, {"2000000", "5000000"}, {"2000000", "unreadable"}} {
		used(step.before)
		r.earlier = procstats.CPUTotal(r.Whole()).Reading
		used(step.now)
		total := r.total()
		if known := step.before != "unreadable" && step.now != "unreadable"; known != (total != nil) || known && *total != 3 {
			t.Errorf("%+v: %v", step, total)
		}
	}
}
