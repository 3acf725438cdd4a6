// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// withProcesses adds processes to those of the fake's tasks, with PIDs from 5000 on.
func withProcesses(f *fakeAgent, names ...string) {
	f.rows = func(s *procstats.Sample) {
		for i, name := range names {
			row := s.AddProcess(procstats.ProcessID{PID: 5000 + i, Start: 7})
			row.Command = name
			row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, 1))
		}
	}
}

// shownPIDs returns the PIDs in an answer, in our format and in Nomad's.
func shownPIDs(t *testing.T, body []byte) (ours []int, nomads []string) {
	t.Helper()
	var answer struct {
		client.Stats
		Tasks map[string]struct{ Pids map[string]any }
	}
	testkit.Must(t, json.Unmarshal(body, &answer))
	for _, row := range answer.Tacho.Tasks["web"].Sample.Processes.Rows {
		ours = append(ours, row.PID)
	}
	for pid := range answer.Tasks["web"].Pids {
		nomads = append(nomads, pid)
	}
	slices.Sort(nomads)
	return ours, nomads
}

func TestStatsOfProcess(t *testing.T) {
	f := newFake()
	withProcesses(f, "worker", "worker", "a\"b\n\x1b[2J")
	h := newTestServer(f).Handler(false)
	path := "/v1/client/allocation/" + webID + "/stats"
	for query, want := range map[string]string{
		"":                                  "[4711 5000 5001 5002] [4711 5000 5001 5002]",
		"?process=":                         "[4711 5000 5001 5002] [4711 5000 5001 5002]",
		"?process=server":                   "[4711] [4711]",
		"?process=worker&task=web":          "[5000 5001] [5000 5001]",
		"?process=a%22b%0A%1B%5B2J":         "[5002] [5002]",
		"?process=wor":                      `404 no process named "wor"; known names: "a\"b\n\x1b[2J", "server", "worker"` + "\n",
		"?process=Worker&task=web":          `404 no process named "Worker"; known names: "a\"b\n\x1b[2J", "server", "worker"` + "\n",
		"?process=x%0Ay&task=web&index=abc": "400 invalid index \"abc\": must be a whole number, 0 or more\n",
	} {
		w := ask(t, h, "GET", path+query, "")
		got := fmt.Sprintf("%d %s", w.Code, w.Body)
		if w.Code == http.StatusOK {
			ours, nomads := shownPIDs(t, w.Body.Bytes())
			got = fmt.Sprint(ours, nomads)
		}
		testkit.Equal(t, got, want, "%s", query)
	}
	if u := f.Snapshot().Usage(f.allocs[0].Tasks["web"]); len(u.Sample.Processes) != 4 {
		t.Error("the shared sample was changed")
	}
}

// TestStatsOfProcessUnknown holds what is not known apart from what is not there.
func TestStatsOfProcessUnknown(t *testing.T) {
	f := newFake()
	h := newTestServer(f).Handler(false)
	path := "/v1/client/allocation/" + webID + "/stats?process=x"
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprintf("w%02d", i)
	}
	withProcesses(f, names...)
	if w := ask(t, h, "GET", path, ""); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"w48", 11 more`) {
		t.Errorf("many names: %d %s", w.Code, w.Body)
	}
	f.rows = func(s *procstats.Sample) { s.Processes = nil }
	if w := ask(t, h, "GET", path, ""); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no rows of processes") {
		t.Errorf("no rows: %d %s", w.Code, w.Body)
	}
	f.publishing = false
	if w := ask(t, h, "GET", path, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "publish_allocation_metrics is off") {
		t.Errorf("nothing was read: %d %s", w.Code, w.Body)
	}
}

func TestHistoryOfProcess(t *testing.T) {
	h := newTestServer(newFake()).Handler(false)
	path := "/v1/client/allocation/" + webID + "/stats"
	const server = `"processes":[{"pid":4711,"start":12345,"ppid":1,"command":"server","measurements":{"process_cpu_seconds_total":12}}]`
	for query, want := range map[string]string{
		"/history?process=server":      server,
		"/history?process=none":        `no process named "none"; known names: "server"`,
		"?at=5m":                       server,
		"?at=5m&process=server":        server,
		"?at=5m&process=none&task=web": `no process named "none"; known names: "server"`,
	} {
		w := ask(t, h, "GET", path+query, "")
		status := http.StatusOK
		if strings.Contains(query, "none") {
			status = http.StatusNotFound
		}
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", query, w.Code, w.Body, want)
		}
	}
	if w := ask(t, h, "GET", path+"/history", ""); strings.Contains(w.Body.String(), `"processes"`) {
		t.Errorf("not asked for: %s", w.Body)
	}
}
