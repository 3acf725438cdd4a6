// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package agent has the agent command: it starts the agent of one node and serves it on its socket and over TCP.
package agent
