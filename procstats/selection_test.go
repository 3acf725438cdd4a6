// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestParseSelection(t *testing.T) {
	tests := []struct {
		expr string
		want []string
	}{
		{"cgroup_memory_peak_bytes", []string{"cgroup_memory_peak_bytes"}},
		{" psi_cpu , psi_io_full_seconds_total", []string{
			"psi_cpu_some_seconds_total", "psi_cpu_full_seconds_total", "psi_io_full_seconds_total",
		}},
		{"psi,-psi_cpu,-psi_io_some_seconds_total", []string{
			"psi_memory_some_seconds_total", "psi_memory_full_seconds_total", "psi_io_full_seconds_total",
		}},
		{"psi_cpu,-psi,psi_cpu_full_seconds_total", []string{"psi_cpu_full_seconds_total"}},
		{"disk,-disk", nil},
		{"disk", []string{"disk_usage_bytes", "disk_files", "disk_walk", "disk_walk_start_time_seconds"}},
		{"disk_files", []string{"disk_files", "disk_walk", "disk_walk_start_time_seconds"}},
		{"smaps_pss_bytes,smaps_pss_bytes", []string{"smaps_pss_bytes"}},
		{"portable_process", []string{"portable_process_cpu_seconds_total", "portable_process_rss_bytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.expr, func(t *testing.T) {
			s := testkit.Value(procstats.ParseSelection(tt.expr))(t)
			testkit.Diff(t, "names", tt.want, s.Names())
			if s.Empty() != (len(tt.want) == 0) || s.Len() != len(tt.want) || len(s.IDs()) != len(tt.want) {
				t.Errorf("Empty %v, Len %d, %d IDs for %d names", s.Empty(), s.Len(), len(s.IDs()), len(tt.want))
			}
		})
	}
}

func TestParseSelectionStartsFromDefaultWhereItTakesAway(t *testing.T) {
	got := testkit.Value(procstats.ParseSelection("-cgroup,-executor"))(t)
	want := testkit.Value(procstats.ParseSelection("default,-cgroup,-executor"))(t)
	if got != want || got.Empty() || got.HasSource(procstats.SourceExecutor) {
		t.Errorf("got %v, want %v", got.Names(), want.Names())
	}
}

func TestParseSelectionOfHeadlines(t *testing.T) {
	s := testkit.Value(procstats.ParseSelection("cpu_cores,memory_charged_bytes"))(t)
	if !s.Has(procstats.RusageCPU) || s.Has(procstats.HeadlineCores) || s.Has(procstats.HeadlineMemoryCharged) {
		t.Errorf("headlines select %v", s.Names())
	}
	if s, err := procstats.ParseSelection("memory_bytes"); err != nil || s.HasSource(procstats.SourceSmaps) {
		t.Errorf("memory_bytes selects the costly smaps source: %v, %v", s.Names(), err)
	}
}

func TestUnknownMeasurements(t *testing.T) {
	tests := []struct {
		expr, word string
		near       string // the first near miss; empty for the list of groups
	}{
		{"cgroup_memory_peek_bytes", "cgroup_memory_peek_bytes", "cgroup_memory_peak_bytes"},
		{"psi,cgroup_mem", "cgroup_mem", "cgroup_memory"},
		{"defalt", "defalt", "default"},
		{"psi,-proces", "proces", "process"}, //nolint:misspell // a near miss
		{"oom_kill", "oom_kill", "cgroup_memory_events_oom_kill_total"},
		{"psi_", "psi_", "psi"},
		{"something entirely else", "something entirely else", ""},
		{"", "", ""},
		{"psi,,disk", "", ""},
		{"--psi", "-psi", "psi"},
		{"PSI", "PSI", "psi"},
	}
	for _, tt := range tests {
		t.Run(tt.expr, func(t *testing.T) {
			_, err := procstats.ParseSelection(tt.expr)
			var unknown *procstats.UnknownError
			if !errors.Is(err, procstats.ErrUnknownMeasurement) || !errors.As(err, &unknown) {
				t.Fatalf("error %v, want an UnknownError", err)
			}
			testkit.Equal(t, unknown.Word, tt.word, "word")
			if tt.near == "" {
				if len(unknown.Near) != 0 || !strings.Contains(err.Error(), "groups cgroup, psi, tree") {
					t.Errorf("near %v in %q, want the list of groups", unknown.Near, err)
				}
				return
			}
			if !slices.Contains(unknown.Near, tt.near) || !strings.Contains(err.Error(), tt.near) {
				t.Errorf("near %v in %q, want %s", unknown.Near, err, tt.near)
			}
		})
	}
}

func TestDefaultSelection(t *testing.T) {
	all, usual := procstats.AllSelection(), procstats.DefaultSelection()
	if usual.Minus(all) != (procstats.Selection{}) || usual.Union(all) != all || usual == all {
		t.Error("the default is not a part of all")
	}
	for _, source := range []procstats.SourceID{procstats.SourceSmaps, procstats.SourceDisk} {
		if usual.HasSource(source) || !all.Has(procstats.DiskUsage) {
			t.Errorf("the default has the costly source %s", source)
		}
	}
	for _, id := range []procstats.ID{procstats.ProcessVsize, procstats.ProcessIORead, procstats.ProcessStartTime} {
		if usual.Has(id) {
			m, _ := procstats.Lookup(id)
			t.Errorf("the default has %s", m.Name)
		}
	}
	if all.HasSource(procstats.SourcePortable) == all.HasSource(procstats.SourceTree) {
		t.Error("all must have either our own readers or the portable one")
	}
}

func FuzzParseSelection(f *testing.F) {
	for _, seed := range []string{"", "all", "default,-psi", "psi,psi_cpu", "cgroup_memory_peak_bytes", "a,b", "-", ",", "cpu_cores,\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		s, err := procstats.ParseSelection(expr)
		if err != nil {
			if !errors.Is(err, procstats.ErrUnknownMeasurement) || !s.Empty() || err.Error() == "" {
				t.Fatalf("ParseSelection(%q) = %v, %v", expr, s.Names(), err)
			}
			return
		}
		if s.Empty() {
			return
		}
		again, err := procstats.ParseSelection(strings.Join(s.Names(), ","))
		if err != nil || again != s || procstats.Select(s.IDs()...) != s {
			t.Fatalf("%q selects %v, which do not select themselves: %v, %v", expr, s.Names(), again.Names(), err)
		}
	})
}
