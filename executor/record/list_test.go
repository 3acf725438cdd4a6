// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestListBriefly holds that a record read for a table is the whole one without what tables do not show, however its
// text is indented, and that an error is that of Read.
func TestListBriefly(t *testing.T) {
	r := exampleRecord("x", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	r.Command = []string{"a\n  \"state\": \"lost\",\n", `"headline": {`, "}", ",", ""}
	r.Labels = map[string]string{"headline": "{", "\n  \"id": "\n    \"y\": ,"}
	r.Message, r.Notes, r.Where = "}\n", []string{"note"}, "here"
	peak, cpu := procstats.HeadlineMemoryPeak.String(), procstats.HeadlineCPU.String()
	r.Headline = map[string]HeadlineValue{
		cpu: {Value: new(1.0), Source: "s"}, peak: {Reason: "}\n  }"}, "another": {Value: new(2.0)},
	}
	r.Processes = &Processes{Rows: []ProcessRow{{PID: 1, Command: "x"}}}
	r.Commands, r.Peak = &Commands{}, &Peak{}
	r.Diagnosis.Evidence, r.Diagnosis.LastReading = map[string]any{"oom": 1.0}, &LastReading{}
	r.Cgroup, r.Limits = &Cgroup{Layout: "v2"}, []Limit{{Name: "x"}}
	indented := string(testkit.Value(encode(r, "  "))(t))
	compact := string(testkit.Value(encode(r, ""))(t))
	without := *r
	without.Measurements, without.Absent, without.Processes, without.Commands, without.Peak = nil, nil, nil, nil, nil
	without.Surroundings, without.Notes = Surroundings{}, nil
	without.Diagnosis.Evidence, without.Diagnosis.LastReading = nil, nil
	without.Headline = maps.Clone(r.Headline)
	delete(without.Headline, "another")
	for name, test := range map[string]struct {
		text string
		want *Record // nil for an error
	}{
		"indented": {indented, &without}, "compact": {compact, r}, "by tabs": {string(testkit.Value(json.MarshalIndent(r, "", "\t"))(t)), r},
		"cut off": {indented[:len(indented)/2], nil}, "cut off at the end": {indented[:len(indented)-3], nil},
		"empty": {"", nil}, "no object": {"{\n  \"}", nil}, "another kind": {"{\n  \"schema_version\": \"1.0\",\n  \"absent\": {\n  },\n  \"pid\": \"x\"\n}\n", nil},
		"foreign": {"{\n  \"a\": 1\n}\n", nil},
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "run")
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, InfoFile), []byte(test.text), 0o600))
		got := testkit.Value(ListBriefly(root))(t)[0]
		if _, err := Read(dir); (err == nil) != (got.Err == nil) || err != nil && err.Error() != got.Err.Error() {
			t.Errorf("%s: %v, Read says %v", name, got.Err, err)
		}
		if test.want != nil && got.Record != nil {
			testkit.Diff(t, name, string(testkit.Value(encode(test.want, " "))(t)), string(testkit.Value(encode(got.Record, " "))(t)))
		} else if (test.want == nil) != (got.Record == nil) {
			t.Errorf("%s: %+v, %v", name, got.Record, got.Err)
		}
	}
}

// TestListNewest holds that the newest runs are found without the records of old ones, also of a series, and where the
// clock was set back or a directory has another name.
func TestListNewest(t *testing.T) {
	root := t.TempDir()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	put := func(name string, after time.Duration) {
		t.Helper()
		store := testkit.Value(Create(filepath.Join(root, name)))(t)
		must(t, store.Put(exampleRecord(name, began.Add(after))))
		must(t, store.Close())
	}
	named := func(after time.Duration) string { return began.Add(after).Format("20060102T150405") }
	for i := range 100 {
		must(t, os.Mkdir(filepath.Join(root, named(time.Duration(i)*time.Second)+"-1"), 0o700)) // not to be read
	}
	for i := range 160 {
		put(fmt.Sprintf("%s-7-%03d", named(time.Hour), 860+i), time.Hour+time.Duration(i)*time.Second)
	}
	put(named(2*time.Hour)+"-3", 90*time.Minute) // by a clock that was wrong
	put("named", time.Minute)
	put("2026.newest", 3*time.Hour)
	entries := testkit.Value(ListNewest(root, 3))(t)
	want := []string{"2026.newest", named(2*time.Hour) + "-3", named(time.Hour) + "-7-1019", named(time.Hour) + "-7-1018"}
	var got []string
	for _, entry := range entries {
		if entry.Err != nil {
			t.Error(entry.Err)
		}
		got = append(got, entry.Name)
	}
	testkit.Diff(t, "newest", want, got[:4])
	testkit.Equal(t, len(got), 3+150+2, "records read")
}

// BenchmarkList lists and finds among 10,000 runs.
func BenchmarkList(b *testing.B) {
	root := b.TempDir()
	for i := range 10_000 {
		at := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
		dir := filepath.Join(root, at.Format("20060102T150405")+"-1")
		testkit.Must(b, os.Mkdir(dir, 0o700))
		text := testkit.Value(encode(exampleRecord(filepath.Base(dir), at), "  "))(b)
		testkit.Must(b, os.WriteFile(filepath.Join(dir, InfoFile), text, 0o600))
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			testkit.Equal(b, len(testkit.Value(ListBriefly(root))(b)), 10_000, "runs")
		}
	})
	b.Run("newest", func(b *testing.B) {
		for b.Loop() {
			testkit.Equal(b, len(testkit.Value(ListNewest(root, 1))(b)), 151, "runs")
		}
	})
}
