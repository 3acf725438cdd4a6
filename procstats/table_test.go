// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestTableIsOrderedAndUnique(t *testing.T) {
	names := map[string]bool{}
	last := procstats.ID(0)
	for _, m := range procstats.Table() {
		if m.ID <= last {
			t.Errorf("%s: number %d does not come after %d", m.Name, m.ID, last)
		}
		last = m.ID
		if names[m.Name] {
			t.Errorf("the name %s is given twice", m.Name)
		}
		names[m.Name] = true
		if found, ok := procstats.Lookup(m.ID); !ok || found != m {
			t.Errorf("Lookup(%d) = %v, %v, want %s", m.ID, found.Name, ok, m.Name)
		}
		if found, ok := procstats.LookupName(m.Name); !ok || found != m {
			t.Errorf("LookupName(%s) = %d, %v, want %d", m.Name, found.ID, ok, m.ID)
		}
	}
	if s := procstats.SelectWhere(func(procstats.Measurement) bool { return true }); !s.Has(procstats.PortableProcessRSS) {
		t.Error("a selection has no room for the last measurement")
	}
}

func TestUnknownNumbersAreNotSelected(t *testing.T) {
	for _, id := range []procstats.ID{0, 511, 512, 65535} {
		if _, ok := procstats.Lookup(id); ok || procstats.Select(id).Has(id) {
			t.Errorf("%d is a measurement: %v", id, ok)
		}
	}
}

// TestRowsFollowTheRules holds what makes a name readable without its row: the unit comes last, and only
// counters are called total.
func TestRowsFollowTheRules(t *testing.T) {
	word := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)+$`)
	for _, m := range procstats.Table() {
		t.Run(m.Name, func(t *testing.T) {
			if !word.MatchString(m.Name) {
				t.Error("the name is not lower-case words joined by underscores")
			}
			if total := strings.HasSuffix(m.Name, "_total"); total != (m.Kind == procstats.Counter) {
				t.Errorf("the name of a %s ends in _total: %v", m.Kind, total)
			}
			stem := strings.TrimSuffix(m.Name, "_total")
			if unit := m.Unit.String(); unit != "" && !strings.HasSuffix(stem, "_"+unit) && m.ID != procstats.HeadlineCoresAverage {
				t.Errorf("the name does not end in its unit, %s", unit)
			}
			headline := m.Scope == procstats.HeadlineScope
			if (m.Guarantee == "") != headline || (m.Source == procstats.SourceNone) != headline {
				t.Errorf("scope %s with guarantee %q and source %q", m.Scope, m.Guarantee, m.Source)
			}
			if m.File == "" || !strings.HasSuffix(m.Help, ".") || (m.Pitfall != "" && !strings.HasSuffix(m.Pitfall, ".")) {
				t.Error("file, help or pitfall is missing or no sentence")
			}
			if strings.ContainsAny(m.File+m.Help+m.Pitfall, "|\n") {
				t.Error("a text has a character that tables cannot hold")
			}
			prefix := m.Source.String() + "_"
			if !headline && m.Scope == procstats.TaskScope && m.Source != procstats.SourceIO && !strings.HasPrefix(m.Name, prefix) {
				t.Errorf("the name does not begin with its source, %s", m.Source)
			}
		})
	}
}

// TestHeadlineTextsNameTheirSources holds the texts of headlines to the orders that the code takes.
func TestHeadlineTextsNameTheirSources(t *testing.T) {
	for _, m := range procstats.Table() {
		if m.Scope != procstats.HeadlineScope || strings.HasPrefix(m.Name, "cpu_cores") {
			continue
		}
		for _, name := range procstats.Select(m.ID).Names() {
			if !strings.Contains(m.File, name) {
				t.Errorf("%s can be taken from %s, and its text does not say so: %s", m.Name, name, m.File)
			}
		}
	}
}

// TestWordsOfUnknownValues holds that a value of a newer build prints as what it is, and never as nothing.
func TestWordsOfUnknownValues(t *testing.T) {
	for got, want := range map[string]string{
		procstats.Kind(99).String(): "kind(99)", procstats.Reduction(99).String(): "reduction(99)",
		procstats.Scope(99).String(): "scope(99)", procstats.SourceID(99).String(): "source(99)",
		procstats.Label.String(): "label", procstats.Category.String(): "category",
	} {
		testkit.Equal(t, got, want, "result")
	}
}

// TestNumbersArePermanent holds every row to the one that was once published: nothing may be changed or
// removed, only added.
func TestNumbersArePermanent(t *testing.T) {
	const path = "testdata/ids.golden"
	var lines []string
	for _, m := range procstats.Table() {
		unit := m.Unit.String()
		if unit == "" {
			unit = "none"
		}
		lines = append(lines, fmt.Sprintf("%d %s %s %s %s", m.ID, m.Name, unit, m.Kind, m.Scope))
	}
	published, err := os.ReadFile(path)
	if err != nil && !(*update && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(published)) {
		if line = strings.TrimSuffix(line, "\n"); !slices.Contains(lines, line) {
			t.Errorf("published row %q was changed or removed: add a row with a new number instead", line)
		}
	}
	if t.Failed() {
		return // -update does not take back what was published either
	}
	golden(t, path, []byte(strings.Join(lines, "\n")+"\n"))
}
