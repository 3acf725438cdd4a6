// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestHandAgain holds that commands are handed over again after that failed, though nothing has ended since, and if nothing but the
// lost records has changed.
func TestHandAgain(t *testing.T) {
	e := &exitReader{log: hclog.NewNullLogger()}
	group, folder := groupV2(t), t.TempDir()
	w := e.watch(procstats.Cgroup{V2: group.Name()}, folder)
	defer w.close()
	if w.watch == nil {
		t.Skipf("no exit records here: %s", w.reason)
	}
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	w.watch.Await(10 * time.Second)
	obstacle := filepath.Join(folder, "commands.json.new")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.hand(folder, time.Now()); err == nil {
		t.Fatal("it was handed over where nothing can be written")
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	handed := func() *record.Handed {
		t.Helper()
		if err := w.hand(folder, time.Now()); err != nil {
			t.Fatal(err)
		}
		h, err := record.ReadHanded(folder)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if h := handed(); h.Commands.Processes() != 1 {
		t.Errorf("after it can be written: %+v", h.Commands)
	}
	w.before = &record.Handed{Commands: &record.Commands{LostRecords: 7}}
	if h := handed(); h.Commands.LostRecords != 7 {
		t.Errorf("after records were lost: %+v", h.Commands)
	}
}

// groupV2 makes a cgroup, and opens it.
func groupV2(t *testing.T) *os.File {
	t.Helper()
	mounts, err := kernel.CgroupMounts(kernel.HostFS())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(mounts, func(m kernel.CgroupMount) bool { return m.Version == 2 })
	if i < 0 {
		t.Skip("no cgroup of version 2 here")
	}
	dir, err := os.MkdirTemp(mounts[i].Point, "tacho-hand-")
	if err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	file, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(file.Close(), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	return file
}
