// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

func TestTable(t *testing.T) {
	for _, r := range rows() {
		if o, err := parseFlags(r.guest, t.Output()); err != nil || len(o.rest) > 0 || len(r.suites) == 0 {
			t.Errorf("%q: %v, %q", r.guest, err, o.rest)
		}
		for _, s := range r.suites {
			if !exists("../../" + s.pkg) {
				t.Errorf("no package %s", s.pkg)
			}
		}
	}
}

// TestKernelsPage asserts that the page has the places and tests of the table, in its order. What was found there is of
// the newest run that wrote it: archives move on.
func TestKernelsPage(t *testing.T) {
	text := testkit.Value(os.ReadFile("../../docs/kernels.md"))(t)
	outline := func(page string) string {
		var rows []string
		for line := range strings.Lines(page) {
			if f := strings.Split(strings.Trim(line, "| \n"), " | "); len(f) > 3 {
				line = f[0] + " " + f[2] + " " + f[len(f)-1] + "\n"
			}
			rows = append(rows, line)
		}
		return strings.Join(rows, "")
	}
	testkit.Diff(t, `docs/kernels.md (run "make guest-all")`, outline(kernelsPage(matrix{})), outline(string(text)))
	for _, p := range tablePlaces() {
		if strings.Contains(p.tests, "guest/smoke") && strings.Contains(string(text), "| "+p.name+" | – |") {
			t.Errorf("docs/kernels.md says nothing of %s", p.name)
		}
	}
}

const transcriptOfTwo = `=== RUN   TestA
=== PAUSE TestA
=== RUN   TestB
=== RUN   TestB/x
=== RUN   TestB/y
    b_test.go:9: no shell here: "sh"
=== NAME  TestB
    b_test.go:3: measured here: network: yes
--- PASS: TestB (0.01s)
    --- PASS: TestB/x (0.00s)
    --- SKIP: TestB/y (0.00s)
=== CONT  TestA
    a_test.go:5: no disk
--- SKIP: TestA (0.00s)
PASS
`

func TestReadTests(t *testing.T) {
	want := []tested{
		{"p", "q", "TestB", "note", "network: yes"},
		{"p", "q", "TestB", "PASS", ""},
		{"p", "q", "TestB/x", "PASS", ""},
		{"p", "q", "TestB/y", "SKIP", `no shell here: "sh"`},
		{"p", "q", "TestA", "SKIP", "no disk"},
	}
	got := readTests(transcriptOfTwo, "p", "q")
	testkit.Diff(t, "tests", encode(want), encode(got))
	testkit.Diff(t, "written and read", encode(got), encode(decode(string(encode(got)))))
}

func TestRecord(t *testing.T) {
	for _, test := range []struct {
		name, in, out string
		passed        bool
		tests         int
	}{
		{"passed", transcriptOfTwo + "ok  \tm/q\t0.1s\n", "ok  \tm/q\t0.1s\n", true, 5},
		{"failed", "--- FAIL: TestC (0.00s)\nFAIL\nFAIL\tm/q\t0.1s\nFAIL\n", "--- FAIL: TestC (0.00s)\nFAIL\nFAIL\tm/q\t0.1s\nFAIL\n", false, 1},
		{"no tests", "?   \tm/q\t[no test files]\n", "?   \tm/q\t[no test files]\n", true, 0},
		{"not built", "# m/q\nx.go:1: no\nFAIL\tm/q [build failed]\n", "# m/q\nx.go:1: no\nFAIL\tm/q [build failed]\n", false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			all, passed, err := record(strings.NewReader(test.in), &out, hostPlace, "m")
			testkit.NoError(t, err)
			testkit.Diff(t, "output, passed, tests", []any{test.out, test.passed, test.tests}, []any{out.String(), passed, len(all)})
		})
	}
}

func TestMatrix(t *testing.T) {
	m := newMatrix([]tested{
		{"host", "q", "TestA", "SKIP", "no guest"},
		{"6.1 v1", "q", "TestA", "PASS", ""},
		{"host", "q", "TestB", "SKIP", "no disk"},
		{"host", "q", "TestC", "PASS", ""},
		{"host", "q", "TestC/x", "SKIP", "no Nomad"},
		{"host", "q", "TestD", "PASS", ""},
		{"6.1 v1", "r", "TestD", "SKIP", "no disk"},
	})
	tests, stale := m.unrun("\nq TestC: Nomad is not installed\nq TestD: stale\nr TestD: absent\n")
	testkit.Equal(t, fmt.Sprint(tests), "[{q TestB}]", "unrun")
	testkit.Diff(t, "stale", []string{"q TestD: stale"}, stale)
	var out bytes.Buffer
	m.print(&out)
	for _, want := range []string{"a  host ", "2 run,    3 skipped", "  -b  TestA   (no guest)\n", "  -.  TestC/x   (no Nomad)\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
