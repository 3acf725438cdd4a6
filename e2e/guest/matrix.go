// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// hostPlace names the machine that starts the guests.
const hostPlace = "host"

// recordHost is the command "guest record".
func recordHost(args []string, in io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("guest record", flag.ContinueOnError)
	flags.SetOutput(stderr)
	results := flags.String("results", "", "add the result of each test to `FILE`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, passed, err := record(in, stdout, hostPlace, strings.TrimSuffix(initPackage, "/e2e/guest/init"))
	if err == nil && *results != "" {
		err = appendTo(*results, encode(all))
	}
	if err == nil && !passed {
		err = errors.New("tests failed")
	}
	return err
}

// nowhere names tests that CI does not run: a package, or one of its tests with its subtests, and how they are run.
const nowhere = `
e2e/guest/smoke TestFile: a test of e2e/guest runs it in a guest of its own
procstats/source TestHelperProcess: the process that other tests start
internal/agent/api FuzzRequest/seed#4: it waits as long as it is asked to
internal/agent/api TestNomadCommandLine: a nomad executable; NOMAD_BIN
procstats/source TestDiskThatCannotBeRead: its end takes a user who is not root
executor/cgroup TestLimitPartition: a disk with partitions
e2e/nomad: a nomad executable is not free to fetch; make peers
e2e/peers TestFinalStates: the same
e2e/peers TestSameAsNomad: the same
e2e/peers TestDriverSuite: a checkout of Nomad; make peers
e2e/peers TestJobFiles: the same
e2e/peers TestDashboards: a prometheus executable, and dashboards of others; make peers
e2e/peers TestAlerts: a prometheus executable, and promtool; make peers
e2e/truth TestPeers: programs of others; make truth-peers
e2e/conformance TestInProcess/bytes_that_are_no_message: nothing is sent there
e2e/conformance TestInProcess/exec_with_an_impossible_terminal: the same
e2e/conformance TestInProcess/garbage_in_every_field_of_every_message: the same
e2e/conformance TestInProcess/plugin_info: the same
e2e/truth TestTruth/user/parent/cache: the guest of a user has no disk
e2e/truth TestTruth/user/parent/io-buffered: the same
e2e/truth TestTruth/user/parent/io-direct: the same
e2e/advice TestAdviceLoop: half an hour; make advise-loop
e2e/cost TestPaired: figures of a quiet machine; make cost
e2e/cost TestShort: the same
e2e/cost TestCold: the same
e2e/cost TestScale: ten minutes; make scale
`

// matrix is how each test ended in each place. Of several results the one that ran counts.
type matrix struct {
	places []string // in the order of the results
	tests  []testName
	ends   map[testName]map[string]tested
	notes  map[string][]string // of a place
}

type testName struct{ pkg, test string }

func newMatrix(all []tested) matrix {
	m := matrix{ends: map[testName]map[string]tested{}, notes: map[string][]string{}}
	for _, t := range all {
		if !slices.Contains(m.places, t.place) {
			m.places = append(m.places, t.place)
		}
		if t.status == "note" {
			if !slices.Contains(m.notes[t.place], t.reason) {
				m.notes[t.place] = append(m.notes[t.place], t.reason)
			}
			continue
		}
		name := testName{t.pkg, t.test}
		if m.ends[name] == nil {
			m.ends[name] = map[string]tested{}
		}
		if before, ok := m.ends[name][t.place]; !ok || before.status == "SKIP" {
			m.ends[name][t.place] = t
		}
	}
	m.tests = slices.SortedFunc(maps.Keys(m.ends), func(a, b testName) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	return m
}

// unrun returns the tests that every place skipped, except for those of the list, and the lines of the list whose test
// ran.
func (m matrix) unrun(list string) (tests []testName, stale []string) {
	ran := func(name testName) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(m.ends[name])), func(t tested) bool { return t.status != "SKIP" })
	}
	covers := func(line string, name testName) bool {
		pkg, test, _ := strings.Cut(strings.TrimSpace(strings.SplitN(line, ":", 2)[0]), " ")
		return pkg == name.pkg && (test == "" || name.test == test || strings.HasPrefix(name.test, test+"/"))
	}
	excepted := slices.Collect(strings.Lines(strings.Trim(list, "\n")))
	for _, name := range m.tests {
		i := slices.IndexFunc(excepted, func(line string) bool { return covers(line, name) })
		switch {
		case i < 0 && !ran(name):
			tests = append(tests, name)
		case i >= 0 && strings.Contains(strings.SplitN(excepted[i], ":", 2)[0], " ") && ran(name) && !slices.ContainsFunc(m.tests, func(sub testName) bool {
			return sub.pkg == name.pkg && strings.HasPrefix(sub.test, name.test+"/") // it ran to skip these
		}):
			stale = append(stale, strings.TrimSpace(excepted[i]))
		}
	}
	return tests, slices.Compact(stale)
}

// print prints a line for each test that ran in a guest or was skipped somewhere, and the reasons of those skipped.
func (m matrix) print(out io.Writer) {
	const marks = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for i, place := range m.places {
		var run, skipped int
		for _, ends := range m.ends {
			if t, ok := ends[place]; ok && t.status == "SKIP" {
				skipped++
			} else if ok {
				run++
			}
		}
		fmt.Fprintf(out, "%c  %-40s %5d run, %4d skipped\n", marks[i], place, run, skipped)
	}
	pkg := ""
	for _, name := range m.tests {
		ends := m.ends[name]
		var reasons []string
		row := strings.Repeat(".", len(m.places))
		for i, place := range m.places {
			t, ok := ends[place]
			switch {
			case ok && t.status == "SKIP":
				row = row[:i] + "-" + row[i+1:]
				if !slices.Contains(reasons, t.reason) {
					reasons = append(reasons, t.reason)
				}
			case ok:
				row = row[:i] + marks[i:i+1] + row[i+1:]
			}
		}
		_, here := ends[hostPlace]
		if len(reasons) == 0 && (strings.Contains(name.test, "/") || here && len(ends) == 1) {
			continue // of what ran in all its places a line for a test of guests will do
		}
		if pkg != name.pkg {
			pkg = name.pkg
			fmt.Fprintf(out, "\n%s\n", pkg)
		}
		fmt.Fprintf(out, "  %s  %s", row, name.test)
		if len(reasons) > 0 {
			fmt.Fprintf(out, "   (%s)", strings.Join(reasons, "; "))
		}
		fmt.Fprintln(out)
	}
}

// printTable is the command "guest table".
func printTable(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("guest table", flag.ContinueOnError)
	flags.SetOutput(stderr)
	docs := flags.String("docs", "", "write the table of kernels to `FILE`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	m := newMatrix(decode(string(text)))
	m.print(stdout)
	if *docs != "" {
		if err := os.WriteFile(*docs, []byte(kernelsPage(m)), 0o644); err != nil {
			return err
		}
	}
	tests, stale := m.unrun(nowhere)
	for _, name := range tests {
		fmt.Fprintf(stdout, "ran nowhere: %s %s\n", name.pkg, name.test)
	}
	for _, line := range stale {
		fmt.Fprintf(stdout, "listed as run nowhere, but ran: %s\n", line)
	}
	if len(tests)+len(stale) > 0 {
		return fmt.Errorf("%d tests ran nowhere, %d exceptions are stale", len(tests), len(stale))
	}
	return nil
}

// checks are the rows of "tacho doctor" that the table of kernels has columns for.
func checks() []string {
	return []string{
		"measurements", "cgroup memory", "cgroup cpu", "cgroup io", "cgroup pids", "pressure (PSI)", "exit records", "network", "kernel log",
	}
}

// kernelsPage is the page of the documentation that says what is measured where.
func kernelsPage(m matrix) string {
	var b strings.Builder
	b.WriteString(`# Kernels and processors

CI runs these tests in guests with other kernels, and writes this page (` + "`guest table`" + `): what ` + "`tacho doctor`" + ` finds there, as root
where nothing else is said, and the packages whose tests run there. Those in *italics* run nightly (` + "`make guest-all`" + `). **v1** has all
controllers on version 1, **v2** on version 2, **hybrid** those of version 1 beside a version 2 without any; in **flat**, ` + "`memory.use_hierarchy`" + `
is 0 at the root. Since 6.12, Debian's kernels have no memory controller of version 1; *v1* and *hybrid* then show what is left.

`)
	columns := append([]string{"place", "kernel", "processor"}, checks()...)
	fmt.Fprintf(&b, "| %s | tests |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)+1))
	for _, p := range tablePlaces() {
		kernel := note(m.notes[p.name], "kernel")
		if p.name == hostPlace {
			kernel, _, _ = strings.Cut(kernel, "-") // the rest is of one machine
		}
		cells := []string{p.name, cmp.Or(kernel, "–"), p.arch}
		for _, check := range checks() {
			cells = append(cells, cmp.Or(note(m.notes[p.name], check), "–"))
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(cells, " | "), p.tests)
	}
	return b.String()
}

func note(notes []string, name string) string {
	for _, line := range notes {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return value
		}
	}
	return ""
}

// tablePlace is a place of the table, and what is tested there.
type tablePlace struct{ name, arch, tests string }

func tablePlaces() []tablePlace {
	places := []tablePlace{{hostPlace, "amd64", "all"}}
	for _, r := range rows() {
		o, err := parseFlags(r.guest, io.Discard)
		if err != nil {
			continue // TestTable asserts that there are none
		}
		i := slices.IndexFunc(places, func(p tablePlace) bool { return p.name == o.place() })
		if i < 0 {
			i = len(places)
			places = append(places, tablePlace{name: o.place(), arch: o.arch})
		}
		p := &places[i]
		for _, s := range r.suites {
			name := strings.TrimPrefix(path.Clean(s.pkg), "e2e/")
			if r.nightly {
				name = "*" + name + "*"
			}
			if words := strings.Split(p.tests, ", "); !slices.Contains(words, name) && !slices.Contains(words, strings.Trim(name, "*")) {
				p.tests = strings.TrimPrefix(p.tests+", "+name, ", ")
			}
		}
	}
	slices.SortStableFunc(places[1:], func(a, b tablePlace) int { return compareVersions(a.name, b.name) })
	return places
}

// compareVersions orders names that begin with a version.
func compareVersions(a, b string) int {
	var x, y [2]int
	_, _ = fmt.Sscanf(a, "%d.%d", &x[0], &x[1])
	_, _ = fmt.Sscanf(b, "%d.%d", &y[0], &y[1])
	return slices.Compare(x[:], y[:])
}
