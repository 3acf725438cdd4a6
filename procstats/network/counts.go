// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package network

// Traffic is what went one way.
type Traffic struct {
	// Bytes are those of IP packets, with their headers.
	Bytes   uint64
	Packets uint64
}

// Counts are the packets of the sockets of a cgroup. Those of the loopback interface are counted apart.
type Counts struct {
	Received, ReceivedLoopback, Sent, SentLoopback Traffic
}

func (t *Traffic) add(other Traffic) {
	t.Bytes += other.Bytes
	t.Packets += other.Packets
}

func (c *Counts) add(other *Counts) {
	c.Received.add(other.Received)
	c.Sent.add(other.Sent)
	c.ReceivedLoopback.add(other.ReceivedLoopback)
	c.SentLoopback.add(other.SentLoopback)
}
