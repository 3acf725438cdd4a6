// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestMemorySummary(t *testing.T) {
	for _, test := range []struct {
		source    procstats.ID
		guarantee procstats.Guarantee
		want      string
	}{
		{procstats.CgroupMemoryPeak, procstats.Exact, "peak 2 MiB (exact, including page cache)"},
		{procstats.RusageMaxRSS, procstats.UpperBound, "peak at most 2 MiB (rusage_maxrss_bytes)"},
		{procstats.TreeRSS, procstats.LowerBound, "peak at least 2 MiB (tree_rss_bytes)"},
		{procstats.TreeRSS, procstats.Sampled, "peak 2 MiB (sampled, tree_rss_bytes)"},
	} {
		r := &record.Record{Headline: map[string]record.HeadlineValue{
			procstats.HeadlineMemoryPeak.String(): {
				Value: new(2.0 * (1 << 20)), Source: test.source.String(),
				Guarantee: test.guarantee,
			},
		}}
		testkit.Equal(t, memorySummary(r), test.want, "%s", test.guarantee)
	}
}

// TestContradictions holds that a summary and the page of a record say why its numbers are lower bounds, once.
func TestContradictions(t *testing.T) {
	note := func(text string) []procstats.Note {
		return []procstats.Note{{Cause: "processes ran outside", Text: text}}
	}
	r := &record.Record{
		About: record.About{Notes: []string{"CPU differs"}},
		Headline: map[string]record.HeadlineValue{
			procstats.HeadlineCPU.String(): {Value: new(1.0), Guarantee: procstats.LowerBound, Notes: note("CPU differs")},
			procstats.HeadlineMemoryPeak.String(): {
				Value: new(1.0), Guarantee: procstats.LowerBound,
				Notes: note("memory differs"),
			},
			procstats.HeadlineCores.String(): {
				Value: new(1.0), Guarantee: procstats.Sampled,
				Notes: []procstats.Note{{Cause: "more than all CPUs", Text: "memory differs"}},
			},
		},
	}
	testkit.Equal(t, contradictionSummary(r), "lower bounds: processes ran outside", "result")
	testkit.Equal(t, strings.Join(r.AllNotes(), ", "), "CPU differs, memory differs", "notes")
	testkit.Equal(t, contradictionSummary(&record.Record{}), "", "without a contradiction")
}

// TestWaitedSummary holds that throttled time is not written as a share of the time.
func TestWaitedSummary(t *testing.T) {
	waited := map[string]any{procstats.PSICPUSome.String(): 1.0, procstats.PSIIOSome.String(): 0.0}
	throttled := map[string]any{procstats.CgroupCPUThrottled.String(): 0.98}
	both := map[string]any{procstats.PSIIOSome.String(): 0.0, procstats.CgroupCPUThrottled.String(): 0.98}
	for _, test := range []struct {
		measurements map[string]any
		stall        record.Stall
		want         string
	}{
		{waited, "fine", "for CPU 50 %, I/O 0 % of the time: fine"},
		{both, "cpu-throttled", "for I/O 0 % of the time; throttled by its CPU quota for 980 ms, summed over CPUs: cpu-throttled"},
		{throttled, "", "throttled by its CPU quota for 980 ms, summed over CPUs"},
		{map[string]any{}, "fine", ""},
	} {
		r := &record.Record{
			WallSeconds: new(2.0), Measurements: test.measurements, Diagnosis: record.Diagnosis{Stall: test.stall},
		}
		testkit.Equal(t, waitedSummary(r), test.want, "%v", test.measurements)
	}
}

// TestCommands holds that the commands are named with what they used and how they failed, or with the reason why not.
func TestCommands(t *testing.T) {
	r := &record.Record{Commands: &record.Commands{
		Rows: []procstats.Command{
			{
				Name: "cc1", Processes: 412, Failed: 3, CPUSeconds: 96, RunDelaySeconds: new(2.0),
				PeakRSSBytes: 181 << 20, PeakRSSGuarantee: procstats.Exact,
				ReadBytes: new(int64(4096)), WrittenBytes: new(int64(0)),
				Failures: []procstats.CommandFailure{{Signal: 9, Processes: 2}, {ExitCode: 1, Processes: 1}},
			},
			{Name: "sh\x1b", Processes: 1, CPUSeconds: 24, PeakRSSBytes: 24 << 20, PeakRSSGuarantee: procstats.UpperBound},
			{Name: "ld", Processes: 2, CPUSeconds: 1, PeakRSSGuarantee: procstats.Exact},
		},
		UnattributedCPUSeconds: new(0.0), TotalCPUSeconds: new(121.0), LostRecords: 5,
	}}
	testkit.Equal(t, Commands(r), "cc1 ×412 79.3 %, sh\\x1b 19.8 %", "result")
	p := NewPage(cli.Palette{}, "run", r)
	p.commands()
	const want = `
Commands, all processes that ended
  COMMAND       STARTED  FAILED    CPU   SHARE         LARGEST   READ  WRITTEN  WAITED FOR CPU
  cc1               412       3  1m36s  79.3 %         181 MiB  4 KiB      0 B             2 s
  sh\x1b              1       0   24 s  19.8 %  at most 24 MiB      –        –               –
  ld                  2       0    1 s   0.8 %             0 B      –        –               –
  unattributed                     0 s     0 %
  total                           2m1s   100 %
  3 of 412 cc1 failed: 2 by signal 9, 1 with exit code 1
  5 records lost: too many processes ended at once
`
	testkit.Diff(t, "result", want, p.String())
	r.Commands = &record.Commands{Reason: "no BTF"}
	p = NewPage(cli.Palette{}, "run", r)
	p.commands()
	testkit.Equal(t, p.String()+Commands(r), "\nCommands, all processes that ended\n  unknown: no BTF\n", "result")
}
