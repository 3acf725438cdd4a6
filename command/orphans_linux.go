// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// killOrphans kills the children of this process until there are none. It is for the end of tacho run, whose executor
// has died and been reaped: as a subreaper it has inherited what was left of the command, and started nothing else.
func killOrphans(ctx context.Context) error {
	const pause = 2 * time.Millisecond
	for {
		if err := killChildren(); err != nil {
			return err
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return nil
			}
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill what the executor left: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// killChildren sends SIGKILL to each child. A child cannot be reaped by anybody else, so its number is its own.
func killChildren() error {
	paths, err := filepath.Glob(filepath.Join(kernel.HostFS().Proc, "self", "task", "*", "children"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread is gone, and its children are another's
		}
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return fmt.Errorf("%s: %q is no PID", path, word)
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill %d: %w", pid, err)
			}
		}
	}
	return nil
}
