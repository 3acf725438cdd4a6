// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/executor/wire"
)

// The arguments of F_NOTIFY, linux/fcntl.h: each file that is removed from a directory, until it is closed.
const dnDelete, dnMultishot = 0x8, -0x80000000

// watchFolder ends the executor with its task when its folder is removed, and the socket with it: no caller would find it
// again. It uses dnotify, F_NOTIFY in fcntl(2): a user has few instances of inotify(7), and an idle executor has no timer.
func (e *Executor) watchFolder() error {
	if e.folder == "" {
		return nil
	}
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
		for wire.FindSocket(e.folder) != "" {
			select {
			case <-changed:
			case <-e.ctx.Done():
				return
			}
		}
		e.endWith(onEnd, 0, func(t *task) {
			t.log.Warn("directory of the executor was removed; task is killed")
			t.stop(record.Stopped, "the directory of its executor was removed", unix.SIGKILL, 0)
		})
	})
	return nil
}
