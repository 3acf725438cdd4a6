// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package network counts the IP packets and bytes that the sockets of a cgroup receive and send.
//
// Two BPF programs of some dozen instructions, assembled here, are attached to the ingress and egress hooks of a
// cgroup of version 2 (cgroup_skb, with links since Linux 5.7): nothing runs for the packets of other cgroups. They
// need CAP_BPF and CAP_NET_ADMIN.
package network

import (
	"cmp"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// reasonFromStart is why a task has no time at which counting began.
const reasonFromStart = "counted since the start of the task"

// Source puts the counts of a task into its samples. It is a source.Source, used by one goroutine at a time.
type Source struct {
	selection procstats.Selection
	counter   *Counter // nil for the reason below
	reason    string
	since     time.Time // zero if the task had not been started when counting began
	before    Counts    // of an earlier reader of the task
	collected Counts    // by the counter, in the last sample
	sockets   sockets
}

// NoCgroup is why neither packets nor exits are counted of a task whose cgroup has others in it, or none.
const NoCgroup = "the task has no cgroup of version 2 to itself"

// Off returns a source that says of all packets that counting them is off.
func Off() *Source {
	return Absent(procstats.SourceSelection(procstats.SourceSkb), "not counted (network off)")
}

// Absent returns a source that says why packets are not counted.
func Absent(selection procstats.Selection, reason string) *Source {
	return &Source{selection: selection, reason: reason}
}

// Open counts the packets of the cgroup in dir, a directory of the version 2 hierarchy, of a task that has been
// started; started is false for one that has not. If nothing of it is selected nothing is loaded.
func Open(host kernel.FS, selection procstats.Selection, dir string, started bool) *Source {
	switch {
	case !selection.HasSource(procstats.SourceSkb):
		return Absent(selection, "not selected")
	case dir == "":
		return Absent(selection, NoCgroup)
	}
	s := &Source{selection: selection}
	if started {
		s.since = time.Now()
	}
	var err error
	if s.counter, err = Count(host, dir); err != nil {
		s.reason = err.Error()
	}
	return s
}

// Select replaces what the source puts into samples.
func (s *Source) Select(selection procstats.Selection) { s.selection = selection }

// Continue adds what an earlier reader of the task has counted, by its last sample. What came between the two was not
// counted: it is known without a gap since this one was opened.
func (s *Source) Continue(last *procstats.Sample) {
	for way := range s.before {
		bytes, _ := last.Task.Number(ids[way].bytes)
		packets, _ := last.Task.Number(ids[way].packets)
		s.before[way] = Traffic{Bytes: uint64(max(0, bytes)), Packets: uint64(max(0, packets))}
	}
}

// Describe implements source.Source.
func (s *Source) Describe() procstats.SourceDescription {
	return procstats.SourceDescription{ID: procstats.SourceSkb, Available: s.counter != nil, Reason: s.reason}
}

// Collect implements source.Source.
func (s *Source) Collect(into *procstats.Sample) {
	if !s.selection.HasSource(procstats.SourceSkb) {
		return
	}
	counts, reason := s.before, s.reason
	if s.counter != nil {
		s.collected = s.counter.Read()
		into.SetRead(procstats.SourceSkb, kernel.Now())
		counts.add(&s.collected)
	}
	for way, counted := range counts {
		into.SetSelected(s.selection, ids[way].bytes, float64(counted.Bytes), reason)
		into.SetSelected(s.selection, ids[way].packets, float64(counted.Packets), reason)
	}
	if s.since.IsZero() {
		reason = cmp.Or(reason, reasonFromStart)
	}
	into.SetSelected(s.selection, procstats.SkbStartTime, float64(s.since.UnixMicro())/1e6, reason)
	uncounted, reason := s.sockets.uncounted(into.Mono, s.reason)
	into.SetSelected(s.selection, procstats.SkbUncountedSockets, float64(uncounted), reason)
}

// Moved reports whether packets were counted since the last sample.
func (s *Source) Moved() bool { return s.counter != nil && s.counter.Read() != s.collected }

// Close implements source.Source.
func (s *Source) Close() error {
	if s.counter == nil {
		return nil
	}
	return s.counter.Close()
}

// Traffic is what went one way.
type Traffic struct {
	// Bytes are those of IP packets, with their headers.
	Bytes   uint64
	Packets uint64
}

// Counts are the packets of the sockets of a cgroup, as the programs count them: an array of the ways.
type Counts [4]Traffic

// The ways of Counts. The packets of the loopback interface are counted apart.
const (
	Received = iota
	ReceivedLoopback
	Sent
	SentLoopback
)

// ids are the measurements of each way.
//
//nolint:gochecknoglobals // constant
var ids = [len(Counts{})]struct{ bytes, packets procstats.ID }{
	Received:         {procstats.SkbReceived, procstats.SkbReceivedPackets},
	ReceivedLoopback: {procstats.SkbLoopbackReceived, procstats.SkbLoopbackReceivedPackets},
	Sent:             {procstats.SkbSent, procstats.SkbSentPackets},
	SentLoopback:     {procstats.SkbLoopbackSent, procstats.SkbLoopbackSentPackets},
}

func (c *Counts) add(other *Counts) {
	for way := range c {
		c[way].Bytes += other[way].Bytes
		c[way].Packets += other[way].Packets
	}
}
