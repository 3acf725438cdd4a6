// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
