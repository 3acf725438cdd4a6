// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package node

import "net"

// Address is the machine's own IP address on the way to other machines; the loopback address if there is no such way.
func Address() string {
	// A connected UDP socket gets its local address from the routing table, and no packet is sent. The address is of a range
	// for documentation, RFC 5737.
	conn, err := net.Dial("udp", "192.0.2.1:9")
	if err != nil {
		return "127.0.0.1"
	}
	defer conn.Close()
	if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		return local.IP.String()
	}
	return "127.0.0.1"
}
