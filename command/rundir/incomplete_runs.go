// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/executor/record"
)

// SplitIncomplete parts the runs that never began from the others: tacho run was killed before its command was started,
// and left a folder without a record. One that is about to begin is in neither list.
func SplitIncomplete(entries []record.Entry) (others, unbegun []record.Entry) {
	for _, entry := range entries {
		if !errors.Is(entry.Err, fs.ErrNotExist) || !isBare(entry.Dir) {
			others = append(others, entry)
			continue
		}
		held, err := tryLock(entry.Dir)
		switch {
		case err == nil:
			_ = held.Close() // gives the folder up again
			unbegun = append(unbegun, entry)
		case errors.Is(err, errStarting):
		default:
			others = append(others, entry)
		}
	}
	return others, unbegun
}

// errStarting says that whoever began a run is still at it.
var errStarting = errors.New("the run is about to begin")

// isBare reports whether a folder has in it what one of a run has before there is a record, and nothing else: it could
// be somebody else's.
func isBare(dir string) bool {
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	made := false
	for _, file := range files {
		info, err := file.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
			return false
		case file.Name() == record.UsageFile:
			made = info.Size() == 0
		case strings.HasPrefix(file.Name(), "."+record.InfoFile+"."): // was being written
		case file.Name() != "stdout" && file.Name() != "stderr":
			return false
		}
	}
	return made
}

// RemoveIncomplete deletes the folder of a run that never began.
func RemoveIncomplete(dir string) error {
	held, err := tryLock(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	defer held.Close()
	if !isBare(dir) {
		return nil // it began after all
	}
	return os.RemoveAll(dir)
}

// OldIncomplete returns those of the runs that never began which are old enough to be deleted.
func OldIncomplete(unbegun []record.Entry, olderThan time.Duration, now time.Time) []record.Entry {
	var list []record.Entry
	for _, entry := range unbegun {
		if info, err := os.Stat(entry.Dir); err == nil && now.Sub(info.ModTime()) > olderThan {
			list = append(list, entry)
		}
	}
	return list
}

// IncompleteError says which runs never began.
func IncompleteError(unbegun []record.Entry) error {
	var names []string
	for _, entry := range unbegun {
		names = append(names, entry.Name)
	}
	return fmt.Errorf("runs that never began, because tacho run was killed before: %s (tacho prune deletes what is left)", cli.SomeOf(names))
}
