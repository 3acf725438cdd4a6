// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"20260304T10", "20260304T11", "20260304", "last"} {
		store := testkit.Value(record.Create(filepath.Join(root, name)))(t)
		must(t, store.Put(&record.Record{Version: record.Version{SchemaVersion: record.SchemaVersion}}))
		must(t, store.Close())
	}
	must(t, os.Mkdir(filepath.Join(root, "20270101"), 0o700))
	for _, test := range []struct{ word, want, fails string }{
		{"20260304T10", "20260304T10", ""},
		{"20260304", "20260304", ""}, // the whole name of one, the prefix of others
		{"20260304T", "", "is the prefix of several runs: 20260304T11, 20260304T10"},
		{filepath.Join(root, "20260304T11"), "20260304T11", ""},
		{filepath.Join(root, "20260304T11", record.InfoFile), "20260304T11", ""},
		{"2028", "", "no run \"2028\""},
		{"", "", "no run \"\""},
		{"20270101", "20270101", "no run at"},
		{"last~0", "last", ""},
		{"last~9", "", "last~9: only 5 runs"},
		{"last~", "", "must be last~ and a whole number"},
		{"last~-1", "", "must be last~ and a whole number"},
	} {
		entry, err := Find(root, test.word)
		if entry.Name != test.want || (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%q: %q, %v, want %q, %q", test.word, entry.Name, err, test.want, test.fails)
		}
	}
	if _, err := Find(filepath.Join(root, "nothing"), "last"); err == nil || !strings.HasPrefix(err.Error(), "no runs in") {
		t.Errorf("last of no runs: %v", err)
	}
}

// must ends a test if its preparation failed.
var must = testkit.Must
