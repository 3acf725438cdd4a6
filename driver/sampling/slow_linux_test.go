// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
)

// TestSlow reads a task of which the executor alone reads some sources: the samples have those too, of tasks that
// move and of such that sleep, and everything else that the loop has of a task.
func TestSlow(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"asleep": "/bin/true; echo 1234567 > file; exec sleep 1000",
		"moving": "/bin/true; echo 1234567 > file; while :; do :; done",
	} {
		t.Run(name, func(t *testing.T) {
			k := run(t, script, func(r *proto.LaunchRequest) {
				for _, id := range procstats.DefaultSelection().Union(procstats.Select(procstats.DiskUsage, procstats.SmapsPSS, procstats.ProcessPSS)).IDs() {
					r.Selection = append(r.Selection, uint32(id))
				}
				r.DiskDir, r.DiskIntervalNs = r.GetDir(), int64(time.Second)
			})
			loop := newLoop(t)
			s := open(t, loop, k, 100*time.Millisecond)
			must(t, os.WriteFile(filepath.Join(k.folder, "late"), make([]byte, 5<<20), 0o600))
			for began := time.Now(); ; {
				sample := recv(t, s)
				disk, _ := sample.Task.Number(procstats.DiskUsage)
				pss, hasPSS := sample.Task.Number(procstats.SmapsPSS)
				row := false
				for i := range sample.Processes {
					if own, ok := sample.Processes[i].Readings.Number(procstats.ProcessPSS); ok {
						row = own > 0
					}
				}
				at, _ := sample.ReadAt(procstats.DiskUsage)
				if disk >= 5<<20 && hasPSS && pss > 0 && row && !at.Zero() && at.Mono <= sample.Mono {
					break
				}
				if time.Since(began) > limit {
					t.Fatalf("disk %v, PSS %v, of a process %v, read at %v", disk, pss, row, at)
				}
			}
			// Who asks for totals alone gets all that is not read of processes.
			totals := loop.Sample(k.task().ID, limit, false)
			for _, r := range recv(t, s).Task {
				m, _ := procstats.Lookup(r.ID())
				if _, found := totals.Task.Get(r.ID()); !found && m.Source != procstats.SourceTree && m.Source != procstats.SourceIO {
					t.Errorf("totals have no %s", m.Name)
				}
			}
			if c := loop.CommandsSoFar(k.task().ID, k.task().Started); c == nil {
				t.Error("no commands")
			}
		})
	}
}
