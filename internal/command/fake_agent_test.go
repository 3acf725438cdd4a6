// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package command_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/testkit"
)

// fakeAgent answers as an agent does: with what a real one answered, which is in testdata/agent, and with jobs and
// ends of its own making where something is changed.
type fakeAgent struct {
	t testing.TB
	// token is asked for where something is changed; empty for nobody.
	token string

	mu sync.Mutex // guards what follows
	// looks counts how often something was asked for, by path.
	looks map[string]int
	// made are the allocations of a job that was run; outcome is what becomes of them.
	made    []apijson.Allocation
	outcome string
	stopped map[string]bool
}

func newFakeAgent(t testing.TB, token string) http.Handler {
	f := &fakeAgent{t: t, token: token, looks: map[string]int{}, stopped: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agent/self", f.file("self.json"))
	mux.HandleFunc("GET /v1/jobs", f.jobs)
	mux.HandleFunc("GET /v1/job/{id}", f.job)
	mux.HandleFunc("PUT /v1/jobs", f.run)
	mux.HandleFunc("PUT /v1/validate/job", f.validate)
	mux.HandleFunc("DELETE /v1/job/{id}", f.stop)
	mux.HandleFunc("GET /v1/job/{id}/allocations", f.jobAllocations)
	mux.HandleFunc("GET /v1/allocations", f.file("allocations.json"))
	mux.HandleFunc("GET /v1/allocation/{id}", f.allocation)
	mux.HandleFunc("PUT /v1/allocation/{id}/stop", f.stop)
	mux.HandleFunc("GET /v1/client/allocations/stats", f.allStats)
	mux.HandleFunc("GET /v1/client/stats", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"CPU": [{"TotalPercent": 150}, {"TotalPercent": 50}], "Memory": {"Total": 8e9, "Available": 6e9}}`)
	})
	const c = "/v1/client/allocation/{id}/"
	mux.HandleFunc("GET "+c+"stats", f.stats)
	mux.HandleFunc("GET "+c+"stats/history", f.history)
	mux.HandleFunc("GET "+c+"record", f.record)
	mux.HandleFunc("PUT "+c+"restart", f.act)
	mux.HandleFunc("PUT "+c+"signal", f.act)
	mux.HandleFunc("GET "+c+"exec", f.exec)
	mux.HandleFunc("GET /v1/client/fs/logs/{id}", f.logs)
	mux.HandleFunc("GET /v1/event/stream", f.events)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Nomad-Index", "27")
		changes := r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/exec")
		if f.token != "" && changes && r.Header.Get("X-Nomad-Token") != f.token {
			http.Error(w, "this needs the agent's unix socket or its token (X-Nomad-Token, or Authorization: Bearer)", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (f *fakeAgent) file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := os.ReadFile(filepath.Join("testdata", "agent", name))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(text)
	}
}

func (f *fakeAgent) captured() (all []apijson.Allocation) {
	text, err := os.ReadFile(filepath.Join("testdata", "agent", "allocations.json"))
	if err = errors.Join(err, json.Unmarshal(text, &all)); err != nil {
		f.t.Error(err)
	}
	return all
}

// decode reads the body of a request; it has answered where that fails.
func decode(w http.ResponseWriter, r *http.Request, value any) bool {
	err := json.NewDecoder(r.Body).Decode(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func answer(w http.ResponseWriter, value any) { _ = json.NewEncoder(w).Encode(value) }

func (f *fakeAgent) jobs(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("prefix") == "" {
		f.file("jobs.json")(w, r)
		return
	}
	var found []apijson.JobStub
	for _, id := range []string{"busy", "leak", "left"} {
		if strings.HasPrefix(id, r.URL.Query().Get("prefix")) {
			found = append(found, apijson.JobStub{ID: id})
		}
	}
	answer(w, found)
}

func (f *fakeAgent) job(w http.ResponseWriter, r *http.Request) {
	switch id := r.PathValue("id"); id {
	case "busy", "leak":
		f.file("job-"+id+".json")(w, r)
	case "new":
		answer(w, client.Job{ID: "new", TaskGroups: []client.Group{{Name: "g", Tasks: []client.Task{{Name: "main"}}}}})
	default:
		http.Error(w, "job not found", http.StatusNotFound)
	}
}

// run takes job files whose text is a word: what becomes of the job.
func (f *fakeAgent) run(w http.ResponseWriter, r *http.Request) {
	var source client.Source
	if !decode(w, r, &source) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outcome = strings.TrimSpace(source.Text)
	if f.outcome == "mistaken" {
		http.Error(w, source.Filename+":1,1-4: Unsupported block type\n"+source.Filename+":2,3-9: No "+source.Variables["what"], http.StatusBadRequest)
		return
	}
	at := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC).UnixNano()
	f.made = []apijson.Allocation{{
		ID: "cafe0000-0000-4000-8000-000000000009", Name: "new.g[0]", JobID: "new", TaskGroup: "g", DesiredStatus: "run",
		ClientStatus: "pending", CreateTime: at, TaskResources: map[string]apijson.Resources{"main": {CPU: 100, MemoryMB: 64}},
		TaskStates: map[string]*apijson.TaskState{"main": {State: "pending", Events: []apijson.TaskEvent{
			{Type: "Task Setup", Time: at, DisplayMessage: "preparing the task"},
		}}},
	}}
	f.made[0].TaskStates["main"].Tacho.Driver = "tacho"
	answer(w, map[string]any{"Tacho": map[string]any{"JobID": "new", "Version": 3, "Changed": true}})
}

func (f *fakeAgent) validate(w http.ResponseWriter, r *http.Request) {
	var source client.Source
	if !decode(w, r, &source) {
		return
	}
	mistakes := []string{}
	if strings.Contains(source.Text, "mistaken") {
		mistakes = []string{source.Filename + ":1,1-4: Unsupported block type", source.Filename + ":2,3-9: No"}
	}
	answer(w, client.Validation{ValidationErrors: mistakes})
}

func (f *fakeAgent) stop(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped[r.PathValue("id")] = true
	answer(w, map[string]any{})
}

// end is what a stop makes of an allocation, at the second look.
func (f *fakeAgent) end(a *apijson.Allocation, looks int) {
	if (f.stopped[a.JobID] || f.stopped[a.ID]) && looks > 1 {
		a.DesiredStatus, a.ClientStatus = "stop", "complete"
		for _, s := range a.TaskStates {
			s.State = "dead"
			s.Events = append(s.Events, apijson.TaskEvent{Type: "Killed", Time: 1772618401000000000, DisplayMessage: "stopped by a user"})
		}
	}
}

func (f *fakeAgent) jobAllocations(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := r.PathValue("id")
	f.looks[r.URL.Path]++
	looks := f.looks[r.URL.Path]
	if id == "new" {
		f.advance(looks)
		answer(w, f.made)
		return
	}
	var some []apijson.Allocation
	for _, a := range f.captured() {
		if a.JobID == id {
			f.end(&a, looks)
			some = append(some, a)
		}
	}
	answer(w, some)
}

// advance makes of the new job what its file said, at the second look.
func (f *fakeAgent) advance(looks int) {
	if looks < 2 || len(f.made) == 0 {
		return
	}
	a := &f.made[0]
	state, at := a.TaskStates["main"], a.CreateTime+int64(time.Second)
	if f.outcome == "fails" {
		a.ClientStatus, state.State, state.Failed = "failed", "dead", true
		state.Events = append(state.Events, apijson.TaskEvent{Type: "Driver Failure", Time: at, DisplayMessage: "find sh: no such file\x1b[31m"})
		return
	}
	a.ClientStatus, state.State = "running", "running"
	state.Events = append(state.Events, apijson.TaskEvent{Type: "Started", Time: at, DisplayMessage: "task started"})
	if f.outcome == "crashes" && looks > 3 {
		state.State, state.Restarts = "pending", 1
		state.Events = append(state.Events, apijson.TaskEvent{Type: "Terminated", Time: at + 1, DisplayMessage: "exit code 3"})
	}
	if f.outcome == "completes" {
		a.ClientStatus, state.State = "complete", "dead"
	}
}

// find resolves an id; it has answered where it finds nothing.
func (f *fakeAgent) find(w http.ResponseWriter, r *http.Request) (apijson.Allocation, bool) {
	var found []apijson.Allocation
	for _, a := range f.captured() {
		if strings.HasPrefix(a.ID, r.PathValue("id")) {
			found = append(found, a)
		}
	}
	switch len(found) {
	case 1:
		return found[0], true
	case 0:
		http.Error(w, fmt.Sprintf("allocation %q: not found", r.PathValue("id")), http.StatusNotFound)
	default:
		http.Error(w, fmt.Sprintf("%q: ambiguous prefix", r.PathValue("id")), http.StatusBadRequest)
	}
	return apijson.Allocation{}, false
}

func (f *fakeAgent) allocation(w http.ResponseWriter, r *http.Request) {
	a, ok := f.find(w, r)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks[r.URL.Path]++
	if a.JobID == "leak" && !f.stopped[a.ID] {
		f.file("allocation-leak.json")(w, r)
		return
	}
	f.end(&a, f.looks[r.URL.Path])
	answer(w, a)
}

// stats are those of two moments: the first time of one, from then on of the other.
// allStats are those of all allocations that have not ended.
func (f *fakeAgent) allStats(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks["all stats"]++
	all := map[string]json.RawMessage{}
	for _, a := range f.captured() {
		if a.Ended() {
			continue
		}
		text, err := os.ReadFile(statsFile(&a, f.looks["all stats"]))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		all[a.ID] = text
	}
	answer(w, all)
}

// statsFile has a captured answer: the first time of one moment, from then on of another.
func statsFile(a *apijson.Allocation, looks int) string {
	name := strings.NewReplacer("leak.app[0]", "leak", "busy.work[", "busy", "]", "").Replace(a.Name)
	return filepath.Join("testdata", "agent", fmt.Sprintf("stats-%s.%d.json", name, min(2, looks)))
}

func (f *fakeAgent) stats(w http.ResponseWriter, r *http.Request) {
	a, ok := f.find(w, r)
	if !ok {
		return
	}
	if r.URL.Query().Get("process") == "none" {
		http.Error(w, `no process named "none"; known names: "sh"`, http.StatusNotFound)
		return
	}
	f.mu.Lock()
	f.looks[r.URL.Path]++
	looks := f.looks[r.URL.Path]
	f.mu.Unlock()
	f.file(filepath.Base(statsFile(&a, looks)))(w, r)
}

func (f *fakeAgent) history(w http.ResponseWriter, r *http.Request) {
	if _, ok := f.find(w, r); !ok {
		return
	}
	switch q := r.URL.Query(); {
	case q.Has("at"):
		f.file("at-leak.json")(w, r)
	case q.Get("since") == "when":
		http.Error(w, "since is a time", http.StatusBadRequest)
	case q.Has("process"):
		f.file("history-process.json")(w, r)
	default:
		f.file("history-leak.json")(w, r)
	}
}

func (f *fakeAgent) record(w http.ResponseWriter, r *http.Request) {
	if a, ok := f.find(w, r); ok && a.JobID == "leak" {
		f.file("record-leak.json")(w, r)
	} else if ok {
		http.Error(w, "not found", http.StatusNotFound)
	}
}

func (f *fakeAgent) act(w http.ResponseWriter, r *http.Request) {
	body := map[string]string{}
	if !decode(w, r, &body) {
		return
	}
	if body["Signal"] == "SIGNONE" {
		http.Error(w, "signal \"SIGNONE\": must be a name such as TERM or a number from 1 to 64", http.StatusBadRequest)
		return
	}
	answer(w, body)
}

// logs are a hundred numbered lines.
func (f *fakeAgent) logs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var text bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&text, "%s %s %d\n", q.Get("task"), q.Get("type"), i+1)
	}
	offset, err := strconv.Atoi(q.Get("offset"))
	if err != nil || q.Get("plain") != "true" {
		http.Error(w, "what is asked is wrong: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	if q.Get("origin") == "end" {
		offset = max(0, text.Len()-offset)
	}
	_, _ = w.Write(text.Bytes()[offset:])
	if q.Get("follow") == "true" {
		_, _ = fmt.Fprintln(w, "and one more")
	}
}

func (f *fakeAgent) events(w http.ResponseWriter, r *http.Request) {
	if topics := r.URL.Query()["topic"]; len(topics) > 0 && !slices.Equal(topics, []string{"Job"}) {
		http.Error(w, "there is no such topic", http.StatusBadRequest)
		return
	}
	f.file("events.json")(w, r)
	if r.Header.Get("X-Nomad-Token") != "ends" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// exec is a command that says what it was asked, takes its input to the end, and gives it back.
func (f *fakeAgent) exec(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow() //nolint:errcheck // closed before, where all went well
	q := r.URL.Query()
	if q.Get("command") == `["missing"]` {
		_ = conn.Close(4400, "missing: command not found")
		return
	}
	send := func(value any) {
		text, _ := json.Marshal(value)
		_ = conn.Write(r.Context(), websocket.MessageText, text)
	}
	type data struct {
		Data []byte `json:"data"`
	}
	send(map[string]any{"stderr": data{[]byte(q.Get("task") + " " + q.Get("command") + " tty=" + q.Get("tty") + "\n")}})
	for {
		var in struct {
			Stdin struct {
				Data  []byte `json:"data"`
				Close bool   `json:"close"`
			} `json:"stdin"`
		}
		_, text, err := conn.Read(r.Context())
		if err != nil || json.Unmarshal(text, &in) != nil {
			return
		}
		if len(in.Stdin.Data) > 0 {
			send(map[string]any{"stdout": data{bytes.ToUpper(in.Stdin.Data)}})
		}
		if in.Stdin.Close || bytes.Contains(in.Stdin.Data, []byte("\x04")) { // Ctrl-D in a terminal
			send(map[string]any{"exited": true, "result": map[string]int{"exit_code": 7}})
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return
		}
	}
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
