// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// startLimit bounds the start of a process.
	startLimit = 10 * time.Second
	// endLimit bounds its end; it gives up what is held open after drainLimit.
	endLimit = drainLimit + 3*time.Second
)

// Ensure returns the paths of two FIFOs with a reader: a collector is started if none runs.
func Ensure(o Options) (stdout, stderr string, err error) {
	lock, err := os.OpenFile(o.lock(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", "", fmt.Errorf("collect logs: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	free, err := take(lock)
	if err != nil {
		return "", "", fmt.Errorf("collect logs: %w", err)
	}
	if free {
		if err := o.start(lock); err != nil {
			return "", "", fmt.Errorf("collect logs: %w", err)
		}
	}
	return o.stdout(), o.stderr(), nil
}

// take locks the file of a collector; false if one holds it.
func take(lock *os.File) (bool, error) {
	err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return true, nil
}

// start starts a collector that takes over the lock, and waits until it reads.
func (o Options) start(lock *os.File) error {
	for _, path := range []string{o.stdout(), o.stderr()} {
		if err := makeFIFO(path); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(o.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	ready, started, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	self, err := os.Executable()
	if err != nil {
		return errors.Join(err, started.Close())
	}
	cmd := exec.Command(self, slices.Concat(Command, o.arguments())...)
	cmd.Dir, cmd.Stderr = "/", log
	cmd.ExtraFiles = []*os.File{lock, started}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// A small heap: there is one such process a task.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=25")
	err = errors.Join(cmd.Start(), started.Close())
	if err != nil {
		return err
	}
	if err := awaitReady(ready); err != nil {
		// One that lived on would keep the lock, and be taken for one that reads.
		err = errors.Join(err, process.Child(cmd.Process.Pid).Signal(unix.SIGKILL))
		_ = cmd.Wait() // it was killed, or has said why it failed
		return err
	}
	// It is waited for at its end, by whichever agent there is then.
	return cmd.Process.Release()
}

// awaitReady reads what a collector says of its start.
func awaitReady(ready *os.File) error {
	if err := ready.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	answer, err := io.ReadAll(ready)
	if text := strings.TrimSpace(string(answer)); err == nil && text != readyWord {
		err = fmt.Errorf("log collector exited: %s", text)
	}
	return err
}

func makeFIFO(path string) error {
	err := unix.Mkfifo(path, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() != fs.ModeNamedPipe {
		err = fmt.Errorf("%s is not a FIFO", path)
	}
	return err
}

// End ends a task's collector, where there is one, when it has written what the task wrote. The task has ended before.
func End(ctx context.Context, o Options) (err error) {
	lock, err := os.OpenFile(o.lock(), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end log collector: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, endLimit, fmt.Errorf("not in %s", endLimit))
	defer cancel()
	var id procstats.ProcessID
	if _, err := fmt.Fscan(lock, &id.PID, &id.Start); err != nil {
		return nil //nolint:nilerr // it was never ready
	}
	// One that an earlier agent started is not our child.
	defer func() { err = errors.Join(err, process.Reap(kernel.HostFS(), id)) }()
	if err := endHolder(ctx, lock, id); err != nil {
		return fmt.Errorf("end log collector: %w", err)
	}
	return nil
}

// endHolder asks the process that holds a lock to end, and kills it when ctx ends first.
func endHolder(ctx context.Context, lock *os.File, id procstats.ProcessID) (err error) {
	// Without pidfds: as long as the lock is held its holder has its number.
	holds := func(signal func() error) error {
		free, err := take(lock)
		if free || err != nil {
			return errors.Join(process.ErrGone, err)
		}
		return signal()
	}
	host := kernel.HostFS()
	holder, err := process.Hold(id.PID, func() bool { return kernel.Alive(host, id) }, holds)
	if errors.Is(err, process.ErrGone) {
		return awaitFree(ctx, lock)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, holder.Close()) }()
	if err := holder.Signal(unix.SIGTERM); err != nil {
		return err
	}
	if err := awaitFree(ctx, lock); err != nil {
		return errors.Join(err, holder.Signal(unix.SIGKILL))
	}
	return nil
}

// awaitFree waits until a lock is free.
func awaitFree(ctx context.Context, lock *os.File) error {
	for {
		if free, err := take(lock); free || err != nil {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// EndAll ends the collectors of all tasks that write into a directory.
func EndAll(ctx context.Context, dir string) error {
	locks, err := filepath.Glob(filepath.Join(dir, Options{Task: "*"}.lock()))
	errs := []error{err}
	for _, lock := range locks {
		task := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(lock), "."), ".collector")
		errs = append(errs, End(ctx, Options{Dir: dir, Task: task}))
	}
	return errors.Join(errs...)
}
