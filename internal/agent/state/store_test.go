// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
)

func mustOpen(t *testing.T, path string) *Store {
	t.Helper()
	s := testkit.Value(Open(path))(t)
	return s
}

func TestStoreGivesBackWhatItKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := mustOpen(t, path)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	j := &Job{ID: "a/b", Version: 3, Source: job.Source{Filename: "f", Text: "job", Variables: map[string]string{"x": "y"}}, SubmitTime: at, Current: true}
	l := &Allocation{ID: "one", JobID: "a/b", Index: 2, CreateTime: at, Cores: map[string][]int{"t": {1, 2}}}
	task := &Task{
		State:  hook.State{Phase: hook.PhaseRunning, StartedAt: at, Exit: &hook.Exit{Code: 3}, Window: hook.RestartWindow{From: hook.Instant{Wall: at}, Used: 1}},
		Events: []allocation.Event{{Type: hook.EventStarted, Time: at, Message: "m"}}, Starts: 2,
		Handle: &driver.TaskHandle{Version: 1, Config: &driver.TaskConfig{ID: "i", DriverConfig: []byte{0, 255}}, DriverState: []byte("s")},
	}
	index := uint64(41)
	if _, err := s.Index(100, func() uint64 { return index }); err != nil {
		t.Fatal(err)
	}
	id, err := s.NodeID(func() string { return "node" })
	if err != nil || id != "node" {
		t.Fatal(id, err)
	}
	index++
	for _, err := range []error{
		s.Apply(ChangeJob(j)), s.Apply(ChangeAllocation(l)), s.Apply(ChangeTask("one", "t", task)), s.Apply(ChangeTask("two", "t", task)),
		s.Apply(ChangeRecord("one", "t", &record.Record{ID: "r"})), s.Close(),
	} {
		testkit.Must(t, err)
	}

	s = mustOpen(t, path)
	defer func() { testkit.NoError(t, s.Close()) }()
	jobs, err := s.Jobs()
	if diff := cmp.Diff([]*Job{j}, jobs); diff != "" || err != nil {
		t.Error(diff, err)
	}
	allocs, err := s.Allocations()
	if diff := cmp.Diff([]*Allocation{l}, allocs); diff != "" || err != nil {
		t.Error(diff, err)
	}
	tasks, err := s.Tasks()
	if diff := cmp.Diff(map[string]map[string]*Task{"one": {"t": task}, "two": {"t": task}}, tasks); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := s.Index(100, func() uint64 { return 0 }); got != 142 || err != nil {
		t.Error(got, err)
	}
	if got, err := s.NodeID(func() string { return "other" }); got != "node" || err != nil {
		t.Error(got, err)
	}
	testkit.Must(t, s.DeleteAllocation("one"))
	if _, err := s.Record("one", "t"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if tasks, err = s.Tasks(); len(tasks) != 1 || err != nil {
		t.Error(tasks, err)
	}
}

// TestStoreIndexNeverGoesBack opens a file again and again, without anything that is stored in between and with what
// only forgets.
func TestStoreIndexNeverGoesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	last := uint64(0)
	forget := []func(*Store) error{
		func(*Store) error { return nil }, func(*Store) error { return nil },
		func(s *Store) error { return s.DeleteAllocation("x") }, func(s *Store) error { return s.DeleteJob("x", 0) },
	}
	for i, change := range forget {
		s := mustOpen(t, path)
		newest := uint64(0)
		first, err := s.Index(10, func() uint64 { return newest })
		if first < last+10 || err != nil {
			t.Errorf("opened %d times: %d after %d, error %v", i, first, last, err)
		}
		newest = first + 50
		last = first
		if i > 1 {
			last = newest // it is stored with what is forgotten
		}
		testkit.Must(t, errors.Join(change(s), s.Close()))
	}
	s := mustOpen(t, path)
	if first, err := s.Index(10, nil); first != last+10 || err != nil {
		t.Errorf("at the end: %d after %d, error %v", first, last, err)
	}
	testkit.Must(t, s.Close())
}

func TestStoreMovesADamagedFileAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := mustOpen(t, path)
	// More than fits into the first pages.
	for i := range 100 {
		if err := s.Apply(ChangeAllocation(&Allocation{ID: strconv.Itoa(i), Description: strings.Repeat("x", 1000)})); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, s.Close())
	whole := testkit.Value(os.ReadFile(path))(t)
	damages := map[string]func([]byte) []byte{
		"text":     func([]byte) []byte { return []byte("not a database at all, whatever it was") },
		"zeros":    func(b []byte) []byte { return make([]byte, len(b)) },
		"half":     func(b []byte) []byte { return b[:len(b)/2] },
		"one page": func(b []byte) []byte { return append(append([]byte{}, b[:3*4096]...), make([]byte, len(b)-3*4096)...) },
		"all ones": func(b []byte) []byte {
			c := append([]byte{}, b...)
			for i := 8192; i < len(c); i++ {
				c[i] = 0xff
			}
			return c
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state.db")
			testkit.Must(t, os.WriteFile(path, damage(whole), 0o600))
			s := mustOpen(t, path)
			defer func() { testkit.NoError(t, s.Close()) }()
			if s.Damage == nil || s.Damage.Moved == "" || len(s.Damage.Faults) == 0 {
				t.Errorf("reported as %+v", s.Damage)
			}
			testkit.NoError(t, s.Apply(ChangeAllocation(&Allocation{ID: "two"})))
			if moved, err := filepath.Glob(path + ".damaged-*"); len(moved) != 1 || err != nil {
				t.Errorf("moved %q, error %v", moved, err)
			}
		})
	}
}

func TestStoreIsOneAgents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := mustOpen(t, path)
	if other, err := Open(path); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v, %v", other, err)
	}
	testkit.NoError(t, s.Close())
}
