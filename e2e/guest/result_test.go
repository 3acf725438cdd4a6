// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/guest/plan"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestRelay(t *testing.T) {
	for _, test := range []struct {
		name, messages string
		stdout, stderr string
		exit           int
		err            string
	}{
		{"pass", `{"Started":true}{"Output":"UEFTUwo="}{"Result":{"Exit":0}}`, "PASS\n", "up ", 0, ""},
		{"fail", `{"Output":"QQ=="}` + "\n" + `{"Output":"Qg=="}{"Result":{"Exit":1}}`, "AB", "", 1, ""},
		{"killed", `{"Result":{"Exit":137,"Signal":"killed"}}`, "", "signal: killed\n", 137, ""},
		{"nothing follows a result", `{"Result":{"Exit":3}}{"Output":"QQ=="}`, "", "", 3, ""},
		{"guest's error", `{"Result":{"Error":"mount /proc: no"}}`, "", "", 0, "mount /proc: no"},
		{"none", `{"Started":true}`, "", "up ", 0, errNoResult.Error()},
		{"cut", `{"Started":true}{"Resu`, "", "up ", 0, errNoResult.Error()},
		{"garbage", `[1]`, "", "", 0, "message from the guest"},
		{"foreign file", `{"File":{"Path":"/etc/passwd"}}`, "", "", 0, "not one of its outputs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			r := relay{stdout: []io.Writer{&stdout}, stderr: &stderr, started: func() { stderr.WriteString("up ") }}
			statuses, err := r.run(strings.NewReader(test.messages))
			exit := 0
			if len(statuses) > 0 {
				exit = statuses[0]
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			got := []any{stdout.String(), stderr.String(), exit}
			testkit.Diff(t, "stdout, stderr, status", []any{test.stdout, test.stderr, test.exit}, got)
		})
	}
}

func TestRelayOfSeveral(t *testing.T) {
	var first, second bytes.Buffer
	r := relay{stdout: []io.Writer{&first, &second}, started: func() {}}
	statuses, err := r.run(strings.NewReader(`{"Output":"QQ=="}{"Result":{"Exit":1}}{"Output":"Qg=="}{"Result":{"Exit":0}}`))
	testkit.NoError(t, err)
	testkit.Diff(t, "stdout, statuses", []any{"A", "B", []int{1, 0}}, []any{first.String(), second.String(), statuses})
	statuses, err = r.run(strings.NewReader(`{"Result":{"Exit":0}}{"Output":"Qg=="}`))
	testkit.Diff(t, "statuses", []int{0}, statuses)
	if !errors.Is(err, errNoResult) {
		t.Errorf("error %v, want %v", err, errNoResult)
	}
}

func TestRelaySave(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.out")
	r := relay{outputs: []string{file}}
	testkit.NoError(t, r.save(plan.File{Path: file, Data: []byte("mode: set")}))
	if text, err := os.ReadFile(file); err != nil || string(text) != "mode: set" {
		t.Errorf("%q, %v", text, err)
	}
	if err := r.save(plan.File{Path: dir + "/other/../c.out"}); err == nil {
		t.Error("saved a file under another name")
	}
}

func FuzzRelay(f *testing.F) {
	f.Add([]byte(`{"Started":true}{"Output":"UEFTUwo="}{"Result":{"Exit":1}}`))
	f.Add([]byte(`{"Result":{"Exit":137,"Signal":"killed"}}`))
	f.Add([]byte(`{"File":{"Path":"/a","Data":"QQ=="}}`))
	f.Add([]byte(`{"Output":`))
	f.Fuzz(func(t *testing.T, messages []byte) {
		r := relay{stdout: []io.Writer{io.Discard}, stderr: io.Discard, started: func() {}}
		if statuses, err := r.run(bytes.NewReader(messages)); (err == nil) != (len(statuses) == 1) {
			t.Errorf("statuses %d and %v", statuses, err)
		}
	})
}

func TestConsole(t *testing.T) {
	var c console
	if _, err := c.Write([]byte("\x1bc\x1b[?7l\x1b[2Jbooting\r\n\x1b[0mup\n")); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, c.String(), "booting\nup\n", "result")
}
