// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"fmt"
	"os"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// diskSource walks the task's own folder, a part in each collection.
type diskSource struct {
	dir    string
	task   []procstats.ID
	limits DiskLimits
	now    func() procstats.Stamp

	walk *diskWalk // the one under way, nil between walks
	// last is what the last complete walk found; its stamp is the end of that walk.
	last diskSums
}

// diskSums is what one walk found.
type diskSums struct {
	stamp        procstats.Stamp
	bytes, files int64
	// unread counts folders and files that could not be looked at, reason says why the first could not. It names none of
	// them: the task chooses their names, and readers who may see no paths see reasons.
	unread int
	reason string
}

// openDisk returns the source of the disk_ measurements: the allocated blocks of everything in the target's folder
// and of the folder itself, a file with several names once, symbolic links not followed, other file systems not
// entered. Only complete walks are published, stamped with their end.
func openDisk(t Target, sel procstats.Selection) *diskSource {
	return &diskSource{
		dir: t.Dir, task: selected(sel, procstats.SourceDisk, procstats.TaskScope),
		limits: t.Disk.withDefaults(), now: kernel.Now,
	}
}

const (
	reasonNoDir   = "the task has no directory of its own"
	reasonWalking = "the first walk of the directory is under way"
)

// Describe implements Source.
func (d *diskSource) Describe() procstats.SourceDescription {
	description := procstats.SourceDescription{ID: procstats.SourceDisk}
	if d.dir == "" {
		description.Reason = reasonNoDir
		return description
	}
	w, err := startDiskWalk(d.dir)
	if err != nil {
		description.Reason = diskReason("open", err)
		return description
	}
	w.close()
	description.Available = true
	return description
}

// Collect implements Source.
func (d *diskSource) Collect(s *procstats.Sample) {
	if d.dir == "" {
		putAbsent(s, d.task, reasonNoDir)
		return
	}
	d.advance()
	s.SetRead(procstats.SourceDisk, d.last.stamp)
	for _, id := range d.task {
		switch {
		case d.last.stamp.Zero():
			s.SetAbsent(id, reasonWalking)
		case d.last.reason != "":
			s.SetAbsent(id, d.last.reason)
		case id == procstats.DiskUsage:
			s.SetNumber(id, float64(d.last.bytes))
		case id == procstats.DiskFiles:
			s.SetNumber(id, float64(d.last.files))
		}
	}
}

// diskReason says what could not be done with a file, and why, without its name.
func diskReason(op string, err error) string {
	if named, ok := errors.AsType[*os.PathError](err); ok {
		err = named.Err
	}
	return op + ": " + err.Error()
}

// advance continues the walk until it is complete or the budget is used up.
func (d *diskSource) advance() {
	began := d.now()
	if d.walk == nil {
		if !d.last.stamp.Zero() && began.Mono-d.last.stamp.Mono < d.limits.Every {
			return
		}
		walk, err := startDiskWalk(d.dir)
		if err != nil {
			d.last = diskSums{stamp: began, unread: 1, reason: diskReason("open", err)}
			return
		}
		d.walk = walk
	}
	for d.walk.step() {
		if d.now().Mono-began.Mono >= d.limits.Budget {
			return
		}
	}
	d.last = d.walk.sums
	d.last.stamp = d.now()
	if d.last.unread > 1 {
		d.last.reason = procstats.WithCounts(d.last.reason, fmt.Sprintf("and %d more", d.last.unread-1))
	}
	d.walk.close()
	d.walk = nil
}

// Close implements Source.
func (d *diskSource) Close() error {
	if d.walk == nil {
		return nil
	}
	err := d.walk.close()
	d.walk = nil
	return err
}

// maxDiskDepth bounds how deep folders may be nested: each is reached from the top, name by name.
const maxDiskDepth = 1024

// diskChunk is how many entries of a folder are looked at between two looks at the clock.
const diskChunk = 64

// maxDiskHeld is how many bytes a walk may remember: some 400,000 folders and files with several names.
const maxDiskHeld = 16 << 20

// inodeSize is about what one in a map takes, in bytes, and the header of a path.
const inodeSize = 40

// inode identifies a file, whatever its names.
type inode struct{ device, number uint64 }
