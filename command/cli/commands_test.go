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
	for _, test := range []struct {
		args []string
		want string // empty for no error
	}{
		{[]string{"a", "b"}, ""},
		{[]string{"a"}, "B is missing (see diff --help)"},
		{nil, "A is missing (see diff --help)"},
		{[]string{"a", ""}, "B is empty (see diff --help)"},
		{[]string{"a", "b", "c"}, "unexpected argument \"c\" (see diff --help)"},
	} {
		err := Arguments("A", "B")(&cobra.Command{Use: "diff"}, test.args)
		if _, usage := errors.AsType[*usageError](err); (err == nil) != (test.want == "") || err != nil && (err.Error() != test.want || !usage) {
			t.Errorf("%q: %v, want %q", test.args, err, test.want)
		}
	}
}

// TestApplyEnvironment holds that flags override variables, and variables override defaults.
func TestApplyEnvironment(t *testing.T) {
	for _, test := range []struct {
		variable string
		args     []string
		want     string
		fails    string
	}{
		{"", nil, "table", ""},
		{"json", nil, "json", ""},
		{"json", []string{"--format", "table"}, "table", ""},
		{"xml", nil, "table", "environment variable TACHO_LS_FORMAT=xml: must be table or json (see tacho ls --help)"},
	} {
		t.Setenv("TACHO_LS_FORMAT", test.variable)
		cmd := &cobra.Command{Use: "ls"}
		(&cobra.Command{Use: "tacho"}).AddCommand(cmd)
		format := AddFormat(cmd, "table", "json")
		if err := cmd.ParseFlags(test.args); err != nil {
			t.Fatal(err)
		}
		err := ApplyEnvironment(cmd, nil)
		if (err == nil) != (test.fails == "") || err != nil && !strings.HasPrefix(err.Error(), test.fails) || format.String() != test.want {
			t.Errorf("%q and %q: %s, %v, want %s", test.variable, test.args, format, err, test.want)
		}
	}
}
