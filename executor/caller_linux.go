// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/record"
)

// launchLimit is how long an executor waits for its task, and for its end if the task was refused. A caller that was
// killed meanwhile requests neither.
const launchLimit = 30 * time.Second

// watchCaller ends an executor whose caller dies before it knows of its task: before it requests one, over the start,
// or before its next call. Nothing else shows it: the caller reads our standard output through a pipe as long as it
// lives, and the kernel reports an error for a pipe without a reader. An executor started by hand has no such pipe.
func (e *Executor) watchCaller() error {
	var stdout unix.Stat_t
	if err := unix.Fstat(unix.Stdout, &stdout); err != nil || stdout.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil
	}
	e.caller = process.NewEpollSet()
	context.AfterFunc(e.ctx, e.unwatchCaller)
	out := os.Stdout // go-plugin replaces it, and a file that is collected closes its descriptor
	return e.caller.Add(unix.Stdout, func() (again bool) {
		runtime.KeepAlive(out)
		e.work.Go(e.callerIsGone)
		return false
	})
}

// unwatchCaller ends the watch: the task is there, and outlives its caller unless it is on a leash.
func (e *Executor) unwatchCaller() {
	if e.caller != nil {
		_ = e.caller.Close() // of what was only waited for
	}
}

// callerIsGone ends a task whose caller was gone before the start was confirmed: no caller knows of it, and the next
// one starts another in its place. A start that was persisted is known.
func (e *Executor) callerIsGone() {
	if e.owner.Persisted {
		e.on(onCallerAway)
		return
	}
	e.endWith(onCallerGone, 0, stopUnconfirmed)
}

func stopUnconfirmed(t *task) {
	t.log.Warn("caller was gone before it confirmed the start; task is killed")
	t.stop(record.Stopped, "its caller was gone before the start was complete", unix.SIGKILL, 0)
}

// The arguments of F_NOTIFY, linux/fcntl.h: each file that is removed from a directory, until it is closed.
const dnDelete, dnMultishot = 0x8, -0x80000000

// watchFolder ends the executor with its task when its folder is removed, and the socket with it: no caller would
// find it again. It uses dnotify, F_NOTIFY in fcntl(2): a user has few instances of inotify(7), and an idle executor
// has no timer.
func (e *Executor) watchFolder() error {
	folder, err := os.Open(e.folder)
	if err != nil {
		return fmt.Errorf("watch own directory: %w", err)
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGIO)
	if _, err := unix.FcntlInt(folder.Fd(), unix.F_NOTIFY, dnDelete|dnMultishot); err != nil {
		signal.Stop(changed)
		return errors.Join(fmt.Errorf("watch own directory: %w", err), folder.Close())
	}
	e.work.Go(func() {
		defer folder.Close()
		defer signal.Stop(changed)
		for {
			if _, err := os.Lstat(e.listensAt); err != nil {
				break
			}
			select {
			case <-changed:
			case <-e.ctx.Done():
				return
			}
		}
		e.endWith(onEnd, 0, func(t *task) {
			t.log.Warn("directory of the executor was removed; task is killed")
			t.stop(record.ExecutorLost, "its directory, or the socket in it, was removed", unix.SIGKILL, 0)
		})
	})
	return nil
}
