// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package command

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/testkit"
)

// everyCommand calls visit for all commands below one.
func everyCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, below := range cmd.Commands() {
		visit(below)
		everyCommand(below, visit)
	}
}

// TestEveryFlagHasAVariable holds that a value that is right for one flag with a variable is right for all, and that no text of a
// flag is raw: shells show it.
func TestEveryFlagHasAVariable(t *testing.T) {
	t.Parallel()
	accepted := map[string]string{} // what each variable accepts
	everyCommand(Root(), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "help" || flag.Name == "version" {
				return
			}
			name, found := cli.Variables(cmd)(flag)
			if !found || !strings.HasPrefix(name, "TACHO_") || flag.Usage == "" || strings.ContainsAny(flag.Usage, "`[]{}") {
				t.Errorf("%s --%s: the variable %q, %q", cmd.CommandPath(), flag.Name, name, flag.Usage)
			}
			accepts := "--" + flag.Name + " " + flag.Value.Type()
			if flag.Value.Type() == "WORD" {
				accepts += ": " + flag.Usage
			}
			if other, given := accepted[name]; given && other != accepts {
				t.Errorf("%s is a variable of %s and of %s", name, accepts, other)
			}
			accepted[name] = accepts
		})
	})
}

func TestNoCommandHidesTheEnvironment(t *testing.T) {
	everyCommand(Root(), func(cmd *cobra.Command) {
		if cmd.PersistentPreRun != nil || cmd.PersistentPreRunE != nil {
			t.Errorf("%s has a PersistentPreRun of its own: flags would not be set by the environment", cmd.CommandPath())
		}
	})
}

func TestEveryCommandHelps(t *testing.T) {
	everyCommand(Root(), func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		if cmd.Short == "" || cmd.Runnable() && !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s has no short help, or no example", cmd.CommandPath())
		}
	})
}

// broken is a writer that takes nothing, as a full disk does.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestOutputThatCannotBeWrittenIsAFault(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"version"},
		{"version", "--format", "json"},
		{"explain"},
		{"explain", "memory_bytes"},
		{"explain", "--format", "json"},
		{"ls", "--output-dir", "testdata/runs"},
		{"export", "testdata/runs/2026.03.04T10.00.00-100"},
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

// TestHelpFitsTerminals holds that no line of any help is wider than 80 columns.
func TestHelpFitsTerminals(t *testing.T) {
	t.Parallel()
	const columns = 80
	root := Root()
	check := func(cmd *cobra.Command) {
		var text strings.Builder
		cmd.SetOut(&text)
		testkit.Must(t, cmd.Help())
		for line := range strings.Lines(text.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
				t.Errorf("%s --help: a line of %d columns: %q", cmd.CommandPath(), n, line)
			}
		}
	}
	check(root)
	everyCommand(root, check)
}
