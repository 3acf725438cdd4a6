// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"cmp"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

// usage is the resource usage of a task for one line; nil is unknown.
type usage struct {
	Cores   *float64 `json:"cpu_cores"`
	Memory  *float64 `json:"memory_bytes"`
	Charged *float64 `json:"-"`
	Limit   *float64 `json:"memory_limit_bytes"`
	Peak    *float64 `json:"memory_peak_bytes"`
	// Read and Written are bytes per second.
	Read    *float64 `json:"io_read_bytes_per_second"`
	Written *float64 `json:"io_write_bytes_per_second"`
	// Received and Sent are bytes of IP packets per second, loopback not included.
	Received *float64 `json:"network_received_bytes_per_second"`
	Sent     *float64 `json:"network_sent_bytes_per_second"`
	// The pressures are the shares of time in which some process waited, 0 to 1.
	CPUPressure    *float64 `json:"cpu_waiting_ratio"`
	MemoryPressure *float64 `json:"memory_waiting_ratio"`
	IOPressure     *float64 `json:"io_waiting_ratio"`
	Processes      *float64 `json:"processes"`
	// Stall is the word for what the task waited for.
	Stall record.Stall `json:"-"`
}

// monotonic returns the seconds of the monotonic clock as a stamp.
func monotonic(seconds float64) procstats.Stamp {
	return procstats.Stamp{Mono: time.Duration(seconds * float64(time.Second))}
}

// pointMoment returns the numbers of a past reading.
func pointMoment(p *apijson.Point) *figures.Moment {
	return new(figures.MomentOfValues(monotonic(p.Mono), p.Run, p.Number))
}

// sampleMoment returns the numbers of a sample.
func sampleMoment(s *client.Sample, run int) *figures.Moment {
	return new(figures.MomentOf(monotonic(s.Mono), run, s.Number, record.HeadlineList(s.Headline)))
}

// usageOf returns the usage of a reading. Rates need the one before it, of the same start; nil for none.
func usageOf(now, before *figures.Moment) usage {
	value := func(q figures.Quantity) *float64 { return figures.Known(now.Value(q)) }
	rate := func(q figures.Quantity) *float64 { return figures.Known(now.Rate(before, q)) }
	return usage{
		Cores: cmp.Or(rate(figures.CPU), value(figures.Cores)), Memory: value(figures.Memory),
		Charged: value(figures.MemoryCharged), Peak: value(figures.MemoryPeak), Limit: value(figures.MemoryLimit),
		Read: rate(figures.Read), Written: rate(figures.Written), Received: rate(figures.Received), Sent: rate(figures.Sent),
		CPUPressure: rate(figures.WaitCPU), MemoryPressure: rate(figures.WaitMemory), IOPressure: rate(figures.WaitIO),
		Processes: value(figures.Processes), Stall: record.StallOf(now.Waits(before)),
	}
}

// coresBetween returns the CPU of a process in cores between two readings of it; nil if unknown.
func coresBetween(before, now figures.Lookup, span time.Duration) *float64 {
	for _, id := range []procstats.ID{procstats.ProcessCPU, procstats.PortableProcessCPU} {
		value, ok := now(id)
		then, known := before(id)
		rate, reason := procstats.CounterReading{Value: value, At: span}.RateSince(procstats.CounterReading{Value: then})
		if ok && known && reason == "" {
			return &rate
		}
	}
	return nil
}

// coresText returns CPU in cores as text.
func coresText(cores *float64) string {
	if cores == nil {
		return procstats.NoValue
	}
	return procstats.CoresText(*cores)
}

// pressureText returns the highest pressure and its resource, or procstats.NoValue.
func pressureText(f usage) string {
	most := greatest(f.CPUPressure, f.MemoryPressure, f.IOPressure)
	if most == nil {
		return procstats.NoValue
	}
	text := procstats.Share.Text(min(*most, 1))
	switch {
	case *most == 0:
		return text
	case most == f.CPUPressure && f.Stall == record.CPUThrottled:
		return text + " throttled"
	case most == f.CPUPressure:
		return text + " cpu"
	case most == f.MemoryPressure:
		return text + " memory"
	}
	return text + " io"
}

// processTree returns live processes as a tree.
func processTree(rows []client.Process) []procstats.Branch[client.Process] {
	return procstats.Tree(rows, func(p *client.Process) (pid, parent int) { return p.PID, p.PPID })
}

// widestCommand is how many columns a command line has in a table at most.
const widestCommand = 120

// indented returns the command of a process, indented by its depth in the tree.
func indented(b procstats.Branch[client.Process]) string {
	return strings.Repeat("  ", b.Depth) + cli.Cut(cli.Printable(b.Process.CommandLine()), widestCommand)
}
