// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/driver"
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

// openStats opens a stream and returns its first reading.
func openStats(ctx context.Context, e *Env, t *task, interval time.Duration) (driver.Stream[*driver.TaskStats], *driver.TaskStats, error) {
	stream, err := e.TaskStats(ctx, t.ID, interval)
	if err != nil {
		return nil, nil, ifStats(err)
	}
	first, err := stream.Recv()
	return stream, first, ifStats(err)
}

// ifStats skips a case where a driver has no stats.
func ifStats(err error) error {
	if err != nil && isMissing(err) {
		return skip("has no stats")
	}
	return err
}

func statsTiming(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "sleep 1000")
	if err != nil {
		return err
	}
	const interval = 500 * time.Millisecond
	began := time.Now()
	stream, stats, err := openStats(ctx, e, t, interval)
	if err != nil {
		return err
	}
	if took := time.Since(began); took > interval {
		return fmt.Errorf("the first reading came after %s", took)
	}
	const readings = 6
	for range readings {
		before := stats
		if stats, err = stream.Recv(); err != nil {
			return err
		}
		if !stats.Timestamp.After(before.Timestamp) {
			return fmt.Errorf("a reading of %s came after one of %s", stats.Timestamp, before.Timestamp)
		}
		if age := time.Since(stats.Timestamp); age < -time.Second || age > 5*time.Second {
			return fmt.Errorf("a reading has a time %s ago", age)
		}
	}
	if took := time.Since(began); took < (readings-2)*interval || took > 3*readings*interval {
		return fmt.Errorf("%d readings took %s at an interval of %s", readings, took, interval)
	}
	return nil
}

func statsEnd(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "while ! [ -e go ]; do sleep 0.05; done")
	if err != nil {
		return err
	}
	stream, _, err := openStats(ctx, e, t, 100*time.Millisecond)
	if err != nil {
		return err
	}
	if err := e.touch(t, "go"); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		return expectError("the stream ended with", err, io.EOF)
	case <-time.After(15 * time.Second):
		return errors.New("the stream goes on although the task has ended")
	}
}

func statsCancelled(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "sleep 1000")
	if err != nil {
		return err
	}
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, _, err := openStats(short, e, t, 50*time.Millisecond)
	if err != nil {
		return err
	}
	cancel()
	for {
		if _, err = stream.Recv(); err != nil {
			break
		}
	}
	return expectError("the stream ended with", err, context.Canceled)
}

func statsMeasured(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "while :; do :; done")
	if err != nil {
		return err
	}
	stream, stats, err := openStats(ctx, e, t, 200*time.Millisecond)
	if err != nil {
		return err
	}
	for range 3 {
		if stats.ID != t.ID {
			return fmt.Errorf("a reading of %q", stats.ID)
		}
		if err := checkUsage(&stats.Aggregate); err != nil {
			return err
		}
		for pid, usage := range stats.ByPID {
			if _, err := strconv.Atoi(pid); err != nil {
				return fmt.Errorf("a row for process %q", pid)
			}
			if err := checkUsage(&usage); err != nil {
				return fmt.Errorf("process %s: %w", pid, err)
			}
		}
		if stats, err = stream.Recv(); err != nil {
			return err
		}
	}
	if !stats.Aggregate.CPU.Has(driver.CPUPercent) || len(stats.Aggregate.Memory.Measured) == 0 {
		return fmt.Errorf("measured are %v and %v", stats.Aggregate.CPU.Measured, stats.Aggregate.Memory.Measured)
	}
	return nil
}

func checkUsage(u *driver.ResourceUsage) error {
	cpu, memory := &u.CPU, &u.Memory
	for _, field := range []struct {
		name     string
		value    float64
		measured bool
	}{
		{"percent", cpu.Percent, cpu.Has(driver.CPUPercent)},
		{"system mode", cpu.System, cpu.Has(driver.CPUSystem)},
		{"user mode", cpu.User, cpu.Has(driver.CPUUser)},
		{"total ticks", cpu.TotalTicks, cpu.Has(driver.CPUTotalTicks)},
		{"throttled periods", float64(cpu.ThrottledPeriods), cpu.Has(driver.CPUThrottledPeriods)},
		{"throttled time", float64(cpu.ThrottledTime), cpu.Has(driver.CPUThrottledTime)},
		{"rss", float64(memory.RSS), memory.Has(driver.MemoryRSS)},
		{"cache", float64(memory.Cache), memory.Has(driver.MemoryCache)},
		{"swap", float64(memory.Swap), memory.Has(driver.MemorySwap)},
		{"usage", float64(memory.Usage), memory.Has(driver.MemoryUsageNow)},
		{"max usage", float64(memory.MaxUsage), memory.Has(driver.MemoryMaxUsage)},
		{"kernel usage", float64(memory.KernelUsage), memory.Has(driver.MemoryKernelUsage)},
		{"kernel max usage", float64(memory.KernelMaxUsage), memory.Has(driver.MemoryKernelMaxUsage)},
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
	t, err := e.run(ctx, "while ! [ -e go ]; do sleep 0.02; done; times > before; "+work+"; times > after.new; mv after.new after; exec sleep 1000")
	if err != nil {
		return err
	}
	stream, before, err := openStats(ctx, e, t, 250*time.Millisecond)
	if err != nil {
		return err
	}
	if err := e.touch(t, "go"); err != nil {
		return err
	}
	var sum float64
	const readings = 12
	for i := range readings + 4 {
		stats, err := stream.Recv()
		if err != nil {
			return err
		}
		if cpu := &stats.Aggregate.CPU; cpu.Has(driver.CPUPercent) {
			sum += cpu.Percent / 100 * stats.Timestamp.Sub(before.Timestamp).Seconds()
		}
		before = stats
		if i == readings {
			if err := e.touch(t, "stop"); err != nil {
				return err
			}
			if _, err := e.awaitFile(ctx, t, "after"); err != nil {
				return err
			}
		}
	}
	want, err := e.timesUsed(t)
	if err != nil {
		return err
	}
	// The script waits before and after its work, which takes a little too.
	if math.Abs(sum-want) > 0.15*want+0.05 {
		return fmt.Errorf("the task used %.3f CPU seconds, the readings have %.3f (%.0f %%)", want, sum, 100*sum/want)
	}
	return nil
}

// timesUsed is the CPU time in seconds between the script's two calls of times.
func (e *Env) timesUsed(t *task) (float64, error) {
	var total [2]float64
	for i, name := range []string{"before", "after"} {
		content, err := os.ReadFile(e.path(t, name))
		if err != nil {
			return 0, err
		}
		for word := range strings.FieldsSeq(string(content)) {
			d, err := time.ParseDuration(word)
			if err != nil {
				return 0, fmt.Errorf("times says %q: %w", word, err)
			}
			total[i] += d.Seconds()
		}
	}
	return total[1] - total[0], nil
}

func statsReaders(ctx context.Context, e *Env) error {
	t, err := e.run(ctx, "sleep 1000")
	if err != nil {
		return err
	}
	if _, _, err := openStats(ctx, e, t, 100*time.Millisecond); err != nil {
		return err
	}
	// The first reader reads no more; the others must not wait for it.
	const readers = 4
	errs := make(chan error, readers)
	for range readers {
		go func() {
			stream, _, err := openStats(ctx, e, t, 100*time.Millisecond)
			for range 5 {
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
