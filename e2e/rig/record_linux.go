// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/executor/record"
)

// Records returns the records below a place's output folder.
func (p *Place) Records(t testing.TB) []record.Record {
	t.Helper()
	var all []record.Record
	for _, file := range p.infoFiles(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r record.Record
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, r)
	}
	return all
}

// Record returns the one record of a place.
func (p *Place) Record(t testing.TB) record.Record {
	t.Helper()
	all := p.Records(t)
	if len(all) != 1 {
		t.Fatalf("%d records in %s, want 1", len(all), p.Out)
	}
	return all[0]
}

// Reports returns the lines of the one usage.jsonl of a place.
func (p *Place) Reports(t testing.TB) []json.RawMessage {
	t.Helper()
	files := p.infoFiles(t)
	if len(files) != 1 {
		t.Fatalf("%d records in %s, want 1", len(files), p.Out)
	}
	file, err := os.Open(filepath.Join(filepath.Dir(files[0]), "usage.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var reports []json.RawMessage
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if !json.Valid(lines.Bytes()) {
			t.Fatalf("%s: line %d is not JSON: %q", file.Name(), len(reports)+1, lines.Bytes())
		}
		reports = append(reports, append(json.RawMessage{}, lines.Bytes()...))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return reports
}

func (p *Place) infoFiles(t testing.TB) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(p.Out, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "info.json" {
			files = append(files, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}
