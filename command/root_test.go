// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand calls visit for all commands below one.
func everyCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, below := range cmd.Commands() {
		visit(below)
		everyCommand(below, visit)
	}
}

func TestEveryFlagHasAVariable(t *testing.T) {
	everyCommand(newRoot(), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			name, ok := variable(flag)
			if ok && !strings.HasSuffix(flag.Usage, " [$"+name+"]") {
				t.Errorf("%s --%s: the help does not name %s once at its end: %q", cmd.CommandPath(), flag.Name, name, flag.Usage)
			}
			if strings.Count(flag.Usage, "[$") > 1 {
				t.Errorf("%s --%s: the help names its variable twice: %q", cmd.CommandPath(), flag.Name, flag.Usage)
			}
		})
	})
}

func TestNoCommandHidesTheEnvironment(t *testing.T) {
	everyCommand(newRoot(), func(cmd *cobra.Command) {
		if cmd.PersistentPreRun != nil || cmd.PersistentPreRunE != nil {
			t.Errorf("%s has a PersistentPreRun of its own: flags would not be set by the environment", cmd.CommandPath())
		}
	})
}

func TestEveryCommandHelps(t *testing.T) {
	everyCommand(newRoot(), func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		if cmd.Short == "" || cmd.Runnable() && !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s has no short help, or no example", cmd.CommandPath())
		}
	})
}

func TestReport(t *testing.T) {
	ordinary := &cobra.Command{Use: "ls"}
	starter := launcher(&cobra.Command{Use: "run"})
	for _, test := range []struct {
		name string
		cmd  *cobra.Command
		err  error
		code int
		text string
	}{
		{"well", ordinary, nil, 0, ""},
		{"fault", ordinary, errors.New("read x: no"), 1, "tacho: read x: no\n"},
		{"usage", ordinary, usagef("no such thing"), 2, "tacho: no such thing\n"},
		{"several lines", ordinary, errors.Join(errors.New("one"), errors.New("two\x1b[0m")), 1, "tacho: one; two\\x1b[0m\n"},
		{"a launcher's fault", starter, errors.New("no"), 125, "tacho: no\n"},
		{"a launcher's usage", starter, usagef("no"), 125, "tacho: no\n"},
		{"the command's code", starter, exitWith(7, nil), 7, ""},
		{"not found", starter, exitWith(127, errors.New("x: not found")), 127, "tacho: x: not found\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr strings.Builder
			if code := report(&stderr, test.cmd, test.err); code != test.code || stderr.String() != test.text {
				t.Errorf("code %d and %q, want %d and %q", code, stderr.String(), test.code, test.text)
			}
		})
	}
}

// broken is a writer that takes nothing, as a full disk does.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestOutputThatCannotBeWrittenIsAFault(t *testing.T) {
	for _, args := range [][]string{
		{"version"},
		{"version", "--format", "json"},
		{"explain"},
		{"explain", "memory_bytes"},
		{"explain", "--format", "json"},
		{"ls", "--output-dir", "testdata/runs"},
		{"ls", "--output-dir", "testdata/runs", "--format", "csv"},
		{"show", "testdata/runs/2026.03.04T10.00.00-100"},
		{"plot", "testdata/runs/2026.03.04T10.00.00-100"},
		{"diff", "testdata/runs/2026.03.04T10.00.00-100", "testdata/runs/2026.03.04T11.00.00-200"},
	} {
		var stderr strings.Builder
		if code := Execute(t.Context(), args, strings.NewReader(""), broken{}, &stderr); code != 1 || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d and %q, want 1 and a line", args, code, stderr.String())
		}
	}
}
