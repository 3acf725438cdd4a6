// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package node

import (
	"context"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
)

// freshness is how long a reading serves further readers: a rate over less time means little.
const freshness = time.Second

// patience is how long the file systems may take to answer.
const patience = time.Second

// Meter reads what the machine uses. The zero Meter is ready for use.
type Meter struct {
	mu     sync.Mutex // guards following
	before []cpu.TimesStat
	latest *Stats
	// asking gets the answer of the file systems, if one is awaited.
	asking chan diskUse
	// askDisks stands in for usesOf in tests.
	askDisks func(ctx context.Context, dataDir string) diskUse
}

// diskUse is the use of the file systems.
type diskUse struct {
	data   *Disk
	disks  []Disk
	reason string // why something is missing
}

// Read returns a reading that is at most a second old. CPU use is since the previous reading; the first has none.
func (m *Meter) Read(ctx context.Context, dataDir string, r Resources) *Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latest != nil && time.Since(m.latest.Time) < freshness {
		return m.latest
	}
	s := &Stats{Time: time.Now(), Reasons: make(map[string]string)}
	m.cores(ctx, s, r)
	if memory, err := mem.VirtualMemoryWithContext(ctx); err != nil {
		s.Reasons["memory"] = err.Error()
	} else {
		s.Memory = Memory{Total: memory.Total, Available: memory.Available, Used: memory.Used, Free: memory.Free}
	}
	if seconds, err := host.UptimeWithContext(ctx); err != nil {
		s.Reasons["uptime"] = err.Error()
	} else {
		s.Uptime = time.Duration(seconds) * time.Second
	}
	m.disks(ctx, s, dataDir)
	m.latest = s
	return s
}

// disks reads the use of the file systems. A file system whose server is gone may block statfs(2) forever: disks then
// gives up, and starts no other attempt until this one has returned.
func (m *Meter) disks(ctx context.Context, s *Stats, dataDir string) {
	ask := usesOf
	if m.askDisks != nil {
		ask = m.askDisks
	}
	use := diskUse{reason: "a file system does not respond"}
	if m.asking != nil {
		select {
		case <-m.asking: // too late: it is of an earlier reading
			m.asking = nil
		default:
		}
	}
	if m.asking == nil {
		answer := make(chan diskUse, 1)
		go func() { answer <- ask(context.WithoutCancel(ctx), dataDir) }()
		select {
		case use = <-answer:
		case <-time.After(patience):
			m.asking = answer
		}
	}
	s.DataDisk, s.Disks = use.data, use.disks
	if use.reason != "" {
		s.Reasons["disk"] = use.reason
	}
}

func (m *Meter) cores(ctx context.Context, s *Stats, r Resources) {
	now, err := cpu.TimesWithContext(ctx, true)
	if err != nil {
		s.Reasons["cpu"] = err.Error()
		return
	}
	before := m.before
	m.before = now
	if len(before) != len(now) {
		s.Reasons["cpu"] = "no earlier reading yet"
		return
	}
	for i := range now {
		c := coreUse(before[i], now[i])
		s.CPU = append(s.CPU, c)
		s.CPUTicksConsumed += c.TotalPercent / 100 * r.CoreMHz
	}
}

// coreUse is one core's use between two readings, in percent of it.
func coreUse(a, b cpu.TimesStat) CPU {
	busy := func(t cpu.TimesStat) float64 { return t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal }
	idle := func(t cpu.TimesStat) float64 { return t.Idle + t.Iowait }
	c := CPU{Name: b.CPU}
	total := busy(b) + idle(b) - busy(a) - idle(a)
	if total <= 0 {
		return c
	}
	percent := func(d float64) float64 { return max(0, min(100, 100*d/total)) }
	c.User = percent(b.User + b.Nice - a.User - a.Nice)
	c.System = percent(b.System + b.Irq + b.Softirq - a.System - a.Irq - a.Softirq)
	c.Idle = percent(idle(b) - idle(a))
	c.TotalPercent = percent(busy(b) - busy(a))
	c.Total = c.TotalPercent
	return c
}

func usesOf(ctx context.Context, dataDir string) (use diskUse) {
	if usage, err := disk.UsageWithContext(ctx, dataDir); err == nil {
		use.data = new(diskOf("", usage))
	} else {
		use.reason = err.Error()
	}
	partitions, err := disk.PartitionsWithContext(ctx, false)
	if err != nil {
		use.reason = err.Error()
		return use
	}
	for _, p := range partitions {
		if usage, err := disk.UsageWithContext(ctx, p.Mountpoint); err == nil && usage.Total > 0 {
			use.disks = append(use.disks, diskOf(p.Device, usage))
		}
	}
	return use
}

func diskOf(device string, u *disk.UsageStat) Disk {
	return Disk{
		Device: device, Mountpoint: u.Path, Size: u.Total, Used: u.Used, Available: u.Free,
		UsedPercent: u.UsedPercent, InodesUsedPercent: u.InodesUsedPercent,
	}
}
