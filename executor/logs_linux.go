// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// collectLogs writes the task's output to its files. finish is for when nothing is left of the task; it returns when
// the files are whole.
func (t *task) collectLogs() (finish func()) {
	if t.logs == nil {
		return func() {}
	}
	ctx, taskIsGone := context.WithCancel(context.Background())
	var collecting sync.WaitGroup
	collecting.Go(func() { t.logs.Run(ctx) })
	return func() {
		taskIsGone()
		if !within(context.Background(), collectLimit, collecting.Wait) {
			// A file system that hangs: the end of the task must be known all the same.
			t.recorder.info.Notes = append(slices.Clip(t.recorder.info.Notes),
				"the end of the task's output is missing because the file system of its log files does not answer")
			return
		}
		if dropped := t.logs.Dropped(); dropped > 0 {
			t.recorder.info.Notes = append(slices.Clip(t.recorder.info.Notes),
				fmt.Sprintf("%d bytes of the task's output were lost because its log files could not be written", dropped))
		}
		if err := t.logs.Close(); err != nil {
			t.log.Error("close log files", "error", err)
		}
	}
}

// collectLimit is how long the end of a task waits for the collector of its logs, which gives up before that unless
// the kernel does not let it.
const collectLimit = 5 * time.Second

// within does what the kernel may hold up, and returns false if it takes longer than the limit, or than ctx: its
// goroutine is left behind then.
func within(ctx context.Context, limit time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

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
