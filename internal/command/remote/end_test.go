// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/e2e/page/pagetest"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/page"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestSurfacesAgree holds that how a task ended is said in the same words by the record's JSON, the driver's event,
// the page (for trusted and untrusted callers), the summary of a run, tacho show, tacho alloc status and tacho top.
func TestSurfacesAgree(t *testing.T) {
	for n, r := range endedRecords() {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			end, redacted := r.End(), r.Redacted().End()
			said := map[string]string{
				"event": r.Sentence(), "summary": written(t, r), "alloc status": ended(r), "show": shown(r),
				"page": served(t, r, true), "page without token": served(t, r, false), "top": topOf(r),
			}
			text := testkit.Value(json.Marshal(r))(t)
			var decoded record.Record
			testkit.Must(t, json.Unmarshal(text, &decoded))
			said["record"] = strings.Join([]string{
				string(decoded.Diagnosis.Outcome), decoded.Diagnosis.Summary + record.CauseNote(decoded.Cause),
				decoded.Diagnosis.Operator,
			}, "\n")
			cause := map[string]string{"host": "(host)", "operator": "(operator)"}[r.Cause]
			all := []string{string(end.Outcome), end.Summary, end.OOM, end.LastReading, end.Remedy}
			for surface, words := range map[string][]string{
				"event": {end.Summary, end.LastReading}, "summary": {end.Summary, end.LastReading, end.Remedy},
				"alloc status": all, "show": all, "page": append([]string{end.OOM}, all[1:]...),
				"page without token": {redacted.Summary, redacted.OOM, redacted.LastReading, redacted.Remedy},
				"top":                {end.Outcome.Text(), cause},
				"record":             {string(end.Outcome), end.Summary, end.LastReading, end.Remedy},
			} {
				for _, word := range words {
					if !strings.Contains(said[surface], word) {
						t.Errorf("%s does not say %q:\n%.2000s", surface, word, said[surface])
					}
				}
			}
			if strings.Contains(said["page without token"], "secret") {
				t.Error("the page shows a path to untrusted callers")
			}
			chip := strings.ReplaceAll(string(end.Outcome), "_", " ") + "</span>"
			if !strings.Contains(said["page"], chip) || !strings.Contains(said["page without token"], chip) {
				t.Errorf("no page says %q", end.Outcome)
			}
		})
	}
}

// endedRecords are ends of each verdict, without a kill and with one of each scope.
func endedRecords() (records []*record.Record) {
	at := time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)
	last := &procstats.Sample{}
	last.SetNumber(procstats.TreeProcesses, 2)
	for _, e := range []record.Evidence{
		{},
		{ExitCode: 3},
		{ExitCode: 137, Signal: 9},
		{ExitCode: 143, Signal: 15, Cause: record.Stopped, Reason: "the process that started it is gone"},
		{ExitCode: 137, Signal: 9, Cause: record.TimedOut},
		{Cause: record.StartFailed, Reason: "exec /secret: permission denied"},
		{Cause: record.ExecutorLost, Reason: "process 9 died"},
	} {
		for _, scope := range []record.Scope{
			"", record.Own, record.Descendant, record.Ancestor, record.HostScope,
			record.AncestorOrHost,
		} {
			e := e
			e.EndedAt, e.OOMBefore, e.OOMAfter = at, record.OOMCounters{Read: true}, record.OOMCounters{Read: true}
			e.Last, e.LastAge, e.LastHeadlines = last, 3100*time.Millisecond, []procstats.HeadlineValue{
				{ID: procstats.HeadlineMemory, Reading: procstats.NumberReading(procstats.HeadlineMemory, 1<<30)},
			}
			if scope != "" {
				e.OOMAfter.Kills = 1
				e.Kills = []record.Kill{{
					At: at, Kills: 1, Scope: scope, Main: e.Signal == 9, LimitBytes: new(int64(48 << 20)), Where: "/secret",
					Victims: []record.Victim{{PID: 7, Command: "sh", Source: record.FromKmsg}},
				}}
			}
			r := &record.Record{
				State: record.Exited, ExitCode: &e.ExitCode, StartedAt: at.Add(-time.Minute), EndedAt: at,
				Diagnosis: record.Diagnose(e),
			}
			if e.ExitCode == 0 && scope == "" {
				r.Diagnosis.Thrashing = &record.Thrashing{WaitedSeconds: 3.5, SpanSeconds: 10, Limit: record.MemoryMax, LimitBytes: 40 << 20}
				r.Diagnosis.Operator = r.End().Operator()
			}
			if e.Signal != 0 {
				r.Signal = &e.Signal
			}
			records = append(records, r)
		}
	}
	for i, cause := range []string{"task", "operator", "host"} {
		r := *records[6*(i+1)] // failed, signaled, stopped
		r.Cause = cause
		if note := r.End().Summary[len(records[6*(i+1)].End().Summary):]; (note == "") != (cause == "task") {
			panic("an end by the " + cause + ": " + note)
		}
		records = append(records, &r)
	}
	return records
}

func written(t *testing.T, r *record.Record) string {
	t.Helper()
	var b strings.Builder
	testkit.Must(t, summary.Write(&cobra.Command{}, &b, false, "", r))
	return b.String()
}

func ended(r *record.Record) string {
	var b cli.Sheet
	writeEnding(&b, r)
	return b.String()
}

func shown(r *record.Record) string { return summary.NewPage(cli.Palette{}, "x", r).Render(true) }

// served is the page of the task that the record is of.
func served(t *testing.T, r *record.Record, trusted bool) string {
	t.Helper()
	now := func() time.Time { return r.EndedAt.Add(time.Minute) }
	agent := pagetest.New(now)
	agent.Add(&pagetest.Actor{
		ID: pagetest.ID(1), Job: "j", Group: "g", Name: "t", Started: r.StartedAt, Record: r,
		Ended: &hook.Exit{Code: *r.ExitCode, At: r.EndedAt},
	})
	w := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/alloc/"+pagetest.ID(1)+"/t", nil)
	page.New(agent, page.Options{Token: func() string { return "" }, Now: now}).Handler(trusted).ServeHTTP(w, request)
	if w.Code != http.StatusOK {
		t.Fatalf("page: %d", w.Code)
	}
	return html.UnescapeString(w.Body.String())
}

// topOf is a screen with the task.
func topOf(r *record.Record) string {
	state := &apijson.TaskState{State: "dead"}
	state.Tacho.Outcome, state.Tacho.Exit = r.End().Outcome, &apijson.Exit{Cause: r.Cause}
	m := &topModel{sort: "cpu"}
	a := &apijson.Allocation{ID: "a", Name: "j.g[0]", TaskStates: map[string]*apijson.TaskState{"t": state}}
	m.update([]*topRow{(&taskPoll{}).row(a, "t", nil)}, nil)
	return strings.Join(m.view(200, 20), "\n")
}
