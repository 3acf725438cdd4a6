// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// firstPause and longestPause are the pauses between two tries to write while a disk is full.
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
	// dropPause is how long bytes are dropped before the next attempt, which can be slow on a full file system.
	dropPause = 200 * time.Millisecond
)

// target takes bytes, some of them with each call.
type target interface {
	write(p []byte) (n int, err error)
	endLine() error
}

// sink writes to a target, and decides about bytes that cannot be written. It belongs to one goroutine.
type sink struct {
	name   string
	to     target
	report Report
	// dropOnFull makes a full disk a reason to drop bytes.
	dropOnFull bool

	// dropped counts all lost bytes, unreported those that are in no event; reason is the last cause.
	dropped, unreported int64
	reason              error
	// dropping is set from a loss to the next attempt, which is made at nextTry.
	dropping bool
	nextTry  time.Time
	// cutLine is set while the line that lost bytes continues.
	cutLine bool

	dropLimiter, blockLimiter limiter
}

// put writes bytes. If they cannot be written now it waits until hard is done, or drops them.
func (s *sink) put(hard context.Context, p []byte) {
	if s.dropping {
		p = s.resume(p)
	}
	for len(p) > 0 {
		n, err := s.to.write(p)
		p = p[n:]
		if err != nil && !s.dropOnFull && isFull(err) {
			p, err = s.wait(hard, p, err)
		}
		if err != nil {
			s.drop(p, err)
			return
		}
	}
}

// isFull reports whether waiting may cure an error: a full disk or quota, or a shortage of memory or descriptors.
func isFull(err error) bool {
	shortages := []error{unix.ENOSPC, unix.EDQUOT, unix.ENOMEM, unix.EMFILE, unix.ENFILE}
	return slices.ContainsFunc(shortages, func(full error) bool {
		return errors.Is(err, full)
	})
}

// wait retries, after growing pauses, until something could be written. It returns the rest, and an error that
// waiting does not cure.
func (s *sink) wait(hard context.Context, p []byte, why error) (rest []byte, err error) {
	began, reported := time.Now(), s.blockLimiter.pass()
	if reported {
		s.reportBlocked(why)
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause):
		case <-hard.Done():
			return p, why
		}
		if pause == longestPause && !reported {
			reported = true
			s.reportBlocked(why)
		}
		var n int
		n, err = s.to.write(p)
		p = p[n:]
		if err == nil {
			break
		}
		if !isFull(err) {
			return p, err
		}
		why = err
	}
	if reported {
		seconds := time.Since(began).Seconds()
		s.say(KindUnblocked, fmt.Sprintf("%s is written again after %.1f s; nothing was lost", s.name, seconds),
			"seconds", strconv.FormatFloat(seconds, 'f', 3, 64))
	}
	return p, nil
}

func (s *sink) reportBlocked(why error) {
	s.say(KindBlocked, fmt.Sprintf("%s cannot be written: %v; the task waits when it writes more", s.name, why))
}

// resume returns the part of p to write after a loss, from the beginning of the next line.
func (s *sink) resume(p []byte) []byte {
	if time.Now().Before(s.nextTry) {
		s.lose(p)
		return nil
	}
	if s.cutLine {
		end := cmp.Or(bytes.IndexByte(p, '\n')+1, len(p))
		s.lose(p[:end])
		p = p[end:]
	}
	if s.cutLine || len(p) == 0 {
		return nil
	}
	// The line that is cut in the file must not continue with the next one's bytes.
	if err := s.to.endLine(); err != nil {
		s.drop(p, err)
		return nil
	}
	s.dropping = false
	return p
}

// drop drops bytes because of an error.
func (s *sink) drop(p []byte, why error) {
	s.reason, s.dropping, s.nextTry = why, true, time.Now().Add(dropPause)
	s.lose(p)
}

// lose counts dropped bytes.
func (s *sink) lose(p []byte) {
	if len(p) == 0 {
		return
	}
	s.cutLine = p[len(p)-1] != '\n'
	s.count(len(p))
}

func (s *sink) count(bytes int) {
	s.dropped += int64(bytes)
	s.unreported += int64(bytes)
	if s.dropLimiter.pass() {
		s.reportDropped()
	}
}

// reportDropped reports losses that no event has reported yet.
func (s *sink) reportDropped() {
	if s.unreported == 0 {
		return
	}
	s.say(KindDropped, fmt.Sprintf("%s lost %d bytes, %d in total: %v", s.name, s.unreported, s.dropped, s.reason),
		"bytes", strconv.FormatInt(s.unreported, 10), "bytes_total", strconv.FormatInt(s.dropped, 10))
	s.unreported = 0
}

// say reports an event of the stream, with pairs of annotations.
func (s *sink) say(kind, message string, pairs ...string) {
	annotations := map[string]string{"stream": s.name}
	for pair := range slices.Chunk(pairs, 2) {
		annotations[pair[0]] = pair[1]
	}
	s.report(kind, message, annotations)
}
