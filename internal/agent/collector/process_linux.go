// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/logs"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// readyWord is what a collector says when it reads; anything else is why it does not.
	readyWord = "ready"
	// drainLimit is how long it waits at its end for those who hold a FIFO open.
	drainLimit = 2 * time.Second
)

// The files that a collector is started with, after the standard ones.
const (
	lockFD  = 3
	readyFD = 4
)

// Main is the collector's process: it reads until SIGTERM, and then what is left. It returns the exit code.
func Main(args []string) int {
	// Nothing is read of what it says by then, but it must not end it.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ready := os.NewFile(readyFD, "ready")
	unix.CloseOnExec(lockFD)
	err := run(ctx, args, os.NewFile(lockFD, "lock"), func() error {
		_, err := io.WriteString(ready, readyWord)
		return errors.Join(err, ready.Close())
	})
	if err != nil {
		// Both the starter, if it still waits, and the log get the error.
		_, _ = fmt.Fprintln(ready, err)
		fmt.Fprintln(os.Stderr, time.Now().Format(time.RFC3339), err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, lock *os.File, ready func() error) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	// A task writes to it: it must be the last to go. Without privileges it stays as it is.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	files, err := logs.Open(logs.Options{
		Dir: o.Dir, Prefix: o.Task, MaxFileBytes: o.MaxFileBytes, MaxFiles: o.MaxFiles,
		Report: func(e logs.Event) {
			fmt.Fprintln(os.Stderr, time.Now().Format(time.RFC3339), e.Message)
		},
	})
	if err != nil {
		return err
	}
	stdout, stderr := files.TakeWriters()
	out, err := openPump(o.stdout(), stdout)
	if err != nil {
		return errors.Join(err, files.Close())
	}
	errs, err := openPump(o.stderr(), stderr)
	if err != nil {
		return errors.Join(err, files.Close())
	}
	if err := errors.Join(identify(lock), ready()); err != nil {
		return errors.Join(err, files.Close())
	}
	var work sync.WaitGroup
	work.Go(func() { files.Run(context.Background()) }) // until the pumps have closed their ends
	work.Go(out.run)
	work.Go(errs.run)
	<-ctx.Done()
	err = errors.Join(out.end(), errs.end())
	work.Wait()
	return errors.Join(err, files.Close(), lock.Close())
}

// identify writes who holds the lock.
func identify(lock *os.File) error {
	id, err := kernel.Identify(kernel.HostFS(), os.Getpid())
	if err != nil {
		return err
	}
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err = lock.WriteAt(fmt.Appendf(nil, "%d %d\n", id.PID, id.Start), 0)
	return err
}

// pump passes on what is written to a FIFO.
type pump struct {
	fifo *os.File
	// keep is a writer of our own, without which the FIFO ends whenever a driver's closes it.
	keep *os.File
	to   *os.File
}

func openPump(path string, to *os.File) (*pump, error) {
	// Without O_NONBLOCK a reader waits for a writer, fifo(7), and could not be interrupted.
	fifo, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	keep, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, errors.Join(err, fifo.Close())
	}
	return &pump{fifo: fifo, keep: keep, to: to}, nil
}

// run passes on until no process has the FIFO open for writing, or end's limit is over.
func (p *pump) run() {
	_, err := io.Copy(p.to, p.fifo)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		fmt.Fprintln(os.Stderr, time.Now().Format(time.RFC3339), err)
	}
	// Remaining writers must not wait for a reader that will not come.
	_ = errors.Join(p.fifo.Close(), p.to.Close())
}

// end lets run end with the last writer.
func (p *pump) end() error {
	return errors.Join(p.keep.Close(), p.fifo.SetReadDeadline(time.Now().Add(drainLimit)))
}
