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
)

// Hold marks the folder of a run as one that is about to begin, until the file is closed: by flock(2), which the
// kernel gives up with the process.
func Hold(dir string) (*os.File, error) {
	file, err := flock(dir, unix.LOCK_EX) // whoever looks meanwhile does not take long
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil || stat.Nlink == 0 {
		return nil, errors.Join(fmt.Errorf("begin run: somebody deletes %s", dir), err, file.Close())
	}
	return file, nil
}

// tryLock holds the folder of a run that nobody holds; errBegins where somebody does.
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
		return nil, fmt.Errorf("begin run: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	return file, nil
}
