// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// printed is a sample with one of everything that printing has to mind.
func printed() *procstats.Sample {
	s := sampleAt(at(1.25),
		number(procstats.CgroupCPUUsage, 0.1+0.2), number(procstats.CgroupMemoryCurrent, 1<<53),
		number(procstats.CgroupMemoryEventsOOMKill, 0), absent(procstats.CgroupMemoryMax, procstats.ReasonNoLimit),
		absent(procstats.CgroupMemoryPeak, `no "memory.peak" here`), number(procstats.TreeCPUExited, 0.15),
		number(procstats.TreeProcessesExited, 3), number(procstats.TreeCPUUnattributed, -0.002),
		number(procstats.TreeRSS, math.NaN()), number(procstats.TreeMemory, math.NaN()), number(procstats.DiskUsage, 4096), number(9999, 1), absent(9998, "of a newer build"),
	)
	s.Omitted = 2
	s.SetRead(procstats.SourceDisk, at(-60))
	process(s, procstats.ProcessID{PID: 10, Start: 360000}, 0.123456789, 8192, "S")
	s.Processes[0].Command = "\xff\"a\\b\x01)é"
	row := s.AddProcess(procstats.ProcessID{PID: 11, Start: math.MaxUint64})
	row.Readings.Put(absent(procstats.ProcessCPU, "gone"))
	return s
}

func TestAppendJSON(t *testing.T) {
	s := printed()
	got := procstats.AppendJSON([]byte("before "), s, procstats.Headlines(s, procstats.History{}))
	got, found := bytes.CutPrefix(got, []byte("before "))
	if !found || bytes.ContainsRune(got, '\n') {
		t.Error("not appended, or not one line")
	}
	if !json.Valid(got) {
		t.Fatalf("not JSON: %s", got)
	}
	var indented bytes.Buffer
	testkit.Must(t, json.Indent(&indented, got, "", "  "))
	indented.WriteByte('\n')
	golden(t, "testdata/sample.golden.json", indented.Bytes())
}

func TestAppendJSONOfAnEmptySample(t *testing.T) {
	want := `{"at":null,"mono_seconds":null,"measurements":{},"absent":{},"processes":{"at":null,"rows":[],"exited":{"cpu_seconds_total":null,"processes":null},"unattributed":{"cpu_seconds":null},"total":{"cpu_seconds":null},"omitted":0}}`
	testkit.Diff(t, "result", want, string(procstats.AppendJSON(nil, &procstats.Sample{}, nil)))
}

func TestAppendJSONIntoAKeptBufferAllocatesNothing(t *testing.T) {
	s := printed()
	s.Task = s.Task[:len(s.Task)-2] // names of unknown numbers are made as they are printed
	b := procstats.AppendJSON(nil, s, nil)
	if n := testing.AllocsPerRun(100, func() { b = procstats.AppendJSON(b[:0], s, nil) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestAppendNumber(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", 1: "1", -2: "-2", 1 << 53: "9007199254740992", 1e21: "1000000000000000000000",
		0.1 + 0.2: "0.3", 1.0 / 3: "0.333333333", 12345678.1234567: "12345678.1234567", 1e-10: "0", 2.5e-9: "0.000000003",
		math.MaxFloat64: strconv.FormatFloat(math.MaxFloat64, 'f', -1, 64),
	} {
		testkit.Equal(t, string(procstats.AppendNumber(nil, value)), want, "%v is written", value)
	}
}

// FuzzAppendNumber holds the digits against those of strconv.
func FuzzAppendNumber(f *testing.F) {
	for _, v := range []float64{
		0, -1e-9, 4e-10, 0.1, 1.000000001, -12.3456789, 3999999.999999999, 4000000.1, 1.1759987694e10, 1.7e9 + 0.123456789, 1e300, -5e-324,
	} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return // a reading is never one of these
		}
		want := v
		// A whole number keeps its digits: times 1e9 it may no longer be exact.
		whole := v == math.Trunc(v) && math.Abs(v) < 1<<53
		if rounded := math.Round(v*1e9) / 1e9; !whole && !math.IsInf(rounded, 0) {
			want = rounded
		}
		want += 0 // and not the negative zero
		testkit.Equal(t, string(procstats.AppendNumber(nil, v)), strconv.FormatFloat(want, 'f', -1, 64), "%g", v)
	})
}

// FuzzAppendJSON holds that any command and any number make valid JSON which says the same.
func FuzzAppendJSON(f *testing.F) {
	f.Add("a) b (c", "reason", 0.5, uint16(1))
	f.Add("\x00\xff\u2028\"\\", "</script>", math.Inf(1), uint16(9999))
	f.Fuzz(func(t *testing.T, command, reason string, value float64, id uint16) {
		s := sampleAt(at(0), number(procstats.ID(id), value), absent(procstats.ID(id)+1, reason))
		s.AddProcess(procstats.ProcessID{PID: 1}).Command = command
		var got struct {
			Measurements, Absent map[string]any
			Processes            struct{ Rows []struct{ Command string } }
		}
		testkit.Must(t, json.Unmarshal(procstats.AppendJSON(nil, s, nil), &got))
		if want := strings.ToValidUTF8(command, "\uFFFD"); len(got.Processes.Rows) != 1 ||
			strings.ReplaceAll(got.Processes.Rows[0].Command, "\uFFFD", "") != strings.ReplaceAll(want, "\uFFFD", "") {
			t.Fatalf("command %q became %v", command, got.Processes.Rows)
		}
		if len(got.Measurements)+len(got.Absent) != len(s.Task) {
			t.Fatalf("%d readings became %v and %v", len(s.Task), got.Measurements, got.Absent)
		}
	})
}
