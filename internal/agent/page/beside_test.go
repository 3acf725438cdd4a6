// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"encoding/json"
	"net/url"
	"regexp"
	"testing"

	"golang.org/x/net/html"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestBeside draws two tasks over each other: the line of the other one is what its own page draws.
func TestBeside(t *testing.T) {
	t.Parallel()
	h := serve(stage(t), false)
	lines := func(path string) map[string]map[string][]*float64 {
		t.Helper()
		found := map[string]map[string][]*float64{}
		content := get(t, h, path).Body.String()
		for _, match := range regexp.MustCompile(`data-live="(chart-[a-z]+)">[^']*data-chart='([^']*)'`).FindAllStringSubmatch(content, -1) {
			var data struct {
				Series []struct {
					Label  string
					Values []*float64
				}
			}
			testkit.Must(t, json.Unmarshal([]byte(html.UnescapeString(match[2])), &data))
			found[match[1]] = map[string][]*float64{}
			for _, s := range data.Series {
				found[match[1]][s.Label] = s.Values
			}
		}
		return found
	}
	const span = "?span=5m"
	with := "&with=" + url.QueryEscape(pagetest.ID(3)+"/extract")
	both, other := lines(task(1, "api")+span+with), lines(task(3, "extract")+span)
	for chart, label := range map[string]string{"chart-cpu": "used", "chart-memory": "needed"} {
		a, b := both[chart]["extract"], other[chart][label]
		if len(a) < 100 || len(a) != len(b) {
			t.Fatalf("%s has %d points of the other task, want %d", chart, len(a), len(b))
		}
		for i := range a[1:] {
			if (a[i+1] == nil) != (b[i+1] == nil) || a[i+1] != nil && *a[i+1] != *b[i+1] {
				t.Errorf("%s: point %d differs", chart, i+1)
				break
			}
		}
	}
	if both["chart-io"]["extract"] == nil || both["chart-pressure"]["extract"] == nil {
		t.Error("storage and pressure have no line of the other task")
	}
	if n := len(lines(task(1, "api") + span + "&with=nobody/x")["chart-cpu"]); n != 1 {
		t.Errorf("beside an unknown task there are %d lines", n)
	}
}
