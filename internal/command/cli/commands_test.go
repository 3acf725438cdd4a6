// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestArguments(t *testing.T) {
	both, optional, several := []string{"A", "B"}, []string{"ID", "[TASK]"}, []string{"[RUN...]"}
	for _, test := range []struct {
		names, args []string
		want        string // empty for no error
	}{
		{both, []string{"a", "b"}, ""},
		{both, []string{"a"}, "B is missing (see diff --help)"},
		{both, nil, "A is missing (see diff --help)"},
		{both, []string{"a", ""}, "B is empty (see diff --help)"},
		{both, []string{""}, "A is empty (see diff --help)"},
		{both, []string{"a", "b", "c"}, "unexpected argument \"c\" (see diff --help)"},
		{optional, nil, "ID is missing (see diff --help)"},
		{optional, []string{"a"}, ""},
		{optional, []string{"a", "b"}, ""},
		{optional, []string{"a", ""}, "TASK is empty (see diff --help)"},
		{optional, []string{"", "b"}, "ID is empty (see diff --help)"},
		{optional, []string{"a", "b", "c"}, "unexpected argument \"c\" (see diff --help)"},
		{several, nil, ""},
		{several, []string{"a", "b", "c"}, ""},
		{several, []string{"a", "b", ""}, "RUN is empty (see diff --help)"},
		{nil, nil, ""},
		{nil, []string{"a"}, "unexpected argument \"a\" (see diff --help)"},
	} {
		err := Arguments(test.names...)(&cobra.Command{Use: "diff"}, test.args)
		if own, ok := errors.AsType[*exitError](err); (err == nil) != (test.want == "") || err != nil && (err.Error() != test.want || !ok || own.code != codeUsage) {
			t.Errorf("%q: %v, want %q", test.args, err, test.want)
		}
	}
}

func TestReport(t *testing.T) {
	ordinary := &cobra.Command{Use: "ls"}
	starter := Launcher(&cobra.Command{Use: "run"})
	for _, test := range []struct {
		name string
		cmd  *cobra.Command
		err  error
		code int
		text string
	}{
		{"well", ordinary, nil, 0, ""},
		{"fault", ordinary, errors.New("read x: no"), 1, "tacho: read x: no\n"},
		{"usage", ordinary, Usagef("no such thing"), 2, "tacho: no such thing\n"},
		{"several lines", ordinary, errors.Join(errors.New("one"), errors.New("two\x1b[0m")), 1, "tacho: one; two\\x1b[0m\n"},
		{"a launcher's fault", starter, errors.New("no"), 125, "tacho: no\n"},
		{"a launcher's usage", starter, Usagef("no"), 125, "tacho: no\n"},
		{"the command's code", starter, ExitWith(7, nil), 7, ""},
		{"not found", starter, ExitWith(127, errors.New("x: not found")), 127, "tacho: x: not found\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr strings.Builder
			if code := Report(&stderr, test.cmd, test.err); code != test.code || stderr.String() != test.text {
				t.Errorf("code %d and %q, want %d and %q", code, stderr.String(), test.code, test.text)
			}
		})
	}
}
