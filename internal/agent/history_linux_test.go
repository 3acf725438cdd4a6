// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/testkit"
)

// hungDisk is a disk on which histories are, and which does not answer.
type hungDisk struct {
	answers chan struct{} // closed when it does again
}

func (d *hungDisk) open(path string, flag int, perm fs.FileMode) (series.File, error) {
	<-d.answers
	return os.OpenFile(path, flag, perm)
}

// dropLines counts the log lines about dropped readings.
type dropLines struct{ atomic.Int64 }

// Accept implements hclog.SinkAdapter.
func (d *dropLines) Accept(_ string, _ hclog.Level, text string, _ ...any) {
	if strings.HasPrefix(text, "drop readings from history") {
		d.Add(1)
	}
}

// TestHistoryOnADiskThatHangs holds that tasks start, stop and restart, and publishing is turned off and on, as if the
// disk of the histories did not hang, and that what is dropped is counted, logged once and shown.
func TestHistoryOnADiskThatHangs(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	disk := &hungDisk{answers: make(chan struct{})}
	answer := sync.OnceFunc(func() { close(disk.answers) })
	defer answer()
	var drops dropLines
	a := newAgent(t, c)
	a.log.(hclog.InterceptLogger).RegisterSink(&drops)
	a.host.History.OpenFile = disk.open
	r := run(t, a)

	const limit = time.Minute // the disk does not answer before the end
	within := func(what string, do func()) {
		t.Helper()
		began := time.Now()
		do()
		if took := time.Since(began); took > limit {
			t.Errorf("%s took %v", what, took)
		}
	}
	var id string
	task := func() *allocation.Task {
		l := testkit.Value(r.Snapshot().Allocation(id))(t)
		return l.Tasks["t"]
	}
	fresh := func() {
		t.Helper()
		samples := r.Cost().Samples
		r.eventually("fresh readings", func() bool { return r.Cost().Samples > samples+3 })
		if u := r.usage(id); u.Sample == nil || u.Reason != "" {
			t.Errorf("usage %+v", u)
		}
	}
	within("start", func() {
		id = r.submit(oneTask("service", "kill_timeout = \"1s\"", "exec sleep 1000"))[0].ID
		r.await(id, "running", isRunning)
		fresh()
	})
	within("restart", func() {
		must(t, r.RestartAlloc(id, "t"))
		r.eventually("restart", func() bool { s := task().State; return s.Restarts == 1 && s.Phase == hook.PhaseRunning })
		fresh()
	})
	for _, on := range []bool{false, true} {
		within("publishing", func() {
			c.Telemetry.PublishAllocationMetrics = on
			if _, err := r.Reload(c); err != nil {
				t.Fatal(err)
			}
		})
	}
	fresh()
	r.eventually("drops", func() bool { return r.Cost().HistoryDropped > 5 })
	if r.usage(id).HistoryDropped == 0 {
		t.Error("none of the task")
	}
	within("reading the history", func() {
		if _, err := r.History(id, "t", series.Query{}); !errors.Is(err, series.ErrBlocked) {
			t.Errorf("history: %v, want ErrBlocked", err)
		}
	})
	if n := drops.Load(); n != 1 {
		t.Errorf("drops were logged %d times, want 1", n)
	}

	answer()
	r.eventually("history", func() bool {
		points, err := r.History(id, "t", series.Query{})
		for _, p := range points {
			if p.Gap == series.GapDropped {
				return err == nil
			}
		}
		return false
	})
	within("stop", func() { r.end(true) })
}

// TestAgentEndsOnADiskThatHangs holds that an agent ends although its histories cannot be closed.
func TestAgentEndsOnADiskThatHangs(t *testing.T) {
	t.Parallel()
	disk := &hungDisk{answers: make(chan struct{})}
	a := newAgent(t, testConfig(shortDir(t)))
	a.host.History.OpenFile = disk.open
	r := run(t, a)
	l := r.submit(oneTask("service", "kill_timeout = \"1s\"", "exec sleep 1000"))[0]
	r.await(l.ID, "running", isRunning)
	own := testkit.Value(r.find(l.ID))(t)
	r.eventually("reading", func() bool { return r.Cost().Samples > 0 })
	r.findByID(l.ID).Stop(userStopped)
	r.await(l.ID, "dead", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
	r.cancel()
	select {
	case err := <-r.ended:
		if !errors.Is(err, series.ErrBlocked) {
			t.Errorf("Run = %v, want ErrBlocked", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the agent does not end")
	}
	close(disk.answers)
	r.eventually("the end of the write", func() bool {
		_, err := own.Tasks()[0].History(series.Query{})
		return err == nil
	})
}
