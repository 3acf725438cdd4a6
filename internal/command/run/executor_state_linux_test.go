// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestLook has executors in each state: this process stands for live ones, and no process for dead ones.
func TestLook(t *testing.T) {
	self, err := kernel.Identify(kernel.HostFS(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := kernel.BootID(kernel.HostFS())
	if err != nil {
		t.Fatal(err)
	}
	alive, dead := self.ProcessID, procstats.ProcessID{PID: self.PID, Start: self.Start + 1}
	task := wire.Owner{AllocID: "0123456789", Task: "web"}
	for name, test := range map[string]struct {
		address *wire.Address // nil for none
		owned   bool
		state   executorState
		owner   string
		remedy  string
	}{
		"starting":          {&wire.Address{Executor: alive, Socket: "s"}, true, stateStarting, "tacho run", ""},
		"running":           {&wire.Address{Executor: alive, Main: alive, Socket: "s", Owner: task}, true, stateRunning, "task web of allocation 01234567", ""},
		"detached":          {&wire.Address{Executor: alive, Main: alive, Socket: "s"}, false, stateRunning, "(tacho run)", ""},
		"ended":             {&wire.Address{Executor: alive, Main: dead, Socket: "s"}, true, stateEnded, "tacho run", ""},
		"ended, no owner":   {&wire.Address{Executor: alive, Main: dead, Socket: "s"}, false, stateEnded, "(tacho run)", "start its owner, or tacho executors kill x"},
		"dead, no owner":    {&wire.Address{Executor: dead, Main: dead, Socket: "s"}, false, stateOrphan, "(tacho run)", "tacho executors kill x"},
		"cannot be reached": {&wire.Address{Executor: alive, Main: alive}, false, stateOrphan, "(tacho run)", "tacho executors kill x"},
		"no address":        {nil, false, stateOrphan, "(tacho run)", "tacho executors kill x"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "x")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			lock, err := os.Create(filepath.Join(folder, client.LockFile))
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if test.owned {
				if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
					t.Fatal(err)
				}
			}
			if a := test.address; a != nil {
				a.ID, a.Folder, a.BootID = "x", folder, boot
				if err := a.Write(); err != nil {
					t.Fatal(err)
				}
			}
			l, err := look(folder)
			if err != nil {
				t.Fatal(err)
			}
			if l.ID != "x" || l.State != test.state || l.OwnerText != test.owner || l.Remedy != test.remedy || l.Connected != test.owned {
				t.Errorf("got %+v, want %+v", l, test)
			}
			if test.state != stateOrphan || test.address != nil && test.address.Executor == alive {
				return
			}
			if err := l.kill(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory is left: %v", err)
			}
		})
	}
}
