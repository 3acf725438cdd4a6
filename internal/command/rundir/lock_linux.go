// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Lock marks a run as starting until the file is closed. It is a flock(2), which the kernel releases when the process
// dies.
func Lock(dir string) (*os.File, error) {
	file, err := flock(dir, unix.LOCK_EX) // others hold it only for a moment, in tryLock
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil || stat.Nlink == 0 {
		return nil, errors.Join(fmt.Errorf("start run: %s is being deleted", dir), err, file.Close())
	}
	return file, nil
}

// tryLock locks a run that is not locked, else it returns errStarting.
func tryLock(dir string) (*os.File, error) {
	file, err := flock(dir, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errStarting
	}
	return file, err
}

func flock(dir string, how int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, record.UsageFile), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("lock run: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	return file, nil
}

// alive reports whether a process of a record still exists: same PID, start time and boot. A zombie does not count.
// A process in another PID namespace, for example in a container that shares the directory, may exist.
func alive(host kernel.FS, p record.Process, bootID string) bool {
	boot, err := kernel.BootID(host)
	if err != nil || boot != bootID {
		return false
	}
	here := kernel.PIDNamespace(host)
	elsewhere := p.PIDNamespace != "" && here != "" && p.PIDNamespace != here
	return elsewhere || kernel.Alive(host, procstats.ProcessID{PID: p.PID, Start: p.StartTicks})
}
