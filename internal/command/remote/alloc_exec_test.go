// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestCommandOfExec has -- before and behind the id; all that follows the command is the command's.
func TestCommandOfExec(t *testing.T) {
	for line, want := range map[string]string{
		"ID ls": "ls", "ID -- ls": "ls", "-- ID ls": "ls", "-- ID -- ls": "ls", "--task t ID -- ls -l": "ls -l",
		"-i=false -- ID -- sh -c true": "sh -c true", "ID ls -- x": "ls -- x", "ID -- ls -- x": "ls -- x", "ID -- -- x": "-- x",
		"ID -l": "-l", "ID": "COMMAND is missing", "ID --": "COMMAND is missing", "--": "ID is missing", "": "ID is missing",
	} {
		cmd := newAllocExec()
		testkit.Must(t, cmd.ParseFlags(strings.Fields(line)))
		got := strings.Join(commandOf(cmd.Flags().Args()), " ")
		if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil {
			got, _, _ = strings.Cut(err.Error(), " (see")
		}
		testkit.Equal(t, got, want, "tacho alloc exec %s runs", line)
	}
	if err := newAllocExec().Args(newAllocExec(), []string{"ID", "--", "sh", ""}); err != nil {
		t.Error("an empty argument:", err)
	}
}
