// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package source

import (
	"github.com/tachograph/tacho/procstats"
)

const reasonNoProcfs = "needs Linux: this system has no procfs"

// membership replaces what only Linux has.
type membership struct{}

func newMembership(Target) *membership { return &membership{} }

// treeSource replaces the source of the tree_ and process_ measurements, of which the portable source reads what there
// is.
type treeSource struct{ *absentSource }

func openTree(_ Target, sel procstats.Selection, _ *membership) *treeSource {
	return &treeSource{newAbsentSource(procstats.SourceTree, sel, reasonNoProcfs)}
}

func (*treeSource) lostChildren() bool { return false }

func (*treeSource) outside() []procstats.ProcessID { return nil }

func (*treeSource) closeSum(*procstats.Sample) {}

func (*treeSource) continueFrom(*procstats.Sample, func(procstats.ProcessID) bool) {}

// ioSource replaces the source of the tree_io_ and process_io_ measurements.
type ioSource struct{ *absentSource }

func openIO(_ Target, sel procstats.Selection, _ *membership) *ioSource {
	return &ioSource{newAbsentSource(procstats.SourceIO, sel, reasonNoProcfs)}
}

func (*ioSource) continueFrom(*procstats.Sample) {}

func openSmaps(_ Target, sel procstats.Selection, _ *membership) Source {
	return newAbsentSource(procstats.SourceSmaps, sel, reasonNoProcfs)
}

func openHugetlb(_ Target, sel procstats.Selection, _ func() *membership) Source {
	return newAbsentSource(procstats.SourceHugetlb, sel, reasonNoProcfs)
}
