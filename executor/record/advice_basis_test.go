// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// sameFromBasis holds that the basis of records gives the advice that they give.
func sameFromBasis(t *testing.T, records []*Record) {
	t.Helper()
	var read []*Record
	for _, r := range records {
		read = append(read, testkit.Value(Decode([]byte(r.AdviceBasis())))(t))
	}
	testkit.Diff(t, "advice", strings.Join(AdviseTask(records).Why, "\n"), strings.Join(AdviseTask(read).Why, "\n"))
}

// TestBasisIsWhole holds that the basis has each measurement that advice names.
func TestBasisIsWhole(t *testing.T) {
	name := regexp.MustCompile(`procstats\.(?:Headline[A-Z]\w+|Cgroup\w+|Tree\w+|PSI\w+|Exits\w+)`)
	basis := string(testkit.Value(os.ReadFile("advice_basis.go"))(t))
	for _, file := range []string{"advice.go", "need.go"} {
		for _, id := range name.FindAllString(string(testkit.Value(os.ReadFile(file))(t)), -1) {
			source := id == "procstats.CgroupMemoryPeak" // of a headline: what advice concludes from it is in the guarantee
			if !source && !strings.Contains(basis, id+",") {
				t.Errorf("%s reads %s, which the basis does not have", file, id)
			}
		}
	}
}

// TestBasisIsBounded holds that hosts store little of a record, however long its names, reasons and numbers are.
func TestBasisIsBounded(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	r := &Record{
		Origin: Origin{Message: long}, Command: []string{long}, Diagnosis: Diagnosis{Verdict: ExecutorLost, Reason: long},
		Headline: map[string]HeadlineValue{}, Measurements: map[string]any{}, Commands: &Commands{Reason: long, LostRecords: math.MaxInt64},
	}
	for _, m := range procstats.Table() {
		r.Measurements[m.Name] = -math.Pi * 1e-300
		r.Headline[m.Name] = HeadlineValue{Value: new(-math.Pi * 1e-300), Guarantee: procstats.LowerBound, Source: long, Notes: []procstats.Note{{Text: long}}}
	}
	for range 200 {
		r.Commands.Rows = append(r.Commands.Rows, procstats.Command{Name: long, Processes: 1 << 20, PeakRSSBytes: 1 << 40})
	}
	if text := r.AdviceBasis(); len(text) > 2048 || strings.Contains(text, "xx") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
