// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestFindCores holds what is found of core dumps, for each kind of kernel.core_pattern.
func TestFindCores(t *testing.T) {
	const main = 4711
	elf := func(kind byte) string {
		return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + string(kind) + "\x00"
	}
	dir, shared := t.TempDir(), t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, text := range map[string]string{
		"core": elf(4), "core.4711": elf(4) + "main", "core.12": elf(4) + "child", "core.text": "a note", "core.program": elf(2),
		"sub/core.4711": elf(4), "x[4711]11-sh": elf(4), "earlier.4711": elf(4), "100%.core": elf(4),
	} {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if name == "earlier.4711" {
			testkit.Must(t, os.Chtimes(path, old, old))
		}
	}
	testkit.Must(t, os.WriteFile(filepath.Join(shared, "core.4711"), []byte(elf(4)), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(shared, "core.12"), []byte(elf(4)), 0o600))
	testkit.Must(t, os.Symlink(filepath.Join(shared, "core.4711"), filepath.Join(dir, "core.99")))
	testkit.Must(t, unix.Mkfifo(filepath.Join(dir, "core.98"), 0o600))
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "core.97"), 0o700))
	for _, test := range []struct {
		pattern string
		dumped  bool
		want    string // the names, or the text of what is no file
	}{
		{"core", true, "core"},
		{"core", false, "core"}, // of a child
		{"core.%p", true, "core.12 core.4711"},
		{"core.%P", false, "core.12 core.4711"},
		{"sub/core.%p", true, "core.4711"},
		{"x[%p]%s-%e", true, "x[4711]11-sh"},
		{"100%%.core", true, "100%.core"},
		{"earlier.%p", true, "core dump, which was not found"},
		{"earlier.%p", false, ""},
		{"none", false, ""},
		{"", true, "core dump, which was not found"},
		{"%", false, ""},
		{shared + "/core.%p", true, "core.4711"},
		{shared + "/core.%p", false, ""}, // that of others
		{"|/usr/lib/systemd/systemd-coredump %P %u", true, `core dump handed to "systemd-coredump"`},
		{"|/usr/lib/systemd/systemd-coredump %P %u", false, ""},
		{"|", true, ""},
	} {
		var got []string
		for _, core := range findCores(test.pattern, dir, time.Now().Add(-time.Minute), main, test.dumped) {
			if core.Path == "" {
				got = append(got, core.Text())
				continue
			}
			got = append(got, filepath.Base(core.Path))
			info := testkit.Value(os.Stat(core.Path))(t)
			testkit.Equal(t, core.Bytes, info.Size(), "size of %s", core.Path)
		}
		testkit.Equal(t, strings.Join(got, " "), test.want, "%q, dumped: %v", test.pattern, test.dumped)
	}
}

// TestCoreInSummary holds that the sentence about the end names core dumps with their sizes, and not all of many.
func TestCoreInSummary(t *testing.T) {
	core := record.Core{Path: "/task/core.1\x1b", Bytes: 21 << 20}
	for n, want := range []string{
		"Terminated by signal 11 (SIGSEGV)",
		`Terminated by signal 11 (SIGSEGV); core dump "core.1\x1b" of 21 MiB`,
		`Terminated by signal 11 (SIGSEGV); core dump "core.1\x1b" of 21 MiB, and 1 more`,
	} {
		e := record.Evidence{Signal: 11, ExitCode: 139}
		for range n {
			e.Cores = append(e.Cores, core)
		}
		testkit.Equal(t, record.Diagnose(e).Summary, want, "summary")
	}
}
