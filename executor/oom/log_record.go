// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LogRecord is one record of /dev/kmsg, Documentation/ABI/testing/dev-kmsg.
type LogRecord struct {
	// Priority is the syslog level and facility.
	Priority int
	// Sequence numbers the records since boot.
	Sequence uint64
	// Time is when it was logged, on the log's own clock: since boot, without suspended time, and not steered as
	// CLOCK_MONOTONIC is. The two drift apart by some parts in a hundred thousand.
	Time time.Duration
	// Text is the message without its dictionary.
	Text string
}

var errRecord = errors.New("not a record of /dev/kmsg")

// ParseLogRecord reads "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,more];TEXT" and passes over the dictionary lines that may
// follow, which begin with a space.
func ParseLogRecord(data []byte) (LogRecord, error) {
	head, text, found := bytes.Cut(data, []byte{';'})
	if !found {
		return LogRecord{}, fmt.Errorf("%w: no semicolon", errRecord)
	}
	fields := strings.Split(string(head), ",")
	if len(fields) < 3 {
		return LogRecord{}, fmt.Errorf("%w: %q", errRecord, head)
	}
	priority, err := strconv.ParseUint(fields[0], 10, 31)
	if err != nil {
		return LogRecord{}, fmt.Errorf("%w: priority: %w", errRecord, err)
	}
	sequence, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return LogRecord{}, fmt.Errorf("%w: sequence: %w", errRecord, err)
	}
	const most = uint64(1<<63-1) / uint64(time.Microsecond)
	stamp, err := strconv.ParseUint(fields[2], 10, 64)
	if err != nil || stamp > most {
		return LogRecord{}, fmt.Errorf("%w: time %q", errRecord, fields[2])
	}
	text, _, _ = bytes.Cut(text, []byte{'\n'})
	return LogRecord{
		Priority: int(priority), Sequence: sequence, Time: time.Duration(stamp) * time.Microsecond,
		Text: unescape(string(text)),
	}, nil
}

// unescape undoes the \xNN that the kernel writes for bytes which are not printable, and for the backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			if n, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
