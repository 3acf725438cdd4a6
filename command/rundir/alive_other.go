// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package rundir

import (
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

// alive cannot tell here: processes have no start time that identifies them. The record is believed.
func alive(kernel.FS, record.Process, string) bool { return true }
