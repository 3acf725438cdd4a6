// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exposition_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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
		testkit.Must(t, exposition.WriteText(&page, families))
		if got, _ := zipped(t, page.String(), len(name)); got != page.String() {
			t.Errorf("compressed %q, want %q", got, page.String())
		}
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

// zipped returns a page as it is after compression, in writes of at most some bytes.
func zipped(t *testing.T, page string, most int) (unzipped string, size int) {
	t.Helper()
	var buffer bytes.Buffer
	z := exposition.Zip{}
	for range 2 { // again in the same memory
		buffer.Reset()
		z.Reset(&buffer)
		for part := range slices.Chunk([]byte(page), most+1) {
			testkit.Value(z.Write(part))(t)
		}
		testkit.Must(t, z.Close())
	}
	size = buffer.Len()
	reader, err := gzip.NewReader(&buffer)
	testkit.Must(t, err)
	return string(testkit.Value(io.ReadAll(reader))(t)), size
}

// TestZip has lines of all lengths and distances that are like the one before.
func TestZip(t *testing.T) {
	var page strings.Builder
	for length := range 700 {
		fmt.Fprintf(&page, "%s{a=\"%d\",b=\"%s\"} %d\n", strings.Repeat("x", length), length*length, strings.Repeat("é", length%300), length%3)
	}
	for _, length := range []int{32 << 10, 32<<10 - 1, 40 << 10, 5} {
		page.WriteString(strings.Repeat(strings.Repeat("y", length-1)+"\n", 2))
	}
	for _, most := range []int{1, 100, 64 << 10, 1 << 20} {
		if got, _ := zipped(t, page.String(), most); got != page.String() {
			t.Errorf("in writes of %d bytes another page was compressed", most)
		}
	}
	page.Reset()
	for n := range 1000 {
		fmt.Fprintf(&page, "tacho_task_cpu_seconds_total{host=\"a\",alloc_id=\"%032x\",job=\"web\",task=\"t%d\"} 0.%d\n", n*n, n, n)
	}
	if _, size := zipped(t, page.String(), page.Len()); size > page.Len()/4 {
		t.Errorf("%d bytes were compressed to %d", page.Len(), size)
	}
}

func TestNothingIsWrittenOfNothing(t *testing.T) {
	var text, open strings.Builder
	families := []exposition.Family{{Name: "a", Help: "b"}}
	if err := exposition.WriteText(&text, families); err != nil || text.String() != "" {
		t.Errorf("%q, %v", text.String(), err)
	}
	if err := exposition.WriteOpenMetrics(&open, families); err != nil || open.String() != "# EOF\n" {
		t.Errorf("%q, %v", open.String(), err)
	}
}
