// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// drainLimit bounds how long the end of a task waits for its logs, because a disk may be full, or a process outside
// the task may write into its streams forever.
const drainLimit = 2 * time.Second

// errDrainLimit is the cause of a drain that took longer.
var errDrainLimit = fmt.Errorf("the task has ended, and its logs could not be written within %s", drainLimit)

// Options say where a task's output goes and how much of it is kept.
type Options struct {
	// Dir is the folder, which exists. A symbolic link in its place is refused.
	Dir string
	// Prefix begins the files' names.
	Prefix string
	// MaxFileBytes is the length at which a file is followed by the next one.
	MaxFileBytes int64
	// MaxFiles is how many files of a stream are kept.
	MaxFiles int
	// DropOnFull drops bytes if a disk is full; otherwise the writers of the stream wait.
	DropOnFull bool
	// Report is called with events for the user, from several goroutines.
	Report Report
}

func (o *Options) check() error {
	if o.MaxFileBytes <= 0 || o.MaxFiles <= 0 {
		return fmt.Errorf("MaxFiles %d, MaxFileBytes %d: %w", o.MaxFiles, o.MaxFileBytes, ErrInvalid)
	}
	return checkPrefix(o.Prefix)
}

// Collector reads a task's standard output and standard error from pipes and writes them to files.
type Collector struct {
	folder         *folder
	stdout, stderr *stream
}

// Open opens the files and makes the pipes. The error wraps ErrInvalid if the options are invalid. The caller closes
// the Collector.
func Open(o Options) (*Collector, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	folder, err := openFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	stdout, err := openStream(folder, "stdout", o)
	if err != nil {
		return nil, errors.Join(err, folder.close())
	}
	stderr, err := openStream(folder, "stderr", o)
	if err != nil {
		return nil, errors.Join(err, stdout.close(), folder.close())
	}
	return &Collector{folder: folder, stdout: stdout, stderr: stderr}, nil
}

// TakeWriters returns the task's ends of the pipes. The caller closes them once the task has its copies: a stream
// ends with its last writer.
func (c *Collector) TakeWriters() (stdout, stderr *os.File) {
	stdout, stderr = c.stdout.task, c.stderr.task
	c.stdout.task, c.stderr.task = nil, nil
	return stdout, stderr
}

// Run writes until both streams have ended. ctx ends with the task: the content of the pipes is still written, for at
// most two seconds.
func (c *Collector) Run(ctx context.Context) {
	hard, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	stop := context.AfterFunc(ctx, func() {
		limit := time.AfterFunc(drainLimit, func() { giveUp(errDrainLimit) })
		defer limit.Stop()
		c.wake()
		<-hard.Done()
	})
	defer stop()
	var reading sync.WaitGroup
	reading.Go(func() { c.stderr.run(ctx, hard) })
	c.stdout.run(ctx, hard)
	reading.Wait()
}

// wake ends blocked reads.
func (c *Collector) wake() {
	for _, s := range []*stream{c.stdout, c.stderr} {
		// A pipe that is closed needs no waking.
		_ = s.pipe.SetReadDeadline(time.Unix(1, 0)) // as said
	}
}

// Dropped returns how many bytes were lost, after Run.
func (c *Collector) Dropped() int64 { return c.stdout.dropped + c.stderr.dropped }

// Close closes pipes and files, after Run or instead of it.
func (c *Collector) Close() error {
	return errors.Join(c.stdout.close(), c.stderr.close(), c.folder.close())
}
