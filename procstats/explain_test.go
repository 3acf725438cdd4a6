// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestExplain(t *testing.T) {
	for _, name := range []string{
		"cgroup_memory_peak_bytes", "psi_memory_full_seconds_total", "process_state", "memory_bytes",
	} {
		t.Run(name, func(t *testing.T) {
			e := testkit.Value(procstats.Explain(name))(t)
			text := strings.Join(e.Text, "\n") + "\n"
			for _, fact := range e.Facts {
				text += fact[0] + ": " + fact[1] + "\n"
			}
			golden(t, "testdata/explain/"+name+".golden.txt", []byte(text))
		})
	}
}

func TestExplainOffersNearMisses(t *testing.T) {
	e, err := procstats.Explain("cgroup_memory_peak")
	if !errors.Is(err, procstats.ErrUnknownMeasurement) || e.Text != nil || !strings.Contains(err.Error(), "cgroup_memory_peak_bytes") {
		t.Errorf("%q, %v", e, err)
	}
}

// TestMeasurementsPage holds docs/measurements.md to the table; -update writes it.
func TestMeasurementsPage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the page marks the default selection of Linux, which is another one here")
	}
	golden(t, "../docs/measurements.md", measurementsPage())
}

const pageHead = `# Measurements

<!-- Generated from the table in procstats by "go generate ./procstats". Edit the table, not this page. -->

Every number that Tachograph can report is a row of one table. Its name is the key in JSON and the word for
` + "`--measurements`" + `; ` + "`tacho explain NAME`" + ` prints the same text as this page.

**Absent is not zero.** A number that could not be read is missing, with the reason next to it.

**Kinds.** The kind of a measurement decides how it may be reduced over a window:

| kind | reductions |
|---|---|
`

const pageGuarantees = `
A rate is the growth of a counter over the time between the reads of its own source, on the monotonic clock. If
the counter went down, or there is only one reading, there is no rate.

**Guarantees.** How a value relates to the truth:

| guarantee | meaning |
|---|---|
| exact | the kernel's own accounting of what is named |
| lower_bound | can miss something, never counts too much; a headline that counted nothing, a lower bound of 0, is absent for memory and in the record of a task that has ended |
| upper_bound | can count too much, never misses anything |
| sampled | correct at the moments of reading; says nothing about the time between them |

**Selecting.** ` + "`tacho run --measurements`" + `, and the key ` + "`measurements`" + ` of the driver and of a task
([configuration](configuration.md#the-driver)), take a comma-separated list of names, of groups (whole words from the start of names:
` + "`cgroup_memory`, `psi`, `process`" + `), of headlines (which select everything they can be taken from), ` + "`all`" + ` and
` + "`default`" + `. A leading minus removes: ` + "`default,-process,smaps`" + `. The measurements marked with * are in the
default on Linux. ` + "`disk`" + ` is the directory given by ` + "`tacho run --disk`" + `, or the task's own with all that is in it; the directory
` + "`alloc`" + `, which the tasks of an allocation share, is not. A block ` + "`disk`" + ` in the configuration selects it and sets how often it is read.
`

// measurementsPage is docs/measurements.md.
func measurementsPage() []byte {
	var b bytes.Buffer
	b.WriteString(pageHead)
	for kind := procstats.Gauge; kind <= procstats.Category; kind++ {
		var words []string
		for _, r := range kind.Reductions() {
			words = append(words, r.String())
		}
		fmt.Fprintf(&b, "| %s | %s |\n", kind, strings.Join(words, ", "))
	}
	b.WriteString(pageGuarantees)
	writeHeadlines(&b)
	sources := make(map[procstats.SourceID]bool)
	for _, m := range procstats.Table() {
		if m.Source != procstats.SourceNone {
			sources[m.Source] = true
		}
	}
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		writeSource(&b, source)
	}
	return b.Bytes()
}

// sourceTitles say in words what each group of measurements is.
var sourceTitles = map[procstats.SourceID]string{
	procstats.SourceCgroup:   "the task's control group, version 1 or 2",
	procstats.SourcePSI:      "pressure: what the task waited for",
	procstats.SourceTree:     "the task's processes",
	procstats.SourceSmaps:    "proportional memory, at a longer interval",
	procstats.SourceIO:       "I/O by process",
	procstats.SourceDisk:     "the task's directory, at a longer interval",
	procstats.SourceRusage:   "resource usage of reaped children",
	procstats.SourceExecutor: "what the measurement costs",
	procstats.SourcePortable: "systems other than Linux",
	procstats.SourceHugetlb:  "huge pages, which memory.* does not count",
	procstats.SourceExits:    "every process that ended, in records",
	procstats.SourceSkb:      "the network: packets of the task's sockets",
}

func writeHeadlines(b *bytes.Buffer) {
	b.WriteString("\n## Headlines\n\nThe few numbers to look at first. Each is taken from the first measurement that was read, and carries its name and\nguarantee.\n")
	for _, m := range procstats.Table() {
		if m.Scope == procstats.HeadlineScope {
			writeRow(b, m)
		}
	}
}

func writeSource(b *bytes.Buffer, source procstats.SourceID) {
	fmt.Fprintf(b, "\n## %s: %s\n", source, sourceTitles[source])
	for _, m := range procstats.Table() {
		if m.Source == source {
			writeRow(b, m)
		}
	}
}

func writeRow(b *bytes.Buffer, m procstats.Measurement) {
	mark, unit, guarantee := "", m.Unit.String(), string(m.Guarantee)
	if procstats.DefaultSelection().Has(m.ID) {
		mark = " *"
	}
	if unit == "" {
		unit = "no unit"
	}
	if m.Scope == procstats.HeadlineScope {
		guarantee = "guarantee of its source"
	}
	fmt.Fprintf(b, "\n### %s%s\n\n%s", m.Name, mark, m.Help)
	if m.Pitfall != "" {
		fmt.Fprintf(b, " *Note:* %s", m.Pitfall)
	}
	fmt.Fprintf(b, "\n\n%s, %s, %s; scope %s; number %d. From: %s\n", m.Kind, unit, guarantee, m.Scope, int(m.ID), m.File)
}
