// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

func statsCases() []Case {
	return []Case{
		{"stats come at once and in time", statsTiming},
		{"stats end with the task", statsEnd},
		{"stats end with their reader", statsCancelled},
		{"stats hold only what is measured", statsMeasured},
		{"stats add up: one busy process", statsBusy},
		{"stats add up: short-lived processes", statsChurn},
		{"stats for several readers", statsReaders},
	}
}

// nomadStats is a task's stats in Nomad's form.
type nomadStats = driver.Stream[*drivers.TaskStats]

// openStats opens a stream and returns its first reading. A driver without stats skips the case.
func openStats(ctx context.Context, e *Env, t *task, interval time.Duration) (nomadStats, *drivers.TaskStats) {
	stream, err := e.NomadStats(ctx, t.ID, interval)
	var first *drivers.TaskStats
	if err == nil {
		first, err = stream.Recv()
	}
	if isMissing(err) {
		must(skip("has no stats"))
	}
	must(err)
	return stream, first
}

func statsTiming(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	const interval = 500 * time.Millisecond
	began := time.Now()
	stream, stats := openStats(ctx, e, t, interval)
	if took := time.Since(began); took > interval {
		return fmt.Errorf("the first reading came after %s", took)
	}
	const readings = 6
	for range readings {
		before := stats
		stats = value(stream.Recv())
		now, then := stats.GetTimestamp().AsTime(), before.GetTimestamp().AsTime()
		if !now.After(then) {
			return fmt.Errorf("a reading of %s came after one of %s", now, then)
		}
		if age := time.Since(now); age < -time.Second || age > 5*time.Second {
			return fmt.Errorf("a reading has a time %s ago", age)
		}
	}
	if took := time.Since(began); took < (readings-2)*interval || took > 3*readings*interval {
		return fmt.Errorf("%d readings took %s at an interval of %s", readings, took, interval)
	}
	return nil
}

func statsEnd(ctx context.Context, e *Env) error {
	t := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done")
	stream, _ := openStats(ctx, e, t, 100*time.Millisecond)
	must(e.touch(t, "go"))
	return endsWith(stream, 15*time.Second, io.EOF)
}

func statsCancelled(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, _ := openStats(short, e, t, 50*time.Millisecond)
	cancel()
	return endsWith(stream, 5*time.Second, context.Canceled)
}

func statsMeasured(ctx context.Context, e *Env) error {
	t := e.run(ctx, "while :; do :; done")
	stream, stats := openStats(ctx, e, t, 200*time.Millisecond)
	for range 3 {
		if stats.GetId() != t.ID {
			return fmt.Errorf("a reading of %q", stats.GetId())
		}
		must(checkUsage(stats.GetAggResourceUsage()))
		for pid, usage := range stats.GetResourceUsageByPid() {
			if _, err := strconv.Atoi(pid); err != nil {
				return fmt.Errorf("a row for process %q", pid)
			}
			if err := checkUsage(usage); err != nil {
				return fmt.Errorf("process %s: %w", pid, err)
			}
		}
		stats = value(stream.Recv())
	}
	cpu, memory := stats.GetAggResourceUsage().GetCpu(), stats.GetAggResourceUsage().GetMemory()
	if !hasCPU(cpu, drivers.CPUUsage_PERCENT) || len(memory.GetMeasuredFields()) == 0 {
		return fmt.Errorf("measured are %v and %v", cpu.GetMeasuredFields(), memory.GetMeasuredFields())
	}
	return nil
}

func hasCPU(u *drivers.CPUUsage, f drivers.CPUUsage_Fields) bool {
	return slices.Contains(u.GetMeasuredFields(), f)
}

func hasMemory(u *drivers.MemoryUsage, f drivers.MemoryUsage_Fields) bool {
	return slices.Contains(u.GetMeasuredFields(), f)
}

func checkUsage(u *drivers.TaskResourceUsage) error {
	cpu, memory := u.GetCpu(), u.GetMemory()
	for _, field := range []struct {
		name     string
		value    float64
		measured bool
	}{
		{"percent", cpu.GetPercent(), hasCPU(cpu, drivers.CPUUsage_PERCENT)},
		{"system mode", cpu.GetSystemMode(), hasCPU(cpu, drivers.CPUUsage_SYSTEM_MODE)},
		{"user mode", cpu.GetUserMode(), hasCPU(cpu, drivers.CPUUsage_USER_MODE)},
		{"total ticks", cpu.GetTotalTicks(), hasCPU(cpu, drivers.CPUUsage_TOTAL_TICKS)},
		{"throttled periods", float64(cpu.GetThrottledPeriods()), hasCPU(cpu, drivers.CPUUsage_THROTTLED_PERIODS)},
		{"throttled time", float64(cpu.GetThrottledTime()), hasCPU(cpu, drivers.CPUUsage_THROTTLED_TIME)},
		{"rss", float64(memory.GetRss()), hasMemory(memory, drivers.MemoryUsage_RSS)},
		{"cache", float64(memory.GetCache()), hasMemory(memory, drivers.MemoryUsage_CACHE)},
		{"swap", float64(memory.GetSwap()), hasMemory(memory, drivers.MemoryUsage_SWAP)},
		{"usage", float64(memory.GetUsage()), hasMemory(memory, drivers.MemoryUsage_USAGE)},
		{"max usage", float64(memory.GetMaxUsage()), hasMemory(memory, drivers.MemoryUsage_MAX_USAGE)},
		{"kernel usage", float64(memory.GetKernelUsage()), hasMemory(memory, drivers.MemoryUsage_KERNEL_USAGE)},
		{"kernel max usage", float64(memory.GetKernelMaxUsage()), hasMemory(memory, drivers.MemoryUsage_KERNEL_MAX_USAGE)},
	} {
		if math.IsNaN(field.value) || math.IsInf(field.value, 0) || field.value < 0 {
			return fmt.Errorf("%s is %v", field.name, field.value)
		}
		if !field.measured && field.value != 0 {
			return fmt.Errorf("%s is %v and is not said to be measured", field.name, field.value)
		}
	}
	return nil
}

func statsBusy(ctx context.Context, e *Env) error {
	return addsUp(ctx, e, "while ! [ -e stop ]; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; done")
}

func statsChurn(ctx context.Context, e *Env) error {
	return addsUp(ctx, e, "while ! [ -e stop ]; do sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done'; done")
}

// addsUp compares the rates of a stream, over its windows, with what a script says of itself at the end: times(1)
// has the shell's own time and that of all its children.
func addsUp(ctx context.Context, e *Env, work string) error {
	t := e.run(ctx, "while ! [ -e go ]; do sleep 0.02; done; times > before; "+work+
		"; times > after.new; mv after.new after; exec sleep 1000")
	stream, before := openStats(ctx, e, t, 250*time.Millisecond)
	must(e.touch(t, "go"))
	var sum float64
	const readings = 12
	for i := range readings + 4 {
		stats := value(stream.Recv())
		if cpu := stats.GetAggResourceUsage().GetCpu(); hasCPU(cpu, drivers.CPUUsage_PERCENT) {
			sum += cpu.GetPercent() / 100 * stats.GetTimestamp().AsTime().Sub(before.GetTimestamp().AsTime()).Seconds()
		}
		before = stats
		if i == readings {
			must(e.touch(t, "stop"))
			e.awaitFile(ctx, t, "after")
		}
	}
	want := e.timesUsed(t)
	// The script waits before and after its work, which takes a little too.
	if math.Abs(sum-want) > 0.15*want+0.05 {
		return fmt.Errorf("the task used %.3f CPU seconds, the readings have %.3f (%.0f %%)", want, sum, 100*sum/want)
	}
	return nil
}

// timesUsed is the CPU time in seconds between the script's two calls of times.
func (e *Env) timesUsed(t *task) float64 {
	var total [2]float64
	for i, name := range []string{"before", "after"} {
		for word := range strings.FieldsSeq(string(value(os.ReadFile(e.path(t, name))))) {
			total[i] += value(time.ParseDuration(word)).Seconds()
		}
	}
	return total[1] - total[0]
}

func statsReaders(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	openStats(ctx, e, t, 100*time.Millisecond)
	// The first reader reads no more; the others must not wait for it.
	const readers = 4
	errs := make(chan error, readers)
	for range readers {
		go func() {
			stream, err := e.NomadStats(ctx, t.ID, 100*time.Millisecond)
			for range 6 {
				if err == nil {
					_, err = stream.Recv()
				}
			}
			errs <- err
		}()
	}
	var all []error
	for range readers {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}
