// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package cli tests the commands that ask an agent from outside: the built binary, a real agent, real tasks, and a
// terminal.
package cli
