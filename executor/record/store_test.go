// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

func exampleRecord(id string, started time.Time) *Record {
	code := 0
	return &Record{
		Version: Version{SchemaVersion: SchemaVersion, TachoVersion: "1.2.3"}, State: Exited, ID: id,
		Command: []string{"sh", "-c", "a && b > c"}, Origin: Origin{PID: 42, StartTicks: 7, BootID: "boot"},
		StartedAt: started, EndedAt: started.Add(2 * time.Second), WallSeconds: new(2.0), ExitCode: &code,
		Diagnosis:    Diagnosis{Verdict: Completed, Summary: "It ended well.", Stall: Fine},
		Headline:     map[string]HeadlineValue{"cpu_seconds_total": {Value: new(0.0), Source: "cgroup_cpu_usage_seconds_total"}},
		Measurements: map[string]any{"cgroup_cpu_usage_seconds_total": 0.0},
		Absent:       map[string]string{"cgroup_memory_peak_bytes": "no memory controller"},
		Surroundings: Surroundings{Sources: []Source{{Name: "cgroup", Version: "v2", Available: true}}, Selection: []string{"cgroup_cpu_usage_seconds_total"}},
		About:        About{Labels: map[string]string{"a": "b"}},
	}
}

func exampleUsage(from time.Time) *Usage {
	return &Usage{
		SchemaVersion: SchemaVersion, From: from, To: from.Add(time.Second), FromMono: 10, ToMono: 11, Samples: 2,
		Measurements: map[string]Reduced{
			"cgroup_memory_current_bytes":    {Last: new(0.0), Min: new(0.0), Max: new(5.0), Mean: new(2.5)},
			"cgroup_cpu_usage_seconds_total": {Last: new(3.0), Delta: new(1.0), Rate: new(1.0)},
		},
		Absent:    map[string]string{"cgroup_memory_peak_bytes": "no memory controller"},
		Processes: &ProcessTable[Reduced]{Rows: []TableRow[Reduced]{{PID: 1, Command: "x<y", States: map[string]int64{"R": 2}}}},
	}
}

func TestStoreWritesWhatReadReads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "one")
	store := testkit.Value(Create(dir))(t)
	defer store.Close()

	started := time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)
	first := exampleRecord("one", started)
	first.State = Running
	second := exampleRecord("one", started)
	for _, want := range []*Record{first, second} {
		must(t, store.Put(want))
		got := testkit.Value(Read(dir))(t)
		testkit.Diff(t, "record", want, got)
	}

	lines := []*Usage{exampleUsage(started), exampleUsage(started.Add(time.Minute))}
	for _, next := range []struct {
		line        *Usage
		provisional bool
	}{
		{lines[0], false},
		{exampleUsage(started.Add(time.Second)), true},
		{exampleUsage(started.Add(2 * time.Second)), true},
		{lines[1], false},
	} {
		must(t, store.Append(next.line, next.provisional))
	}
	var got []*Usage
	for line, err := range ReadUsage(dir) {
		must(t, err)
		got = append(got, line)
	}
	testkit.Diff(t, "usage", lines, got)
}

// TestReserve holds that a record takes the place of what was reserved for it, and that a reservation can be given up.
func TestReserve(t *testing.T) {
	dir := t.TempDir()
	store := testkit.Value(Create(dir))(t)
	defer store.Close()
	want := exampleRecord("one", time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC))
	must(t, errors.Join(store.Reserve(), store.Put(want)))
	got := testkit.Value(Read(dir))(t)
	testkit.Diff(t, "result", want, got)
	must(t, store.Reserve())
	if info, err := os.Stat(filepath.Join(dir, temporaryName())); err != nil || info.Size() != reservation {
		t.Errorf("reserved: %v, %v", info, err)
	}
	testkit.NoError(t, store.RemoveTemporary())
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("files: %v, %v", files, err)
	}
}

func TestStoreFilesBelongToTheirUserAlone(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	store, err := Create(dir)
	must(t, err)
	defer store.Close()
	must(t, store.Put(exampleRecord("b", time.Now())))
	want := map[string]fs.FileMode{"a": 0o700, "a/b": 0o700, "a/b/info.json": 0o600, "a/b/usage.jsonl": 0o600}
	got := map[string]fs.FileMode{}
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		got[path] = info.Mode().Perm()
		return nil
	})
	must(t, err)
	testkit.Diff(t, "files and modes", want, got)
}

func TestCreateRejectsTheFolderOfAnotherRun(t *testing.T) {
	dir := t.TempDir()
	store := testkit.Value(Create(dir))(t)
	if _, err := Create(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create over a run that starts: %v, want fs.ErrExist", err)
	}
	must(t, store.Put(exampleRecord("x", time.Now())))
	must(t, store.Close())
	if _, err := Create(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create over a record: %v, want fs.ErrExist", err)
	}
	again := testkit.Value(Open(dir))(t)
	defer again.Close()
	must(t, again.Put(exampleRecord("x", time.Now())))
}

func TestStoreFollowsARenamedFolder(t *testing.T) {
	root := t.TempDir()
	store := testkit.Value(Create(filepath.Join(root, "before")))(t)
	defer store.Close()
	after := filepath.Join(root, "after")
	must(t, os.Rename(store.Dir(), after))
	must(t, store.Put(exampleRecord("x", time.Now())))
	if _, err := Read(after); err != nil {
		t.Error(err)
	}
}

func TestAppendStartsANewLineAfterATornOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, UsageFile)
	testkit.Must(t, os.WriteFile(path, []byte(`{"schema_version":"1.0","fr`), 0o600))
	store := testkit.Value(Open(dir))(t)
	defer store.Close()
	must(t, store.Append(exampleUsage(time.Now()), false))
	var read, damaged int
	for _, err := range ReadUsage(dir) {
		if err == nil {
			read++
			continue
		}
		damaged++
		if want := path + ": line 1: "; !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if read != 1 || damaged != 1 {
		t.Errorf("%d lines read, %d damaged; want one of each", read, damaged)
	}
}

func TestListIsNewestFirstAndKeepsDamagedRuns(t *testing.T) {
	root := t.TempDir()
	started := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, name := range []string{"b", "c", "a"} {
		store := testkit.Value(Create(filepath.Join(root, name)))(t)
		must(t, store.Put(exampleRecord(name, started.Add(time.Duration(i)*time.Hour))))
		must(t, store.Close())
	}
	must(t, os.Mkdir(filepath.Join(root, "empty"), 0o700))
	entries := testkit.Value(ListBriefly(root))(t)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	testkit.Diff(t, "order", []string{"a", "c", "b", "empty"}, names)
	if last := entries[len(entries)-1]; last.Record != nil || !errors.Is(last.Err, fs.ErrNotExist) {
		t.Errorf("folder without a record: %+v, want fs.ErrNotExist", last)
	}
	if none, err := ListBriefly(filepath.Join(root, "nowhere")); err != nil || len(none) > 0 {
		t.Errorf("List of no folder: %v, %v; want no runs", none, err)
	}
}

func TestReadNamesFileAndLine(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          string
		foreign       bool
	}{
		{"empty", "", "the file is empty", true},
		{"blank", " \n\n", "the file is empty", true},
		{"text", "hello\n", "line 1: invalid character 'h'", false},
		{"cut off", "{\n  \"schema_version\": \"1.0\",\n  \"command\": [\n", "line 3: unexpected end of JSON input", false},
		{"wrong kind", "{\n  \"schema_version\": \"1.0\",\n  \"pid\": \"many\"\n}\n", "line 3: pid: unexpected string", false},
		{"foreign", `{"hello": 1}`, "it has no schema_version", true},
		{"older", `{"schema_version": "0.2.2"}`, `schema_version "0.2.2", not 1.x`, true},
		{"later", `{"schema_version": "2.0"}`, `schema_version "2.0", not 1.x`, true},
		{"array", `[]`, "line 1: unexpected array", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, InfoFile)
			must(t, os.WriteFile(path, []byte(test.content), 0o600))
			_, err := Read(dir)
			if err == nil {
				t.Fatal("no error")
			}
			if want := "read " + path + ": " + test.want; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %q\nwant it to start %q", err, want)
			}
			if errors.Is(err, ErrForeign) != test.foreign {
				t.Errorf("errors.Is(%q, ErrForeign) = %t, want %t", err, !test.foreign, test.foreign)
			}
		})
	}
}

func TestReadTakesLaterMinorVersions(t *testing.T) {
	r := testkit.Value(Decode([]byte(`{"schema_version": "1.7", "id": "x", "something_new": [1, 2]}`)))(t)
	testkit.Equal(t, r.ID, "x", "id")
}

func TestReadUsagePassesOverALineBeingWritten(t *testing.T) {
	dir := t.TempDir()
	whole := `{"schema_version":"1.0","samples":3}`
	must(t, os.WriteFile(filepath.Join(dir, UsageFile), []byte(whole+"\n"+whole[:20]), 0o600))
	var samples []int64
	for u, err := range ReadUsage(dir) {
		must(t, err)
		samples = append(samples, u.Samples)
	}
	if len(samples) != 1 || samples[0] != 3 {
		t.Errorf("samples %v, want [3]", samples)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", "{}", "[]", `{"schema_version":"1.0"}`, `{"schema_version":1}`} {
		f.Add([]byte(seed))
	}
	fuzzDecode(f, Decode, exampleRecord("x", time.Unix(0, 0).UTC()))
}

func FuzzDecodeUsage(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"schema_version":"1.0","measurements":{"x":{"last":null}}}`} {
		f.Add([]byte(seed))
	}
	fuzzDecode(f, func(line []byte) (*Usage, error) { return decode[Usage](line, 1) }, exampleUsage(time.Unix(0, 0).UTC()))
}

// fuzzDecode holds that what was read can be written, and read again.
func fuzzDecode[T any](f *testing.F, decode func([]byte) (*T, error), example *T) {
	whole, err := encode(example, "  ")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, content []byte) {
		value, err := decode(content)
		if err != nil {
			return
		}
		again, err := encode(value, "")
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err := decode(again); err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, again)
		}
	})
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
