// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestSilentDisk has a write that does not end: what has happened is persisted when it does, what was about to happen
// is not, and nobody waits for longer than a write may take.
func TestSilentDisk(t *testing.T) {
	t.Parallel()
	s := testkit.Value(Open(filepath.Join(t.TempDir(), "state.db")))(t)
	hung := testkit.Value(s.db.Begin(true))(t)
	applied := make(chan error, 1)
	go func() { applied <- s.Apply(ChangeTask("a", "intended", &Task{})) }()
	_ = s.Persist(ChangeTask("a", "happened", &Task{Starts: 1})) // which is an error if it is the first
	if err := s.Health(); !errors.Is(err, errSilent) {
		t.Errorf("health: %v", err)
	}
	if err := <-applied; !errors.Is(err, errSilent) {
		t.Errorf("applied: %v", err)
	}
	began := time.Now()
	if err := s.Persist(ChangeTask("a", "happened", &Task{Starts: 2})); err != nil { // which is not the first failure
		t.Error(err)
	}
	if err := s.Apply(ChangeTask("a", "later", &Task{})); !errors.Is(err, errSilent) || time.Since(began) > writeLimit/2 {
		t.Errorf("applied after %s: %v", time.Since(began), err)
	}
	if own, err := s.Task("a", "happened"); err != nil || own.Starts != 2 {
		t.Errorf("read meanwhile: %+v, %v", own, err)
	}
	testkit.Must(t, hung.Rollback())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.Run(ctx, func(err error) {
		testkit.NoError(t, err)
		cancel()
	})
	testkit.NoError(t, s.Health())
	tasks := testkit.Value(s.Tasks())(t)
	if len(tasks["a"]) != 1 || tasks["a"]["happened"].Starts != 2 {
		t.Errorf("persisted: %+v", tasks["a"])
	}
	if _, err := s.Task("a", "intended"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	testkit.NoError(t, s.Close())
}
