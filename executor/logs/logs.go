// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package logs writes a task's output to files that are rotated. Each stream is a series of files in one folder,
// <prefix>.stdout.<N> and <prefix>.stderr.<N>, N from 0; the one with the highest number is written to. A task that
// is started again in the same folder continues its series.
//
// Files are rotated between lines: one may be up to 16 KiB longer than its limit so that its last line is whole.
// Only a line that is longer still goes on in the next file. Read one after the other, the files of a series are
// what the task wrote, byte for byte.
//
// The task can write to the folder too, so nothing in it is trusted: files are opened below a descriptor of the folder,
// symbolic links are not followed, and only a regular file with one link is written to. The writer skips the numbers of
// other files.
//
// If a disk or a quota is full the stream is not read until there is room, and its writers wait. With DropOnFull bytes
// are dropped and counted instead, as they are if waiting would not help: after an I/O error, or if something else is
// where the folder was. A file or a folder that was removed is made again. Each of these is an event.
package logs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kinds of events.
const (
	// KindBlocked says that a disk or quota is full, and that the writers of the stream wait.
	KindBlocked = "log_blocked"
	// KindUnblocked says that the stream is written again, without a loss.
	KindUnblocked = "log_unblocked"
	// KindDropped says that bytes were lost, how many in all, and why.
	KindDropped = "log_dropped"
	// KindAbandoned says that a process outside of the task still holds a stream of the ended task.
	KindAbandoned = "log_abandoned"
	// KindSkipped says that something in the folder was not written to because it cannot be trusted.
	KindSkipped = "log_skipped"
	// KindRemoved says that a file was removed or replaced, and that the stream goes on in another one.
	KindRemoved = "log_removed"
	// KindRemains says that an old file cannot be removed.
	KindRemains = "log_remains"
)

// Report is called with what a user should know of their logs: a kind, a sentence, and the stream with numbers where
// there are any.
type Report func(kind, message string, annotations map[string]string)

// tellEvery is the shortest time between two events that say the same of a stream: a journal must not be flooded.
const tellEvery = time.Minute

// limiter lets an event pass at most once in tellEvery.
type limiter struct{ last time.Time }

func (l *limiter) pass() bool {
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < tellEvery {
		return false
	}
	l.last = now
	return true
}

// maxNumber is the highest number of a file that is taken for one of a series. No series gets there by itself; a
// file that the task made must not make the next number overflow.
const maxNumber = 1 << 53

// ErrInvalid says that options make no sense.
var ErrInvalid = errors.New("invalid log options")

// checkPrefix refuses what cannot be the beginning of a file name.
func checkPrefix(prefix string) error {
	if prefix == "" || strings.ContainsAny(prefix, "/\x00") {
		return fmt.Errorf("invalid prefix %q of a file name: %w", prefix, ErrInvalid)
	}
	return nil
}

// fileName returns the name of a file of a series.
func fileName(stem string, number int64) string { return stem + "." + strconv.FormatInt(number, 10) }

// fileNumber returns the number in the name of a file of a series; ok is false for all other names, among them
// numbers that are not written as fileName writes them.
func fileNumber(stem, name string) (number int64, ok bool) {
	digits, ok := strings.CutPrefix(name, stem+".")
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number < 0 || number > maxNumber || strconv.FormatInt(number, 10) != digits {
		return 0, false
	}
	return number, true
}
