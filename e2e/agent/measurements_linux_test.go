// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// fillSteps and fillSize are how often a task of the job fill adds a file to its directory, and how large it is.
const (
	fillSteps = 20
	fillSize  = 1 << 20
)

// fill is a job with a task that fills its directory, and one beside it of which nothing is selected.
const fill = `
job "fill" {
  group "g" {
    task "full" {
      driver = "tacho"
      config {
        command = "/bin/sh"
        args = ["-c", "i=0; while [ $i -lt %d ]; do dd if=/dev/zero of=local/$i bs=%d count=1 2>/dev/null; i=$((i+1)); sleep 0.2; done; exec sleep 1000"]
        measurements = "default,smaps"
        disk {
          interval = "1s"
        }
      }
    }
    task "plain" {
      driver = "tacho"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}
`

// past is what these tests look at of a history.
type past struct {
	Tasks map[string][]struct {
		Measurements map[string]float64 `json:"measurements"`
	} `json:"tasks"`
	Absent map[string]map[string]string `json:"absent"`
}

// measurementStats is what these tests look at of the resource usage of tasks.
type measurementStats struct {
	Tacho struct {
		Tasks map[string]struct {
			Reason string
			Sample *struct {
				Measurements map[string]any // a number, or a text such as that of disk_walk
				Absent       map[string]string
			}
		}
	}
}

// filling starts the job and returns its allocation.
func (h *host) filling() string {
	h.t.Helper()
	h.run(fmt.Sprintf(fill, fillSteps, fillSize))
	h.eventually("the tasks", func() bool {
		all := h.allocations()
		return len(all) == 1 && all[0].TaskStates["full"].State == "running" && all[0].TaskStates["plain"].State == "running"
	})
	return h.allocations()[0].ID
}

// text reads an answer as text.
func (h *host) text(path string) string {
	h.t.Helper()
	text := testkit.Value(h.call(http.MethodGet, path, nil))(h.t)
	return string(text)
}

// TestSelectedMeasurements follows a task that fills its directory over HTTP: stats, history, metrics and the page.
func TestSelectedMeasurements(t *testing.T) {
	h := hostWithAgent(t, publishing)
	id := h.filling()
	allocation := "/v1/client/allocation/" + id
	measured := func(name string) float64 {
		var now measurementStats
		h.get(allocation+"/stats", &now)
		if s := now.Tacho.Tasks["full"].Sample; s != nil {
			number, _ := s.Measurements[name].(float64)
			return number
		}
		return 0
	}
	h.eventually("its size in the stats", func() bool { return measured("disk_usage_bytes") > 0 })
	first := measured("disk_usage_bytes")
	h.eventually("its growth in the stats", func() bool { return measured("disk_usage_bytes") >= first+fillSize })
	h.eventually("its end in the stats", func() bool { return measured("disk_usage_bytes") >= fillSteps*fillSize })
	if size := measured("disk_usage_bytes"); size > 2*fillSteps*fillSize {
		t.Errorf("%v bytes, the task has written %d", size, fillSteps*fillSize)
	}
	if pss := measured("smaps_pss_bytes"); pss < 4096 {
		t.Errorf("%v bytes of proportional memory", pss)
	}
	h.checkGrowth(allocation + "/stats/history?measurements=disk,smaps_pss_bytes")
	series := regexp.MustCompile(`(?m)^tacho_task_disk_usage_bytes\{.*task="(\w+)".*\} ([0-9.e+]+)$`).FindAllStringSubmatch(h.text("/metrics"), -1)
	if len(series) != 1 || series[0][1] != "full" {
		t.Fatalf("metrics %q", series)
	}
	if size, err := strconv.ParseFloat(series[0][2], 64); err != nil || size < fillSteps*fillSize {
		t.Errorf("metrics %q: %v", series, err)
	}
	for task, want := range map[string]bool{"full": true, "plain": false} {
		page := h.text("/alloc/" + id + "/" + task)
		for _, part := range []string{`data-live="chart-disk"`, `data-live="figure-disk"`, `data-live="figure-pss"`} {
			if strings.Contains(page, part) != want {
				t.Errorf("the page of %s: %s is there: %v, want %v", task, part, !want, want)
			}
		}
	}
}

// checkGrowth holds that a history has the growth of the directory, and says why that of the other task has none.
func (h *host) checkGrowth(path string) {
	h.t.Helper()
	var all past
	h.get(path, &all)
	sizes := map[float64]bool{}
	last := 0.0
	for _, p := range all.Tasks["full"] {
		size, ok := p.Measurements["disk_usage_bytes"]
		if !ok {
			continue
		}
		if size < last {
			h.t.Errorf("the size went from %v down to %v", last, size)
		}
		last, sizes[size] = size, true
	}
	if len(sizes) < 3 {
		h.t.Errorf("the history has the sizes %v", sizes)
	}
	if len(all.Absent["full"]) > 0 {
		h.t.Errorf("absent of what was selected: %v", all.Absent["full"])
	}
	if reason := all.Absent["plain"]["disk_usage_bytes"]; !strings.HasPrefix(reason, "not selected") {
		h.t.Errorf("the reason why the other task has none: %q", reason)
	}
}

// TestSelectedMeasurementsUnpublished holds that without publishing nothing is read but the start and the end.
func TestSelectedMeasurementsUnpublished(t *testing.T) {
	h := hostWithAgent(t, "")
	id := h.filling()
	var now measurementStats
	h.get("/v1/client/allocation/"+id+"/stats", &now)
	if full := now.Tacho.Tasks["full"]; full.Sample != nil || full.Reason == "" {
		t.Errorf("stats %+v", full)
	}
	h.stop("fill")
	h.eventually("the end", func() bool { return h.allocations()[0].ClientStatus == "complete" })
	var record struct {
		Measurements map[string]any    `json:"measurements"`
		Absent       map[string]string `json:"absent"`
	}
	h.get("/v1/client/allocation/"+id+"/record?task=full", &record)
	if reads, ok := record.Measurements["executor_collections_total"].(float64); !ok || reads > 2 {
		t.Errorf("the task was read %v times: %v", reads, ok)
	}
	if size, ok := record.Measurements["disk_usage_bytes"].(float64); !ok || size == 0 { // the directory is read at the end
		t.Errorf("its size is %v: %v, absent %v", size, ok, record.Absent)
	}
}
