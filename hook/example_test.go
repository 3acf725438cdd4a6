// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/procstats"
)

// sleeper is a driver whose only task has used half a second of CPU.
type sleeper struct{}

func (sleeper) OpenStats(ctx context.Context, interval time.Duration) (hook.StatsStream, error) {
	return &sleeperStats{ctx: ctx, tick: time.NewTicker(interval)}, nil
}

type sleeperStats struct {
	ctx  context.Context
	tick *time.Ticker
}

func (s *sleeperStats) Recv() (*procstats.Sample, error) {
	select {
	case <-s.tick.C:
		sample := &procstats.Sample{}
		sample.SetNumber(procstats.CgroupCPUUsage, 0.5)
		return sample, nil
	case <-s.ctx.Done():
		return nil, io.EOF
	}
}

// table holds the newest sample of one task.
type table chan *procstats.Sample

func (t table) UpdateStats(sample *procstats.Sample) {
	select {
	case t <- sample:
	default: // the reader has not received the previous one
	}
}

// An orchestrator that starts its tasks itself takes the stats hook alone.
func Example() {
	ctx := context.Background()
	latest := make(table, 1)
	stats := hook.NewStatsHook(hook.StatsConfig{
		Publish: true, Interval: 10 * time.Millisecond, Updater: latest,
		Logger: hclog.Default().With("alloc_id", "7ab1", "task", "web"),
	})

	// The task has started:
	_ = stats.Poststart(ctx, &hook.PoststartRequest{Stats: sleeper{}})
	sample := <-latest
	seconds, measured := sample.Task.Number(procstats.CgroupCPUUsage)
	fmt.Println(seconds, measured)

	// The task has ended:
	if err := stats.Exited(ctx, &hook.ExitedRequest{}); err != nil {
		hclog.Default().Error("end stats of web", "error", err)
	}
	fmt.Println(stats.Err())
	// Output:
	// 0.5 true
	// task is not running
}
