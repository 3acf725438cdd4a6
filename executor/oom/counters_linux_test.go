// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// As a 6.12 kernel wrote them after an OOM kill with memory.oom.group, and a 6.18 one on version 1.
const (
	memoryEvents612 = "low 0\nhigh 0\nmax 113\noom 3\noom_kill 6\noom_group_kill 1\n"
	oomControl618   = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"
)

func TestCounters(t *testing.T) {
	tests := []struct {
		name, text string
		keys       []string
		want       []int64
	}{
		{"memory.events", memoryEvents612, []string{"oom", "oom_kill", "oom_group_kill"}, []int64{3, 6, 1}},
		{"memory.oom_control", oomControl618, []string{"oom_kill", "under_oom"}, []int64{1, 0}},
		{"one that is missing", oomControl618, []string{"oom_kill", "oom"}, nil},
		{"empty", "", []string{"oom"}, nil},
		{"no number", "oom x\n", []string{"oom"}, nil},
		{"negative", "oom -1\n", []string{"oom"}, nil},
		{"cut short", "low 0\noom", []string{"oom"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok := counters([]byte(test.text), test.keys...)
			if ok != (test.want != nil) || ok && !cmp.Equal(test.want, got) {
				t.Errorf("%v, %v, want %v", got, ok, test.want)
			}
		})
	}
}

// TestLookReadsOnce holds that a look reads the events of a group once: the read acknowledges what happened before, so
// that a kill between two of them would not be noticed until the next one.
func TestLookReadsOnce(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	reads := func() (n int64) {
		text := testkit.Value(os.ReadFile("/proc/thread-self/io"))(t)
		if values, ok := counters(bytes.ReplaceAll(text, []byte(":"), nil), "syscr"); ok {
			n = values[0]
		}
		return n
	}
	m := &memoryEvents{}
	for name, file := range map[string]*kernel.File{"memory.events": &m.own, "memory.events.local": &m.local} {
		path := filepath.Join(t.TempDir(), name)
		testkit.Must(t, os.WriteFile(path, []byte(memoryEvents612), 0o600))
		*file = testkit.Value(kernel.Open(path))(t)
	}
	before := reads()
	none := reads() - before
	before = reads()
	c, _, err := m.look()
	testkit.Equal(t, reads()-before-none, 2, "reads of memory.events and memory.events.local")
	testkit.Diff(t, "counters", record.OOMCounters{Read: true, Own: 3, Kills: 6, GroupKills: 1, Above: []int64{}}, c)
	testkit.Must(t, errors.Join(err, m.close()))
}

func FuzzCounters(f *testing.F) {
	f.Add([]byte(memoryEvents612))
	f.Add([]byte(oomControl618))
	f.Add([]byte("oom_kill 1\noom_kill 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		values, ok := counters(data, "oom", "oom_kill")
		if !ok {
			return
		}
		if len(values) != 2 || values[0] < 0 || values[1] < 0 {
			t.Errorf("%q: %v", data, values)
		}
	})
}
