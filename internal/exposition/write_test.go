// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exposition_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/testkit"
)

// FuzzLabels holds that whatever a task calls itself comes out as it went in, in each format.
func FuzzLabels(f *testing.F) {
	for _, seed := range []string{"web", `a "b" \n`, "two\nlines", "", "\x00\x1f", "gr\xf6\xdfe", "größe", `\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		want := strings.ToValidUTF8(name, "\uFFFD")
		counter := exposition.Family{Name: "a_total", Help: "What \\ it\nis.", Type: exposition.Counter}
		counter.Add(exposition.NewLabels("task", name), 1.5)
		families := []exposition.Family{counter, {Name: "nothing", Help: "Was not measured."}}

		var page strings.Builder
		testkit.Must(t, exposition.Text.Write(&page, families))
		parser := expfmt.NewTextParser(model.UTF8Validation)
		read, err := parser.TextToMetricFamilies(strings.NewReader(page.String()))
		if err != nil || len(read) != 1 {
			t.Fatalf("%d families, %v, in\n%s", len(read), err, page.String())
		}
		metric := read["a_total"].GetMetric()[0]
		var label string
		for _, l := range metric.GetLabel() {
			label = l.GetValue()
		}
		if label != want || metric.GetCounter().GetValue() != 1.5 {
			t.Errorf("read %v, want the label %q", metric, want)
		}

		var shown struct {
			Gauges   []struct{}
			Counters []struct {
				Sum    float64
				Labels map[string]string
			}
		}
		page.Reset()
		if err := errors.Join(exposition.WriteJSON(&page, families, time.Unix(0, 0)), json.Unmarshal([]byte(page.String()), &shown)); err != nil {
			t.Fatal(err)
		}
		if len(shown.Counters) != 1 || shown.Counters[0].Labels["task"] != want || !utf8.ValidString(want) {
			t.Errorf("JSON %+v, want the label %q", shown, want)
		}
	})
}

func TestNothingIsWrittenOfNothing(t *testing.T) {
	var text, open strings.Builder
	families := []exposition.Family{{Name: "a", Help: "b"}}
	if err := exposition.Text.Write(&text, families); err != nil || text.String() != "" {
		t.Errorf("%q, %v", text.String(), err)
	}
	if err := exposition.OpenMetrics.Write(&open, families); err != nil || open.String() != "# EOF\n" {
		t.Errorf("%q, %v", open.String(), err)
	}
}
