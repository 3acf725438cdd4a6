// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestNewID gives every run of one second and one PID a name of its own, and of a series too.
func TestNewID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &runOptions{outputDir: t.TempDir()}
		var ids []string
		for _, taken := range []string{"", "-001", ""} {
			id := o.newID()
			if slices.Contains(ids, id) {
				t.Errorf("%s again", id)
			}
			ids = append(ids, id)
			must(t, os.Mkdir(filepath.Join(o.outputDir, id+taken), 0o700))
		}
	})
}

// TestFindCommand holds that a command that cannot be run has the exit codes of the shell.
func TestFindCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no execute permission")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for name, mode := range map[string]os.FileMode{"good": 0o755, "plain": 0o644} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, mode))
	}
	for _, test := range []struct {
		name string
		code int // 0 for no error
	}{{"good", 0}, {filepath.Join(dir, "good"), 0}, {"missing", exitNotFound}, {"", exitNotFound}} {
		path, err := findCommand(test.name)
		code := 0
		if err != nil {
			code = cli.Report(&strings.Builder{}, &cobra.Command{}, err)
		}
		if code != test.code || (err == nil) != (path == filepath.Join(dir, "good")) {
			t.Errorf("%q: %q, exit code %d, want %d", test.name, path, code, test.code)
		}
	}
}

func TestPrunable(t *testing.T) {
	now := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	entry := func(name string, age time.Duration) record.Entry {
		return record.Entry{Name: name, Record: &record.Record{State: record.Exited, EndedAt: now.Add(-age)}}
	}
	entries := []record.Entry{
		entry("c", time.Minute), {Name: "damaged", Err: errors.New("damaged")}, entry("b", time.Hour), entry("a", 48*time.Hour),
	}
	for _, test := range []struct {
		keep      int
		olderThan time.Duration
		want      []string
	}{{0, 0, []string{"c", "b", "a"}}, {1, 0, []string{"b", "a"}}, {0, 24 * time.Hour, []string{"a"}}, {3, 0, nil}} {
		var got []string
		for _, entry := range prunable(entries, test.keep, test.olderThan, now) {
			got = append(got, entry.Name)
		}
		testkit.Diff(t, fmt.Sprintf("keep %d, older than %s", test.keep, test.olderThan), test.want, got)
	}
}

// TestEndedAgo holds that a run of this boot is as old as it is, however the wall clock was set since.
func TestEndedAgo(t *testing.T) {
	host := kernel.HostFS()
	boot, err := kernel.BootID(host)
	if err != nil {
		t.Skip(err)
	}
	self := testkit.Value(kernel.Identify(host, os.Getpid()))(t)
	span := 5.0
	r := &record.Record{SpanSeconds: &span, Origin: record.Origin{BootID: boot, StartTicks: self.Start}}
	want := kernel.SinceBoot() - kernel.Ticks(self.Start) - 5*time.Second
	for _, step := range []time.Duration{0, 6 * time.Hour, -24 * time.Hour, 13 * 365 * 24 * time.Hour} {
		r.EndedAt = time.Now().Add(-step)
		if got := endedAgo(r, time.Now()); (got - want).Abs() > 10*time.Second {
			t.Errorf("clock set by %s: %s ago, want %s", step, got, want)
		}
	}
	r.BootID = "another"
	if got := endedAgo(r, r.EndedAt.Add(time.Hour)); got != time.Hour {
		t.Errorf("of another boot: %s ago", got)
	}
}

func TestParseIOMax(t *testing.T) {
	limit, err := parseIOMax("254:16:rbps=1M,wiops=100")
	if err != nil || limit.GetDevice() != "254:16" || limit.GetReadBytesPerSecond() != 1<<20 || limit.GetWriteOperationsPerSecond() != 100 ||
		limit.WriteBytesPerSecond != nil || limit.ReadOperationsPerSecond != nil {
		t.Errorf("%v (%v)", limit, err)
	}
	for text, want := range map[string]string{
		"254:16":                  "must be DEVICE:",
		"254:16:":                 "must be DEVICE:",
		"254:16:speed=1":          `"speed" is not one of`,
		"254:16:rbps":             "must be DEVICE:",
		"254:16:rbps=1,rbps=2":    "given twice",
		"254:16:rbps=0":           "at least 1",
		"254:16:rbps=fast":        "at least 1",
		"/dev/null:rbps=1":        "",
		"/no/such/device:rbps=1M": "",
	} {
		if limit, err := parseIOMax(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v (%v), want %q", text, limit, err, want)
		}
	}
}

// must ends a test if its preparation failed.
var must = testkit.Must
