// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/command"
)

// TestScreens holds what terminals of four widths show: testdata/screens.txt has it all. No line is wider than its terminal.
func TestScreens(t *testing.T) {
	const golden = "testdata/screens.txt"
	t.Setenv("TZ", "UTC")
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TACHO_OUTPUT_DIR", "testdata/runs")
	var got strings.Builder
	for _, args := range []string{"ls", "attach 2026.03.04T10", "top --iterations 1 --delay 200ms"} {
		for _, columns := range []uint16{60, 80, 120, 200} {
			agent := httptest.NewServer(newFakeAgent(t, ""))
			t.Setenv("TACHO_ADDR", agent.URL)
			fmt.Fprintf(&got, "-- tacho %s, %d columns --\n", args, columns)
			for line := range strings.Lines(screenOf(t, columns, strings.Fields(args))) {
				line = strings.TrimRight(line, "\r\n")
				got.WriteString(line + "\n")
				if n := utf8.RuneCountInString(line); n > int(columns) {
					t.Errorf("%s: a line of %d columns on a terminal of %d: %q", args, n, columns, line)
				}
			}
			agent.Close()
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}

// screenOf returns what a command writes to a terminal.
func screenOf(t *testing.T, columns uint16, args []string) string {
	t.Helper()
	master, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	written := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // EIO is the end of a terminal
		written <- string(text)
	}()
	command.Execute(context.Background(), args, strings.NewReader(""), terminal, terminal)
	if err := terminal.Close(); err != nil {
		t.Error(err)
	}
	return <-written
}
