// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/tachograph/tacho/internal/command"
)

// TestScreens holds what terminals of four widths show: testdata/screens.txt has it all. No line is wider than its terminal.
func TestScreens(t *testing.T) {
	t.Setenv("TZ", "UTC")
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TACHO_OUTPUT_DIR", "testdata/runs")
	var got strings.Builder
	all, narrow := []uint16{60, 80, 120, 200}, []uint16{80}
	for _, shown := range []struct {
		args   string
		widths []uint16
	}{
		{"ls", all},
		{"attach 2026.03.04T10", all},
		{"top --iterations 1 --delay 200ms", all},
		{"show 2026.03.04T11", all},
		{"show --all 2026.03.04T10", narrow},
		{"show --all 2026.03.04T10", []uint16{60}},
		{"diff 2026.03.04T10 2026.03.04T11", all[:2]},
		{"diff --all 2026.03.04T10 2026.03.04T11", narrow},
		{"advise 2026.03.04T10", all[:1]},
		{"compare 2026.03.04T10 2026.03.04T12", all[:2]},
		{"explain cgroup_memory", narrow},
		{"explain process_state", all[:1]},
		{"alloc status", narrow},
		{"alloc status leak", narrow},
		{"alloc stats leak --all", narrow},
		{"alloc stats leak --history", narrow},
		{"job status", all},
		{"job status busy", all},
		{"help", all},
		{"run --help", all[:2]},
		{"events", narrow},
	} {
		args := shown.args
		for _, columns := range shown.widths {
			agent := httptest.NewServer(newFakeAgent(t, ""))
			t.Setenv("TACHO_ADDR", agent.URL)
			fmt.Fprintf(&got, "-- tacho %s, %d columns --\n", args, columns)
			before := strings.Count(got.String(), "\n")
			for line := range strings.Lines(screenOf(t, columns, strings.Fields(args))) {
				line = strings.TrimRight(line, "\r\n")
				got.WriteString(line + "\n")
				if n := utf8.RuneCountInString(line); n > int(columns) {
					t.Errorf("%s: a line of %d columns on a terminal of %d: %q", args, n, columns, line)
				}
			}
			if n := strings.Count(got.String(), "\n") - before; columns == 80 && strings.HasPrefix(args, "show 2") && n >= 40 {
				t.Errorf("%s: %d lines do not fit on a screen of 40 with a prompt", args, n)
			}
			agent.Close()
		}
	}
	compareGolden(t, "testdata/screens.txt", got.String())
}

// screenOf returns what a command writes to a terminal.
func screenOf(t *testing.T, columns uint16, args []string) string {
	t.Helper()
	master, terminal, err := pty.Open()
	must(t, err)
	defer master.Close()
	must(t, pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: columns}))
	written := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // EIO is the end of a terminal
		written <- string(text)
	}()
	command.Execute(context.Background(), args, strings.NewReader(""), terminal, terminal)
	must(t, terminal.Close())
	return <-written
}

// TestDoctorFitsTerminals holds that no line of the doctor is wider than its terminal; what it finds depends on the machine.
func TestDoctorFitsTerminals(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	const columns = 80
	for line := range strings.Lines(screenOf(t, columns, []string{"doctor"})) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); n > columns {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
}
