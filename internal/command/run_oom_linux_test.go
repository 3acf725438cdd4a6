// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestTellsOfAKillAtOnce holds that the kill of a child is reported while the command continues.
func TestTellsOfAKillAtOnce(t *testing.T) {
	t.Parallel()
	// Without a line's end, tail(1) has to keep everything.
	const script = `head -c 300M /dev/zero | tail; read go`
	cmd := tachoRun(t, t.TempDir(), "--memory", "30M", "--live", "never", "--", "sh", "-c", script)
	in := testkit.Value(cmd.StdinPipe())(t)
	said := testkit.Value(cmd.StderrPipe())(t)
	must(t, cmd.Start())
	lines, told := bufio.NewScanner(said), ""
	for told == "" && lines.Scan() {
		switch line := lines.Text(); {
		case strings.Contains(line, "cannot be applied here"):
			t.Skip(line)
		case strings.HasPrefix(line, "tacho: OOM kill: "):
			told = line
		}
	}
	if !strings.Contains(told, "tail[") || !strings.Contains(told, "the main process is still running") {
		t.Errorf("%q, want that tail was killed and the main process is still running", told)
	}
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Error(err)
	}
	must(t, cmd.Wait())
}
