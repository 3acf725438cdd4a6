// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package agent tests the agent's binary from outside: over its socket, with real tasks, and with its process killed
// at any moment.
package agent
