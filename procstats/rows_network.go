// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// networkRows are the packets of the task's cgroup. They are lower bounds: what has divided or merged a packet has not, and the hooks are
// not run for each packet of a connection that is closed.
//
//nolint:gochecknoglobals // part of the one table, never written to
var networkRows = [...]Measurement{
	{
		ID: SkbReceived, Name: "skb_received_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceSkb, Guarantee: LowerBound,
		File:    "__sk_buff.len at the ingress hook of the task's cgroup v2 (BPF_PROG_TYPE_CGROUP_SKB)",
		Help:    "Bytes of IP packets, headers included, that sockets of the task received on all interfaces but loopback.",
		Pitfall: "A socket belongs to the cgroup in which it was made: one that the task inherited does not count, and one that it passed on does. Counted although it is dropped behind the hook: a packet that finds the buffer of its socket full. Not counted: AF_UNIX, AF_PACKET, packets of TCP connections that are closed already, and the headers of TCP packets that the kernel has merged with others (GRO).",
	},
	{
		ID: SkbSent, Name: "skb_sent_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceSkb, Guarantee: LowerBound,
		File:    "__sk_buff.len at the egress hook of the task's cgroup v2 (BPF_PROG_TYPE_CGROUP_SKB)",
		Help:    "Bytes of IP packets, headers included, that sockets of the task handed to all interfaces but loopback.",
		Pitfall: "Counted before the interface divides large TCP packets (segmentation offload): the headers of the further segments are missing. Counted although it is dropped behind the hook: a packet to an address that no neighbour has, or that finds a queue full. See also skb_received_bytes_total.",
	},
	{
		ID: SkbReceivedPackets, Name: "skb_received_packets_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceSkb, Guarantee: LowerBound,
		File:    "runs of the program at the ingress hook of the task's cgroup v2",
		Help:    "IP packets that sockets of the task received on all interfaces but loopback.",
		Pitfall: "Several TCP packets that the kernel has merged (GRO), and the fragments of a datagram, count as one. See also skb_received_bytes_total.",
	},
	{
		ID: SkbSentPackets, Name: "skb_sent_packets_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceSkb, Guarantee: LowerBound,
		File:    "runs of the program at the egress hook of the task's cgroup v2",
		Help:    "IP packets that sockets of the task handed to all interfaces but loopback.",
		Pitfall: "A TCP packet that the interface divides (segmentation offload, up to 64 KiB), and a datagram that is fragmented, count as one. See also skb_sent_bytes_total.",
	},
	{
		ID: SkbLoopbackReceived, Name: "skb_loopback_received_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceSkb, Guarantee: LowerBound,
		File:    "__sk_buff.len at the ingress hook of the task's cgroup v2, of the interface with index 1",
		Help:    "Bytes of IP packets that sockets of the task received on the loopback interface.",
		Pitfall: "If both ends are the task's, the same bytes are in skb_loopback_sent_bytes_total.",
	},
	{
		ID: SkbLoopbackSent, Name: "skb_loopback_sent_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceSkb, Guarantee: LowerBound,
		File:    "__sk_buff.len at the egress hook of the task's cgroup v2, of the interface with index 1",
		Help:    "Bytes of IP packets that sockets of the task sent on the loopback interface.",
		Pitfall: "A large TCP packet is counted before the kernel divides it: without the headers of the further ones, which skb_loopback_received_bytes_total has.",
	},
	{
		ID: SkbLoopbackReceivedPackets, Name: "skb_loopback_received_packets_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceSkb, Guarantee: LowerBound,
		File: "runs of the program at the ingress hook of the task's cgroup v2, for the interface with index 1",
		Help: "IP packets that sockets of the task received on the loopback interface.",
	},
	{
		ID: SkbLoopbackSentPackets, Name: "skb_loopback_sent_packets_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceSkb, Guarantee: LowerBound,
		File:    "runs of the program at the egress hook of the task's cgroup v2, for the interface with index 1",
		Help:    "IP packets that sockets of the task sent on the loopback interface.",
		Pitfall: "A large TCP packet is counted before the kernel divides it, into two packets as a rule. See also skb_loopback_received_packets_total.",
	},
	{
		ID: SkbStartTime, Name: "skb_start_time_seconds",
		Unit: Time, Kind: Gauge, Scope: TaskScope, Source: SourceSkb, Guarantee: Exact,
		File:    "the clock of the process that counts",
		Help:    "Since when packets are counted without a gap, in seconds since 1970; absent if that is since the start of the task.",
		Pitfall: "After a restart of the agent the counters go on, and packets in between are missing.",
	},
}
