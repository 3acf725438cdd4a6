// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/tachograph/tacho/executor/record"
)

// errStarting says that the tacho run of an incomplete run holds its lock.
var errStarting = errors.New("the run is starting")

// SplitIncomplete separates incomplete runs from the others: tacho run was killed before it started the command, and
// left a directory without a record. Runs that are starting are in neither list.
func SplitIncomplete(entries []record.Entry) (others, incomplete []record.Entry) {
	for _, entry := range entries {
		if !errors.Is(entry.Err, fs.ErrNotExist) || !withoutRecord(entry.Dir) {
			others = append(others, entry)
			continue
		}
		lock, err := tryLock(entry.Dir)
		switch {
		case err == nil:
			_ = lock.Close() // only unlocks it
			incomplete = append(incomplete, entry)
		case errors.Is(err, errStarting):
		default:
			others = append(others, entry)
		}
	}
	return others, incomplete
}

// withoutRecord reports whether a directory has the files that a run has before its record, and no other file: it could
// be a directory that tacho run did not create.
func withoutRecord(dir string) bool {
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	hasUsage := false
	for _, file := range files {
		info, err := file.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
			return false
		case file.Name() == record.UsageFile:
			hasUsage = info.Size() == 0
		case strings.HasPrefix(file.Name(), "."+record.InfoFile+"."): // the temporary file of the record
		case file.Name() != "stdout" && file.Name() != "stderr":
			return false
		}
	}
	return hasUsage
}

// RemoveIncomplete deletes the directory of an incomplete run, unless the run has a record by now.
func RemoveIncomplete(dir string) error {
	lock, err := tryLock(dir)
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	defer lock.Close()
	if !withoutRecord(dir) {
		return nil
	}
	return os.RemoveAll(dir)
}
