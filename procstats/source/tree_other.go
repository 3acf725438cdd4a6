// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package source

import (
	"github.com/tachograph/tacho/procstats"
)

// Members replaces the membership that only Linux has.
type Members struct{}

// NewMembers prepares nothing: there is no procfs here.
func NewMembers(Target) *Members { return &Members{} }

// Tree replaces the source of the tree_ and process_ measurements; all of them are absent here.
type Tree struct{ *absentSource }

const reasonNoProcfs = "needs Linux: this system has no procfs"

// OpenTree returns a source that says that there is no procfs. The portable source reads what there is instead.
func OpenTree(_ Target, sel procstats.Selection, _ *Members) *Tree {
	return &Tree{newAbsentSource(procstats.SourceTree, sel, reasonNoProcfs)}
}

// LostChildren reports nothing: no process is looked at.
func (*Tree) LostChildren() bool { return false }

// Outside returns nothing: no process is looked at.
func (*Tree) Outside() []procstats.ProcessID { return nil }

func (*Tree) closeSum(*procstats.Sample) {}

// OpenIO returns a source that says that there is no procfs.
func OpenIO(_ Target, sel procstats.Selection, _ *Members) Source {
	return newAbsentSource(procstats.SourceIO, sel, reasonNoProcfs)
}

// OpenSmaps returns a source that says that there is no procfs.
func OpenSmaps(_ Target, sel procstats.Selection, _ *Members, _ SmapsLimits) Source {
	return newAbsentSource(procstats.SourceSmaps, sel, reasonNoProcfs)
}

// OpenHugetlb returns a source that says that there is no procfs.
func OpenHugetlb(_ Target, sel procstats.Selection, _ func() *Members) Source {
	return newAbsentSource(procstats.SourceHugetlb, sel, reasonNoProcfs)
}
