// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"fmt"
	"os"
	"sync"
)

// maxLogBytes bounds the executor's own log: it says little, and no other program rotates it.
const maxLogBytes = 256 << 10

// boundedLog is a log file that is made with its first line and starts again when it is full; the lines before are
// kept in one older file.
type boundedLog struct {
	path string

	mu   sync.Mutex // guards following
	file *os.File
	size int
}

// Write implements io.Writer.
func (l *boundedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size+len(line) > maxLogBytes {
		if err := l.file.Close(); err != nil {
			return 0, fmt.Errorf("close log: %w", err)
		}
		l.file = nil
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return 0, fmt.Errorf("rotate log: %w", err)
		}
	}
	if l.file == nil {
		file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return 0, fmt.Errorf("open log: %w", err)
		}
		l.file, l.size = file, 0
	}
	n, err := l.file.Write(line)
	l.size += n
	return n, err
}
