// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package rundir

import (
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

// alive returns true: without a start time nothing identifies a process, and the record counts.
func alive(kernel.FS, record.Process, string) bool { return true }
