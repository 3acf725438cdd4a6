// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package command holds the commands of tacho: flags, text and exit codes. What they show and start is made
// elsewhere.
package cli

// The groups under which the help lists commands.
const (
	GroupMeasure = "measure"
	GroupRecords = "records"
	GroupHost    = "host"
	GroupAgent   = "agent"
)
