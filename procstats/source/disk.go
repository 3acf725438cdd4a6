// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
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

	walk  *diskWalk // the one under way, nil between walks
	began procstats.Stamp
	// last is what the last walk found that has ended.
	last diskSums
}

// diskSums is what one walk found.
type diskSums struct {
	// began is when the walk began, stamp when it ended, or when the sums were taken of one that is under way.
	began, stamp procstats.Stamp
	bytes, files int64
	// unread counts folders and files that could not be looked at, reason says why the first could not. It names none of
	// them: the task chooses their names, and readers who may see no paths see reasons.
	unread int
	reason string
}

// openDisk returns the source of the disk_ measurements: the allocated blocks of everything in the target's folder
// and of the folder itself, a file with several names once, symbolic links not followed, other file systems not
// entered. The sums of a walk that is under way are published, as lower bounds, once one of them is above that of the
// walk before, and so are those of a walk that could not read all.
func openDisk(t Target, sel procstats.Selection) *diskSource {
	return &diskSource{
		dir: t.Dir, task: selected(sel, procstats.SourceDisk, procstats.TaskScope),
		limits: t.Disk.withDefaults(), now: kernel.Now,
	}
}

const (
	reasonNoDir  = "the task has no directory of its own"
	walkUnderWay = "under way"
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
	sums := d.sums()
	s.SetRead(procstats.SourceDisk, sums.stamp)
	if sums.began.Zero() {
		putAbsent(s, d.task, sums.reason)
		return
	}
	for _, id := range d.task {
		switch id {
		case procstats.DiskUsage:
			s.SetNumber(id, float64(sums.bytes))
		case procstats.DiskFiles:
			s.SetNumber(id, float64(sums.files))
		case procstats.DiskWalk:
			s.Task.Put(procstats.TextReading(id, cmp.Or(sums.reason, procstats.WalkComplete)))
		case procstats.DiskWalkStart:
			s.SetNumber(id, float64(sums.began.Wall.UnixMilli())/1e3)
		}
	}
}

// sums are those of the last walk, or what the one under way has found if that is more.
func (d *diskSource) sums() diskSums {
	if d.walk == nil || d.walk.sums.bytes <= d.last.bytes && d.walk.sums.files <= d.last.files {
		return d.last
	}
	sums := d.walk.sums
	sums.began, sums.stamp, sums.reason = d.began, d.now(), walkUnderWay
	return sums
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
		d.walk, d.began = walk, began
	}
	for d.walk.step() {
		if d.now().Mono-began.Mono >= d.limits.Budget {
			return
		}
	}
	d.last = d.walk.sums
	d.last.began, d.last.stamp = d.began, d.now()
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
