// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
)

// fill persists n allocations with all that belongs to them, and deletes some: there are free pages then.
func fill(t *testing.T, path string, n int) {
	t.Helper()
	s := mustOpen(t, path)
	index := uint64(100)
	if _, err := s.Index(10, func() uint64 { index++; return index }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.NodeID(func() string { return "the-node" }); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for i := range n {
		id := fmt.Sprintf("alloc-%04d", i)
		task := &Task{
			State: hook.State{Phase: hook.PhaseRunning, StartedAt: at}, Starts: 1, RunID: id + "/t/1",
			Events: []allocation.Event{{Type: hook.EventStarted, Time: at, Message: strings.Repeat("m", i%300)}},
		}
		spec := &job.Job{ID: "j" + strconv.Itoa(i), Groups: []*job.Group{{Name: "g", Count: 1}}}
		err := s.Apply(
			ChangeJob(&Job{ID: "j" + strconv.Itoa(i), Source: job.Source{Text: strings.Repeat("x", i*7%2000)}, SubmitTime: at, Current: true, Spec: spec}),
			ChangeAllocation(&Allocation{ID: id, JobID: "j" + strconv.Itoa(i), CreateTime: at, ModifyIndex: uint64(i)}),
			ChangeTask(id, "t", task), ChangeRecord(id, "t", &record.Record{ID: id, StartedAt: at}),
		)
		if i%3 == 2 {
			err = errors.Join(err, s.DeleteAllocation(id))
		}
		testkit.Must(t, err)
	}
	testkit.Must(t, s.Close())
}

// contents are all records of a file by bucket and key, the feed's index excepted.
func contents(t *testing.T, s *Store) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := s.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(bucket []byte, b *bolt.Bucket) error {
			return b.ForEach(func(key, value []byte) error {
				name := string(bucket) + "/" + string(key)
				if string(bucket) != bucketMeta && verifyChecksum(string(bucket), string(key), value) != nil {
					return nil // none of those that are read
				}
				if !strings.HasPrefix(name, "meta/index") {
					all[name] = string(value)
				}
				return nil
			})
		})
	})
	testkit.Must(t, err)
	return all
}

// TestAnyDamage flips bits and cuts the file: the remaining records are what they were, and losses are reported. bbolt
// notices most damages but not all, such as of a number of records.
func TestAnyDamage(t *testing.T) {
	for name, size := range map[string]int{"small": 2, "large": 150} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state.db")
			fill(t, path, size)
			whole := testkit.Value(os.ReadFile(path))(t)
			s := mustOpen(t, path)
			if s.Damage != nil {
				t.Fatalf("a file that is whole: %+v", s.Damage)
			}
			want := contents(t, s)
			testkit.Must(t, s.Close())
			rounds := 9_000 / (size + 50)
			random := rand.New(rand.NewPCG(7, uint64(size)))
			for i := range rounds {
				b := damaged(whole, random)
				t.Run(strconv.Itoa(i), func(t *testing.T) {
					t.Parallel()
					openDamaged(t, b, want)
				})
			}
		})
	}
}

// damaged is a file with bytes that were turned over, or cut.
func damaged(whole []byte, random *rand.Rand) []byte {
	b := bytes.Clone(whole)
	switch random.IntN(6) {
	case 0:
		return b[:random.IntN(len(b))]
	case 1: // a sector
		at := random.IntN(len(b)/512) * 512
		for i := range 512 {
			b[at+i] = byte(random.IntN(256))
		}
	case 2: // a page that went elsewhere
		from, to := random.IntN(len(b)/4096)*4096, random.IntN(len(b)/4096)*4096
		copy(b[to:to+4096], whole[from:from+4096])
	default:
		for range 1 + random.IntN(4) {
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
		}
	}
	return b
}

// openDamaged opens a damaged file whose records were those of want.
func openDamaged(t *testing.T, file []byte, want map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	testkit.Must(t, os.WriteFile(path, file, 0o600))
	s := mustOpen(t, path)
	got := contents(t, s)
	for name, value := range got {
		if want[name] != value {
			t.Errorf("%s was %.300q, is %.300q; reported: %+v", name, want[name], value, s.Damage)
		}
	}
	if len(got) < len(want) && s.Damage == nil {
		t.Errorf("%d of %d records, and nothing reported", len(got), len(want))
	}
	if err := errors.Join(s.Apply(ChangeAllocation(&Allocation{ID: "new"})), s.Close()); err != nil {
		t.Error(err)
	}
}
