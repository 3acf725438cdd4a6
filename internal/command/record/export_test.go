// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestExportRoundTrip reads back what was exported: without the names of the runs it is samples.csv again.
func TestExportRoundTrip(t *testing.T) {
	points := pointsOf(t, "../testdata/runs/2026.03.04T10.00.00-100")
	var text, lines strings.Builder
	for format, out := range map[string]*strings.Builder{"csv": &text, "jsonl": &lines} {
		write := testkit.Value(exporter(out, format))(t)
		must(t, write(`a,"run"`, points))
	}
	rows, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	if err != nil || len(rows) != 1+len(points) || len(points) < 3 {
		t.Fatalf("%d rows of %d points, %v", len(rows), len(points), err)
	}
	var again strings.Builder
	w := csv.NewWriter(&again)
	decoder := json.NewDecoder(strings.NewReader(lines.String()))
	for i, row := range rows {
		must(t, w.Write(row[1:]))
		if i == 0 {
			continue
		}
		object := map[string]any{}
		if err := decoder.Decode(&object); err != nil || len(object) != len(row) || object["run"] != `a,"run"` {
			t.Fatalf("line %d: %v, %v", i, object, err)
		}
		for n, name := range rows[0] {
			if value, isNumber := object[name].(float64); isNumber == (row[n] == "") && n > 1 {
				t.Errorf("line %d: %s is %v in JSON and %q in CSV", i, name, value, row[n])
			}
		}
	}
	w.Flush()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, record.SamplesFile), []byte(again.String()), 0o600))
	var before, after [][]string
	for _, p := range points {
		before = append(before, p.Fields())
	}
	for _, p := range pointsOf(t, dir) {
		after = append(after, p.Fields())
	}
	testkit.Diff(t, "result", before, after)
}

func pointsOf(t *testing.T, dir string) (points []*series.Point) {
	t.Helper()
	for p, err := range series.ReadCSV(filepath.Join(dir, record.SamplesFile)) {
		if errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			points = append(points, p)
		}
	}
	return points
}
