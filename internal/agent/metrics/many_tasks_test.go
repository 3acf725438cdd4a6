// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func many(n int) *fakeAgent {
	f := &fakeAgent{telemetry: config.Default().Telemetry, usages: map[string]*figures.Figures{}}
	selection := procstats.DefaultSelection()
	for i := range n {
		id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
		f.add(id, 1.234567*float64(i+1))
		u := f.usages[id]
		kept := procstats.Readings{}
		for _, r := range u.Sample.Task {
			if selection.Has(r.ID()) {
				kept.Put(r)
			}
		}
		u.Sample.Task = kept
	}
	return f
}

// TestSpareMemory changes what there is between pages that share their memory, and holds each against one that shares nothing.
func TestSpareMemory(t *testing.T) {
	f := many(20)
	shared := newTestCollector(f)
	steps := []struct {
		name   string
		change func()
	}{
		{"the first", func() {}},
		{"the same", func() {}},
		{"fewer tasks", func() { f.allocs = f.allocs[15:] }},
		{"a task has ended", func() {
			ended, task := *f.allocs[0], *f.allocs[0].Tasks["web"] // an allocation that has changed is another value
			ended.Tasks = map[string]*allocation.Task{"web": &task}
			end(&ended, false)
			f.allocs[0] = &ended
		}},
		{"other labels", func() { f.telemetry.DisableHostname = true }},
		{"more tasks", func() {
			for i := range 40 {
				f.add(fmt.Sprintf("%08d-1111-4000-8000-000000000000", i), 1)
			}
		}},
		{"no tasks", func() { f.allocs = nil }},
		{"tasks again", func() { f.add("dddddddd", 3) }},
	}
	for _, step := range steps {
		step.change()
		got := ""
		shared.with(t.Context(), func(families []exposition.Family, _ *scratch) { got = pageOf(families) })
		testkit.Diff(t, step.name, page(newTestCollector(f)), got)
	}
	if s := shared.spare.Load(); s == nil || len(s.labels) > 3 {
		t.Errorf("the memory has the labels of tasks that are gone: %v", s)
	}
}

func BenchmarkPage(b *testing.B) {
	for _, detail := range []string{DetailAlloc, DetailJob} {
		b.Run(detail, func(b *testing.B) {
			f := many(500)
			f.telemetry.AllocationDetail = detail
			c := newTestCollector(f)
			var times []time.Duration
			for b.Loop() {
				began := time.Now()
				c.with(b.Context(), func(families []exposition.Family, _ *scratch) {
					testkit.Must(b, exposition.Text.Write(io.Discard, families))
				})
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// BenchmarkScrape answers as Prometheus asks, for tasks of which no number has changed, and of which all have.
func BenchmarkScrape(b *testing.B) {
	f, other := many(500), many(500)
	for id, u := range other.usages {
		*u = *usage(float64(len(id)))
	}
	for name, usages := range map[string][]map[string]*figures.Figures{
		"unchanged": {f.usages}, "changed": {f.usages, other.usages},
	} {
		b.Run(name, func(b *testing.B) {
			c := newTestCollector(f)
			r := httptest.NewRequestWithContext(b.Context(), "GET", "/metrics", nil)
			r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
			r.Header.Set("Accept-Encoding", "gzip")
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				f.usages = usages[n%len(usages)]
				c.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}

// discard is a response that is not read.
type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (d discard) WriteHeader(int)                {}
func (d discard) Write(text []byte) (int, error) { return len(text), nil }
