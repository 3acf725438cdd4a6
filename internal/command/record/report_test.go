// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestReport holds that a report is one file: it loads nothing, and no text of a run becomes an element or a script.
func TestReport(t *testing.T) {
	const hostile = `</code><script>alert(1)</script><img src=x onerror=alert(1)>'"`
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		must(t, os.CopyFS(filepath.Join(dir, name), os.DirFS("../testdata/runs/2026.03.04T10.00.00-100")))
		store := testkit.Value(record.Open(filepath.Join(dir, name)))(t)
		r := testkit.Value(record.Read(filepath.Join(dir, name)))(t)
		r.Command, r.Message, r.Labels, r.Notes, r.Host.Name = []string{hostile}, hostile, map[string]string{hostile: hostile}, []string{hostile}, hostile
		r.Limits[0].Where, r.Diagnosis.Summary = hostile, hostile
		must(t, store.Put(r))
		must(t, store.Close())
	}
	output := filepath.Join(dir, "report.html")
	cmd := newReport()
	cmd.SetArgs([]string{filepath.Join(dir, "one"), filepath.Join(dir, "two"), "-o", output})
	must(t, cmd.Execute())
	file := testkit.Value(os.Open(output))(t)
	defer file.Close()
	page := testkit.Value(html.Parse(file))(t)
	elements := map[string]int{}
	for n := range page.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		elements[n.Data]++
		for _, a := range n.Attr {
			if a.Key == "src" || a.Key == "href" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
	}
	const charts = 2*4 + 3 // of each run, and of both together
	if elements["script"] != 1 || elements["img"] != 0 || elements["section"] != 3 || elements["svg"] != 1+2*charts || elements["table"] < 5 {
		t.Errorf("elements: %v", elements)
	}
}

// must ends a test if its preparation failed.
var must = testkit.Must
