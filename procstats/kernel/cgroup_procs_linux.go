// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

// CgroupProcs reads the members of one cgroup and of all that are nested in it.
type CgroupProcs struct {
	dir string
	// v2 marks the unified hierarchy. On v1 cgroup.procs is opened anew for each reading: a descriptor that is
	// read again within a second of the last time gets the old list again, for as long as that goes on
	// (CGROUP_PIDLIST_DESTROY_DELAY in kernel/cgroup/cgroup-v1.c).
	v2 bool
	// Nested is set once a reading has found cgroups within this one.
	Nested bool

	folder, procs File
	buf           *[]byte // the caller's, to read into
	path          []byte  // of cgroup.procs, with the NUL that system calls want
}

// NewCgroupProcs returns the members of a cgroup's own folder; nothing is opened before the first list. Files are read
// into buf.
func NewCgroupProcs(c procstats.Cgroup, buf *[]byte) *CgroupProcs {
	dir := c.Procs()
	return &CgroupProcs{dir: dir, v2: dir == c.V2, buf: buf, path: procsPath(dir)}
}

// ListCgroup lists the processes in the cgroup of a folder and in all that are nested in it, once. A cgroup that is
// gone has none.
func ListCgroup(dir string) ([]int, error) {
	c := CgroupProcs{dir: dir, buf: new([]byte), path: procsPath(dir)}
	pids, _, err := c.List(nil)
	return pids, errors.Join(err, c.Close())
}

func procsPath(dir string) []byte { return []byte(filepath.Join(dir, "cgroup.procs") + "\x00") }

// List appends the PIDs of all members; unseen counts those that have no PID in this namespace. A cgroup that is
// gone has none. PIDs can come twice where processes move while they are listed.
func (c *CgroupProcs) List(pids []int) (all []int, unseen int, err error) {
	if err := c.open(); err != nil || !c.folder.IsOpen() {
		return pids, 0, err
	}
	if c.v2 {
		*c.buf, err = c.procs.Read(*c.buf)
	} else {
		*c.buf, err = ReadOnce(unix.AT_FDCWD, c.path, *c.buf)
	}
	if err == nil {
		pids, unseen, err = AppendPIDs(pids, *c.buf)
	}
	if err != nil && Gone(err) {
		return pids, 0, c.Close()
	}
	var folder unix.Stat_t
	if err := unix.Fstat(c.folder.FD(), &folder); err != nil {
		return pids, 0, err
	}
	// The link count is the number of folders within plus two, in cgroup file systems (kernfs) as in most others;
	// some that hold captured trees always say 1.
	if folder.Nlink == 2 {
		return pids, unseen, err
	}
	c.Nested = true
	return c.walk(c.dir, pids, unseen, err)
}

// open opens what is kept open, and leaves it closed where the cgroup is gone.
func (c *CgroupProcs) open() (err error) {
	if c.folder.IsOpen() {
		return nil
	}
	if c.folder, err = OpenAt(unix.AT_FDCWD, append([]byte(c.dir), 0), unix.O_DIRECTORY); err == nil && c.v2 {
		c.procs, err = OpenAt(unix.AT_FDCWD, c.path, 0)
	}
	if err != nil {
		_ = c.Close()
		if Gone(err) {
			return nil
		}
	}
	return err
}

// walk adds the members of nested cgroups, at any depth. err is that of the levels above and is kept.
func (c *CgroupProcs) walk(dir string, pids []int, unseen int, err error) (all []int, total int, _ error) {
	entries, readErr := os.ReadDir(dir)
	if readErr != nil && !Gone(readErr) {
		return pids, unseen, errors.Join(err, readErr)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		nested := filepath.Join(dir, entry.Name())
		var hidden int
		var listErr error
		if *c.buf, listErr = ReadOnce(unix.AT_FDCWD, procsPath(nested), *c.buf); listErr == nil {
			pids, hidden, listErr = AppendPIDs(pids, *c.buf)
			unseen += hidden
		}
		// The processes of a threaded cgroup are those of the domain above it, which lists them: EOPNOTSUPP.
		if listErr != nil && !Gone(listErr) && !errors.Is(listErr, unix.EOPNOTSUPP) {
			err = errors.Join(err, listErr)
		}
		pids, unseen, err = c.walk(nested, pids, unseen, err)
	}
	return pids, unseen, err
}

// Close closes what is kept open; List opens it again.
func (c *CgroupProcs) Close() error { return errors.Join(c.folder.Close(), c.procs.Close()) }
