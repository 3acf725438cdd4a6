// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestStateCannotBePersisted deletes the state of a running agent: a registration changes nothing, and what happens to
// tasks goes on and is persisted later.
func TestStateCannotBePersisted(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	r := begin(t, c)
	running := r.sleeping()
	if err := r.Health(); err != nil {
		t.Errorf("health: %v", err)
	}
	path := filepath.Join(c.DataDir, "state.db")
	must(t, os.Rename(path, path+".away"))
	r.checkUnwritable(running)
	must(t, os.Rename(path+".away", path))
	r.eventually("the state to be persisted again", func() bool { return r.Health() == nil })
	r.end(false)
	r = begin(t, c)
	defer r.end(true)
	r.checkStopped(running)
}

// TestFullDisk does the same with a disk that is really full.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := shortDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer func() { testkit.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }()
	c := testConfig(dir)
	r := begin(t, c)
	running := r.sleeping()
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	r.checkUnwritable(running)
	must(t, os.Remove(filler))
	r.eventually("the state to be persisted again", func() bool { return r.Health() == nil })
	r.end(false)
	r = begin(t, c)
	defer r.end(true)
	r.checkStopped(running)
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f := testkit.Value(os.Create(path))(t)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// checkUnwritable registers a job and stops another while nothing can be persisted.
func (r *running) checkUnwritable(service *allocation.Allocation) {
	r.t.Helper()
	// Some changes fit into what the file has already: until one does not, they are persisted as ever.
	text := inGroup(40, shell("t", "", "exec sleep 1000"))
	source := job.Source{Filename: "other", Text: `job "other" {` + text[len(`job "test" {`):]}
	if _, changed, err := r.RunJob(r.t.Context(), source, nil); err == nil || changed {
		r.t.Errorf("registration: changed %t, error %v; want an error and no change", changed, err)
	}
	if err := r.Health(); err == nil {
		r.t.Error("healthy although the state cannot be persisted")
	}
	if _, err := r.Snapshot().Job("other"); !errors.Is(err, allocation.ErrNotFound) {
		r.t.Errorf("the job is there: %v", err)
	}
	testkit.Equal(r.t, len(r.Snapshot().Allocations), 1, "allocations")
	r.findByID(service.ID).Stop(userStopped)
	r.await(service.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Complete })
	if r.Cost().Errors["state"] == 0 {
		r.t.Error("no error counted")
	}
}

// checkStopped looks at the state after another start.
func (r *running) checkStopped(service *allocation.Allocation) {
	r.t.Helper()
	if _, err := r.Snapshot().Job("other"); !errors.Is(err, allocation.ErrNotFound) {
		r.t.Errorf("a job whose registration failed is there: %v", err)
	}
	l, err := r.Snapshot().Allocation(service.ID)
	if err != nil || l.DesiredStatus != allocation.DesiredStop || l.ClientStatus != allocation.Complete {
		r.t.Errorf("the stopped allocation: %+v, %v", l, err)
	}
	if record, err := r.Record(service.ID, "t"); err != nil || record == nil {
		r.t.Errorf("its record: %v, %v", record, err)
	}
}
