// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// alone witnesses when a task runs beside itself. steady and brief witness that a task runs, or each of its starts and
// ends; brief is started again and again.
const (
	alone  = "cd $NOMAD_ALLOC_DIR/data; exec 9>lock; flock -n 9 || echo doubled >> doubled; "
	steady = alone + "while :; do echo $$ >> beats; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 0.1; done"
	brief  = alone + "echo $$ >> starts; sleep 0.15; echo $$ >> ends"
	again  = "restart {\n attempts = 100000\n interval = \"24h\"\n delay = \"20ms\"\n mode = \"delay\"\n}"
)

// TestKilledAgentLosesNothing kills the agent again and again, at any moment of its life.
func TestKilledAgentLosesNothing(t *testing.T) {
	const steadies, briefs = 6, 4
	kills := 50
	if testing.Short() {
		kills = 10
	}
	h := hostWithAgent(t, publishing)
	h.run(shellJob("steady", "service", fmt.Sprintf("count = %d", steadies), 32, steady))
	h.run(shellJob("brief", "service", fmt.Sprintf("count = %d\n%s", briefs, again), 32, brief))
	h.eventually("all tasks", func() bool {
		beating := 0
		for _, a := range h.allocations() {
			if len(h.lines(a.ID, "beats"))+len(h.lines(a.ID, "starts")) > 0 {
				beating++
			}
		}
		return beating == steadies+briefs
	})
	random := rig.Random(t)
	h.end(syscall.SIGKILL)
	for i := range kills - 1 {
		// From before it has opened its state; every other time not before it has got on with its work.
		if h.launch(); i%2 == 0 {
			h.awaitAnswer()
		}
		pause(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		h.end(syscall.SIGKILL)
	}
	h.begin()
	all := h.allocations()
	if len(all) != steadies+briefs {
		t.Errorf("%d allocations, want %d", len(all), steadies+briefs)
	}
	for _, a := range all {
		h.checkWitnesses(a)
	}
	if moved, err := filepath.Glob(filepath.Join(h.data(), "state.db.*")); len(moved) > 0 || err != nil {
		t.Errorf("state was moved: %q, %v", moved, err)
	}
	h.stop("steady")
	h.stop("brief")
	h.eventually("the end of all tasks", func() bool {
		return !slices.ContainsFunc(h.allocations(), func(a allocation) bool { return a.ClientStatus == "running" || a.ClientStatus == "pending" })
	})
	h.eventually("the end of all processes", func() bool { return len(h.processes()) == 0 })
}

// checkWitnesses holds what an allocation's tasks have written against what the agent says.
func (h *host) checkWitnesses(a allocation) {
	h.t.Helper()
	if doubled := h.lines(a.ID, "doubled"); len(doubled) > 0 {
		h.t.Errorf("%s ran %d times beside itself", a.Name, len(doubled))
	}
	state := a.TaskStates["t"]
	if a.JobID == "steady" {
		pids := slices.Compact(h.lines(a.ID, "beats"))
		if len(pids) != 1 || a.ClientStatus != "running" || state.Restarts != 0 {
			h.t.Errorf("%s: processes %v, %s, %d restarts", a.Name, pids, a.ClientStatus, state.Restarts)
		}
		before := len(h.lines(a.ID, "beats"))
		h.eventually("the next beat", func() bool { return len(h.lines(a.ID, "beats")) > before })
		h.checkHistory(a)
		return
	}
	// Each start is counted once, as ended by itself, killed because it was interrupted, or running. It goes on
	// meanwhile: the files are read before and after the agent's answers.
	starts, now := 0, 0
	h.eventually("a restart", func() bool {
		starts = len(h.lines(a.ID, "starts"))
		all := h.allocations()
		now = len(h.lines(a.ID, "starts"))
		a = all[slices.IndexFunc(all, func(other allocation) bool { return other.ID == a.ID })]
		state = a.TaskStates["t"]
		return state.Restarts > 0
	})
	exits := h.exits(a.ID)
	if ends := len(h.lines(a.ID, "ends")); state.Failed || now < state.Restarts || starts > exits+1 || ends > len(h.lines(a.ID, "starts")) {
		h.t.Errorf("%s: %d to %d starts, %d ends, %d restarts, %d exits, failed: %v",
			a.Name, starts, now, ends, state.Restarts, exits, state.Failed)
	}
}

// exits is how often the metrics say that the task of an allocation has ended.
func (h *host) exits(id string) int {
	h.t.Helper()
	page := testkit.Value(h.call(http.MethodGet, "/v1/metrics?format=prometheus", nil))(h.t)
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "tacho_task_exits_total{") && strings.Contains(line, fmt.Sprintf("alloc_id=%q", id)) {
			_, text, _ := strings.Cut(strings.TrimSpace(line), "} ")
			exits, err := strconv.Atoi(text)
			testkit.NoError(h.t, err)
			return exits
		}
	}
	h.t.Errorf("no tacho_task_exits_total of %s", id)
	return 0
}

// checkHistory holds that the CPU time of a task that was never restarted only grows, and that gaps are marked.
func (h *host) checkHistory(a allocation) {
	h.t.Helper()
	points, gaps, last := 0, 0, -1.0
	var answer struct {
		Tasks map[string][]struct {
			Gap          string             `json:"gap"`
			Measurements map[string]float64 `json:"measurements"`
		} `json:"tasks"`
	}
	h.get("/v1/client/allocation/"+a.ID+"/stats/history", &answer)
	for _, p := range answer.Tasks["t"] {
		if p.Gap != "" {
			gaps++
			continue
		}
		points++
		cpu, ok := p.Measurements["cpu_seconds_total"]
		if !ok || cpu < last {
			h.t.Errorf("%s: CPU time went from %v down to %v (measured: %v)", a.Name, last, cpu, ok)
		}
		last = cpu
	}
	if points == 0 || gaps == 0 {
		h.t.Errorf("%s: %d readings and %d gaps in its history", a.Name, points, gaps)
	}
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}
