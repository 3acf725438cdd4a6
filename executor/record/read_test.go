// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
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
	r, err := Decode([]byte(`{"schema_version": "1.7", "id": "x", "something_new": [1, 2]}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.ID != "x" {
		t.Errorf("id %q, want x", r.ID)
	}
}

func TestReadUsagePassesOverALineBeingWritten(t *testing.T) {
	dir := t.TempDir()
	whole := `{"schema_version":"1.0","samples":3}`
	if err := os.WriteFile(filepath.Join(dir, UsageFile), []byte(whole+"\n"+whole[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	var samples []int64
	for u, err := range ReadUsage(dir) {
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, u.Samples)
	}
	if len(samples) != 1 || samples[0] != 3 {
		t.Errorf("samples %v, want [3]", samples)
	}
}

func FuzzDecode(f *testing.F) {
	whole, err := encode(exampleRecord("x", time.Unix(0, 0).UTC()), "  ")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "{}", "[]", `{"schema_version":"1.0"}`, `{"schema_version":1}`, string(whole)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		r, err := Decode(content)
		if err != nil {
			return
		}
		again, err := encode(r, "")
		if err != nil {
			t.Fatalf("a record that was read cannot be written: %v", err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("a record that was written cannot be read: %v\n%s", err, again)
		}
	})
}

func FuzzDecodeUsage(f *testing.F) {
	whole, err := encode(exampleUsage(time.Unix(0, 0).UTC()), "")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "{}", `{"schema_version":"1.0","measurements":{"x":{"last":null}}}`, string(whole)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		u, err := DecodeUsage(line)
		if err != nil {
			return
		}
		again, err := encode(u, "")
		if err != nil {
			t.Fatalf("a line that was read cannot be written: %v", err)
		}
		if _, err := DecodeUsage(again); err != nil {
			t.Fatalf("a line that was written cannot be read: %v\n%s", err, again)
		}
	})
}
