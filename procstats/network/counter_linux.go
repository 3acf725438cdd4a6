// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/tachograph/tacho/procstats/kernel"
)

// Counter counts the packets of one cgroup until it is closed. The counts outlive the cgroup.
type Counter struct {
	counts *ebpf.Map
	links  []*link.RawLink
	perCPU []Counts // of Read
}

// Count begins with the cgroup in dir, a directory of the version 2 hierarchy.
func Count(host kernel.FS, dir string) (*Counter, error) {
	c, err := open(dir)
	if err != nil {
		return nil, explain(host, err)
	}
	return c, nil
}

func open(dir string) (*Counter, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "tacho_network", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: countsSize, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("create BPF map: %w", err)
	}
	c := &Counter{counts: m}
	cgroup, err := os.Open(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("count packets of cgroup: %w", err), c.Close())
	}
	err = errors.Join(
		c.attach(cgroup, ebpf.AttachCGroupInetIngress, program("tacho_received", ebpf.AttachCGroupInetIngress, m, receivedAt)),
		c.attach(cgroup, ebpf.AttachCGroupInetEgress, program("tacho_sent", ebpf.AttachCGroupInetEgress, m, sentAt)),
	)
	if err = errors.Join(err, cgroup.Close()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// attach adds a program to those of the cgroup. A link never replaces others, and the kernel removes it with this process.
func (c *Counter) attach(cgroup *os.File, to ebpf.AttachType, spec *ebpf.ProgramSpec) error {
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return fmt.Errorf("load BPF program %s: %w", spec.Name, err)
	}
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: int(cgroup.Fd()), Program: p, Attach: to})
	if err != nil {
		return errors.Join(fmt.Errorf("attach BPF program to cgroup %s: %w", cgroup.Name(), err), p.Close())
	}
	c.links = append(c.links, l)
	return p.Close() // the link holds it
}

// Read returns what was counted so far.
func (c *Counter) Read() (Counts, error) {
	if err := c.counts.Lookup(uint32(0), &c.perCPU); err != nil {
		return Counts{}, fmt.Errorf("read counts of packets: %w", err)
	}
	var sum Counts
	for i := range c.perCPU {
		sum.add(&c.perCPU[i])
	}
	return sum, nil
}

// Close detaches the programs.
func (c *Counter) Close() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, c.counts.Close())...)
}
