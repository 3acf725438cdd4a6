// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"cmp"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// headline is a HeadlineValue in words.
func headline(h procstats.HeadlineValue) string {
	if !h.Reading.Present() {
		return show(h.Reading)
	}
	return show(h.Reading) + " " + string(h.Guarantee) + " " + h.Source
}

// headlineCase is a case of testdata/headlines: lines of a word and what it is for. Sample words (now, before, window)
// have the second of their sample; a number in quotes is the reason why a reading is absent.
type headlineCase struct {
	name    string
	now     *procstats.Sample
	history procstats.History
	// want are headlines in words, with the rules that contradict them behind a semicolon.
	want map[string]string
}

// headlineCases reads a file of cases.
func headlineCases(t *testing.T, path string) (cases []headlineCase) {
	t.Helper()
	text := testkit.Value(os.ReadFile(path))(t)
	for paragraph := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		c := headlineCase{want: map[string]string{}}
		for line := range strings.SplitSeq(strings.ReplaceAll(paragraph, "\n\t", " "), "\n") {
			word, rest, _ := strings.Cut(line, " ")
			var err error
			switch word {
			case "#":
				c.name = rest
			case "now":
				c.now = sampleOf(t, rest)
			case "before":
				c.history.Previous = sampleOf(t, rest)
			case "window":
				c.history.Window = cmp.Or(c.history.Window, &procstats.Window{})
				c.history.Window.Add(sampleOf(t, rest))
			case "largest":
				c.history.Largest.Add(sampleOf(t, "0 "+rest))
			case "elapsed":
				c.history.Elapsed, err = time.ParseDuration(rest)
			case "cpus":
				c.history.CPUs, err = strconv.Atoi(rest)
			case "ended":
				c.history.Ended, c.history.EndKnown = true, rest == "kernel"
			case "want":
				name, want, _ := strings.Cut(rest, " ")
				c.want[name] = want
			default:
				t.Fatalf("%s: %q", path, line)
			}
			if err != nil {
				t.Fatalf("%s: %q: %v", path, line, err)
			}
		}
		cases = append(cases, c)
	}
	return cases
}

var readingText = regexp.MustCompile(`^ ?(\w+)=("[^"]*"|\S+)`)

// sampleOf reads a sample: its second, and readings.
func sampleOf(t *testing.T, text string) *procstats.Sample {
	t.Helper()
	when, rest, _ := strings.Cut(text, " ")
	second, err := strconv.ParseFloat(when, 64)
	var readings []procstats.Reading
	for rest != "" && err == nil {
		part := readingText.FindStringSubmatch(rest)
		if part == nil {
			t.Fatalf("no reading: %q", rest)
		}
		rest = rest[len(part[0]):]
		m, known := procstats.LookupName(part[1])
		if !known {
			t.Fatalf("no measurement: %q", part[1])
		}
		if reason, found := strings.CutPrefix(part[2], `"`); found {
			readings = append(readings, absent(m.ID, strings.TrimSuffix(reason, `"`)))
			continue
		}
		digits, isMiB := strings.CutSuffix(part[2], "MiB")
		var value float64
		if value, err = strconv.ParseFloat(digits, 64); isMiB {
			value *= 1 << 20
		}
		readings = append(readings, number(m.ID, value))
	}
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return sampleAt(at(second), readings...)
}

// TestHeadlines holds from which measurement each headline is taken, and each rule against readings that contradict
// each other and against those next to them that do not.
func TestHeadlines(t *testing.T) {
	for _, file := range []string{"sources", "checks"} {
		for _, test := range headlineCases(t, "testdata/headlines/"+file+".txt") {
			t.Run(test.name, func(t *testing.T) {
				got := map[string]string{}
				for _, h := range procstats.Headlines(test.now, test.history) {
					name := h.ID.String()
					if h.ID != h.Reading.ID() {
						t.Errorf("%s holds a reading of %s", name, h.Reading.ID())
					}
					total := headline(procstats.CPUTotal(test.now))
					if h.ID == procstats.HeadlineCPU && !test.history.Ended && total != headline(h) {
						t.Errorf("the total is %s, the headline %s", total, headline(h))
					}
					if _, asked := test.want[name]; !asked {
						continue
					}
					got[name] = headline(h)
					for _, n := range h.Notes {
						got[name] += "; " + n.Rule
					}
				}
				if diff := gocmp.Diff(test.want, got); diff != "" {
					t.Errorf("headlines (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestHeadlinesAreAllThereInOrder(t *testing.T) {
	var want, got []string
	for _, m := range procstats.Table() {
		// These are listed if they are not 0.
		seldom := m.ID == procstats.HeadlineSwap || m.ID == procstats.HeadlineHugetlb ||
			m.ID == procstats.HeadlineProcessesAge
		if m.Scope == procstats.HeadlineScope && !seldom {
			want = append(want, m.Name)
		}
	}
	for _, h := range procstats.Headlines(&procstats.Sample{}, procstats.History{}) {
		m, _ := procstats.Lookup(h.ID)
		got = append(got, m.Name)
		if h.Reading.Present() || h.Reading.Reason() == "" || h.Source != "" || h.Guarantee != "" {
			t.Errorf("%s of an empty sample: %s", m.Name, headline(h))
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("headlines (-table +got):\n%s", diff)
	}
}
