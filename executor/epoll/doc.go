// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package epoll waits for many descriptors in one goroutine, with epoll(7). The runtime's own poller needs a
// goroutine for each of them, which for hundreds of tasks at rest is most of what their owner holds.
package epoll
