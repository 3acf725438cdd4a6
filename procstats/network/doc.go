// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package network counts the IP packets and bytes that the sockets of a cgroup receive and send.
//
// Two BPF programs of some dozen instructions, assembled here, are attached to the ingress and egress hooks of a cgroup of
// version 2 (cgroup_skb, with links since Linux 5.7): nothing runs for the packets of other cgroups. They need CAP_BPF and
// CAP_NET_ADMIN.
package network
