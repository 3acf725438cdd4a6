// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// In a runtime directory that others use as well, only what our executors left behind is removed.
func TestKillOrphans(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("sleep 1000")
	f.start(config)
	f.restart() // it does not know the task any more

	run := f.options.Config.RuntimeDir
	orphans, err := filepath.Glob(filepath.Join(run, "*"))
	if err != nil || len(orphans) != 1 {
		t.Fatalf("the runtime directory has %v, %v; want the directory of one executor", orphans, err)
	}
	file := func(path string) string {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	abandoned := filepath.Dir(file(filepath.Join(run, "abandoned", "owner.lock")))
	owned := file(filepath.Join(run, "owned", "owner.lock"))
	kept := []string{
		file(filepath.Join(run, "plain")),
		file(filepath.Join(run, "agent-1", "state")),
		file(filepath.Join(run, "nested", "owner.lock", "file")),
		file(filepath.Join(f.dir, "outside", "owner.lock")),
		owned, filepath.Join(run, "link"), filepath.Join(run, "linked", "owner.lock"),
	}
	must(t, os.Symlink(filepath.Join(f.dir, "outside"), filepath.Join(run, "link")))
	must(t, os.Mkdir(filepath.Join(run, "linked"), 0o700))
	must(t, os.Symlink(filepath.Join(f.dir, "outside", "owner.lock"), filepath.Join(run, "linked", "owner.lock")))
	lock := testkit.Value(os.Open(owned))(t)
	defer lock.Close()
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))

	killed, err := f.KillOrphans(t.Context())
	if err != nil {
		t.Error(err)
	}
	testkit.Diff(t, "killed", []string{filepath.Base(orphans[0])}, killed)
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("not ours to remove: %v", err)
		}
	}
	if _, err := os.Lstat(abandoned); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a start that was given up is left: %v", err)
	}
}

// TestDestroyUnknown is about a host that does not know how a start went, and a driver that was started again since.
func TestDestroyUnknown(t *testing.T) {
	for name, leave := range map[string]func(f *fixture, config *driver.TaskConfig, folder string){
		"running": func(f *fixture, config *driver.TaskConfig, _ string) { f.start(config) },
		"no executor": func(_ *fixture, _ *driver.TaskConfig, folder string) {
			must(t, os.Mkdir(folder, 0o700))
			must(t, os.WriteFile(filepath.Join(folder, client.LockFile), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			config, other := f.shell("sleep 1000"), f.shell("sleep 1000")
			f.start(other)
			folder := filepath.Join(f.options.Config.RuntimeDir, driver.ExecutorID(config))
			leave(f, config, folder)
			address, err := wire.ReadAddress(folder)
			if started := name == "running"; started != (err == nil) {
				t.Fatal(err)
			}
			f.restart()
			if err := f.DestroyTask(t.Context(), config.ID, false); !errors.Is(err, driver.ErrTaskNotFound) {
				t.Errorf("without force: %v", err)
			}
			if err := f.DestroyTask(t.Context(), config.ID, true); err != nil {
				t.Errorf("with force: %v", err)
			}
			if err := f.DestroyTask(t.Context(), config.ID, true); !errors.Is(err, driver.ErrTaskNotFound) {
				t.Errorf("again: %v", err)
			}
			folders, err := filepath.Glob(filepath.Join(f.options.Config.RuntimeDir, "*"))
			if want := filepath.Join(f.options.Config.RuntimeDir, driver.ExecutorID(other)); err != nil || !slices.Equal(folders, []string{want}) {
				t.Errorf("%v is left, %v; want that of the other task, %s", folders, err, want)
			}
			if address != nil && kernel.Alive(kernel.HostFS(), address.Main) {
				t.Errorf("process %v is alive", address.Main)
			}
		})
	}
}
