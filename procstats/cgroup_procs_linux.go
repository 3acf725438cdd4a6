// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cgroupProcs reads the members of one cgroup and of all that are nested in it.
type cgroupProcs struct {
	dir string
	// v2 tells the unified hierarchy. On v1 cgroup.procs is opened anew for each reading: a descriptor that is
	// read again within a second of the last time gets the old list again, for as long as that goes on
	// (CGROUP_PIDLIST_DESTROY_DELAY in kernel/cgroup/cgroup-v1.c).
	v2 bool
	// nested is set once a reading has found cgroups within this one.
	nested bool

	folder, procs keptFile
	path          []byte // of cgroup.procs, with the NUL that system calls want
}

func newCgroupProcs(t Target) *cgroupProcs {
	dir := t.Cgroup.Procs()
	if dir == "" || t.Cgroup.Shared {
		return nil
	}
	return &cgroupProcs{dir: dir, v2: dir == t.Cgroup.V2, path: []byte(filepath.Join(dir, "cgroup.procs") + "\x00")}
}

// list appends the PIDs of all members; unseen counts those that have no PID in this namespace. A cgroup that is
// gone has none. PIDs can come twice where processes move while they are listed.
func (c *cgroupProcs) list(m *Members, pids []int) (all []int, unseen int, err error) {
	if err := c.open(); err != nil || !c.folder.isOpen() {
		return pids, 0, err
	}
	if c.v2 {
		m.buf, err = c.procs.read(m.buf)
	} else {
		m.buf, err = readOnce(c.path, m.buf)
	}
	if err == nil {
		pids, unseen, err = appendPIDs(pids, m.buf)
	}
	if err != nil && gone(err) {
		return pids, 0, c.close()
	}
	var folder unix.Stat_t
	if err := unix.Fstat(c.folder.number-1, &folder); err != nil {
		return pids, 0, err
	}
	// The link count is the number of folders within plus two, in cgroup file systems (kernfs) as in most others;
	// some that hold captured trees always say 1.
	if folder.Nlink == 2 {
		return pids, unseen, err
	}
	c.nested = true
	return c.walk(m, c.dir, pids, unseen, err)
}

// open opens what is kept open, and leaves it closed where the cgroup is gone.
func (c *cgroupProcs) open() (err error) {
	if c.folder.isOpen() {
		return nil
	}
	if c.folder, err = openat(unix.AT_FDCWD, append([]byte(c.dir), 0), unix.O_DIRECTORY); err == nil && c.v2 {
		c.procs, err = openat(unix.AT_FDCWD, c.path, 0)
	}
	if err != nil {
		_ = c.close()
		if gone(err) {
			return nil
		}
	}
	return err
}

// walk adds the members of nested cgroups, at any depth. err is that of the levels above and is kept.
func (c *cgroupProcs) walk(m *Members, dir string, pids []int, unseen int, err error) (all []int, total int, _ error) {
	entries, readErr := os.ReadDir(dir)
	if readErr != nil && !gone(readErr) {
		return pids, unseen, errors.Join(err, readErr)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		nested := filepath.Join(dir, entry.Name())
		var hidden int
		var listErr error
		if m.buf, listErr = readOnce([]byte(filepath.Join(nested, "cgroup.procs")+"\x00"), m.buf); listErr == nil {
			pids, hidden, listErr = appendPIDs(pids, m.buf)
			unseen += hidden
		}
		// The processes of a threaded cgroup are those of the domain above it, which lists them: EOPNOTSUPP.
		if listErr != nil && !gone(listErr) && !errors.Is(listErr, unix.EOPNOTSUPP) {
			err = errors.Join(err, listErr)
		}
		pids, unseen, err = c.walk(m, nested, pids, unseen, err)
	}
	return pids, unseen, err
}

func (c *cgroupProcs) close() error { return errors.Join(c.folder.close(), c.procs.close()) }

// readOnce opens, reads and closes a file; its path ends in NUL.
func readOnce(path, buf []byte) ([]byte, error) {
	f, err := openat(unix.AT_FDCWD, path, 0)
	if err != nil {
		return buf[:0], err
	}
	data, err := f.read(buf)
	return data, errors.Join(err, f.close())
}
