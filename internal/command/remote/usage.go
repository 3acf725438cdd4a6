// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/agent/shape"
	"github.com/tachograph/tacho/internal/command/cli"
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
}

// numbers is one reading of a task, from its history or from a sample.
type numbers struct {
	// at is the monotonic clock of the agent's host, run counts the starts of the task.
	at     time.Duration
	run    int
	number func(procstats.ID) (float64, bool)
	// source returns the source of a headline; nil if the reading has no headlines.
	source func(procstats.ID) string
}

// counter returns a counter of the reading; ok is false if it was not read.
func (n *numbers) counter(id procstats.ID) (c procstats.CounterReading, ok bool) {
	value, ok := n.number(id)
	c = procstats.CounterReading{Value: value, At: n.at, Run: n.run}
	if n.source != nil {
		c.Source = n.source(id)
	}
	return c, ok
}

// sinceBoot converts the seconds of the monotonic clock.
func sinceBoot(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// pointReading returns the reading of a point; nil for nil.
func pointReading(p *shape.Point) *numbers {
	if p == nil {
		return nil
	}
	return &numbers{at: sinceBoot(p.Mono), run: p.Run, number: p.Number}
}

// sampleReading returns the reading of a sample; nil for nil.
func sampleReading(s *client.Sample, run int) *numbers {
	if s == nil {
		return nil
	}
	number := func(id procstats.ID) (float64, bool) {
		if value, ok := s.Headlined(id); ok {
			return value, true
		}
		return s.Number(id)
	}
	source := func(id procstats.ID) string { return s.Headline[id.String()].Source }
	return &numbers{at: sinceBoot(s.Mono), run: run, number: number, source: source}
}

// usageOf returns the usage of a reading. Rates need the reading before it, of the same start of the task.
func usageOf(now, before *numbers) usage {
	rate := func(ids ...procstats.ID) *float64 { return rateOf(now, before, ids...) }
	f := usage{
		Cores:          rate(procstats.HeadlineCPU, procstats.CgroupCPUUsage, procstats.TreeCPU, procstats.PortableCPU),
		Memory:         first(now, procstats.HeadlineMemory),
		Charged:        first(now, procstats.HeadlineMemoryCharged, procstats.CgroupMemoryCurrent),
		Peak:           first(now, procstats.HeadlineMemoryPeak, procstats.CgroupMemoryPeak),
		Limit:          first(now, procstats.CgroupMemoryMax),
		Read:           rate(procstats.HeadlineIORead, procstats.CgroupIORead, procstats.TreeIORead),
		Written:        rate(procstats.CgroupIOWrite, procstats.HeadlineIOHanded, procstats.TreeIOWrite, procstats.HeadlineIOWrite),
		Received:       rate(procstats.HeadlineNetworkReceived, procstats.SkbReceived),
		Sent:           rate(procstats.HeadlineNetworkSent, procstats.SkbSent),
		CPUPressure:    rate(procstats.PSICPUSome),
		MemoryPressure: rate(procstats.PSIMemorySome),
		IOPressure:     rate(procstats.PSIIOSome),
		Processes:      first(now, procstats.TreeProcesses, procstats.PortableProcesses),
	}
	if late := rate(procstats.TreeCPULate); f.Cores != nil && late != nil && first(now, procstats.CgroupCPUUsage) == nil {
		*f.Cores = max(0, *f.Cores-*late) // what was used before it was seen: no cgroup counts it when it is used
	}
	if f.Cores == nil {
		f.Cores = first(now, procstats.HeadlineCores)
	}
	if f.Memory == nil {
		f.Memory = first(now, procstats.TreeRSS, procstats.PortableRSS)
	}
	return f
}

// first returns the first of ids that a reading has.
func first(now *numbers, ids ...procstats.ID) *float64 {
	if now == nil {
		return nil
	}
	for _, id := range ids {
		if value, ok := now.number(id); ok {
			return &value
		}
	}
	return nil
}

// rateOf returns the rate of the first of ids that has one between two readings.
func rateOf(now, before *numbers, ids ...procstats.ID) *float64 {
	if now == nil || before == nil {
		return nil
	}
	for _, id := range ids {
		c, okNow := now.counter(id)
		earlier, okBefore := before.counter(id)
		if !okNow || !okBefore {
			continue
		}
		if rate, reason := c.RateSince(earlier); reason == "" {
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
	word, most, known := "", 0.0, false
	for _, p := range []struct {
		word  string
		share *float64
	}{{"cpu", f.CPUPressure}, {"memory", f.MemoryPressure}, {"io", f.IOPressure}} {
		if p.share == nil {
			continue
		}
		known = true
		if *p.share > most {
			word, most = p.word, *p.share
		}
	}
	if !known {
		return procstats.NoValue
	}
	return strings.TrimSpace(procstats.Share.Text(min(most, 1)) + " " + word)
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
