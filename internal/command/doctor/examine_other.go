// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux || portable

package doctor

import (
	"os"
	"runtime"

	"github.com/tachograph/tacho/procstats/source"
)

// Examine checks what can be measured.
func Examine(host Host) (*Report, error) {
	r := &Report{Checks: []Check{{
		Name: "system", State: Partly, Found: runtime.GOOS,
		Costs:  "cgroups, pressure, OOM evidence and exact totals, which need Linux",
		Enable: "run tacho on Linux",
	}}}
	c := source.Open(source.Target{
		FS: host.FS, Roots: func() []int { return []int{os.Getpid()} },
		Reaped: func() source.Reaped { return source.Reaped{} },
	}, selection())
	r.measure(c)
	return r, c.Close()
}
