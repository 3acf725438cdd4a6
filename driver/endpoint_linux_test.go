// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// serveOnSocket has the driver serve its numbers on a socket, and returns a client of it.
func (f *fixture) serveOnSocket() *http.Client {
	f.t.Helper()
	socket := filepath.Join(f.dir, "metrics.sock")
	must(f.t, f.SetConfig(f.t.Context(), msgpack(f.t, map[string]any{
		"runtime_dir": f.options.Config.RuntimeDir, "metrics": map[string]any{"address": "unix:" + socket},
	}), 0))
	return &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
		DialContext:       testkit.DialUnix(socket),
		DisableKeepAlives: true,
	}}
}

// Of a frozen executor nothing comes; the other tasks' numbers do.
func TestEndpointBesideAFrozenExecutor(t *testing.T) {
	f := newFixture(t, nil)
	frozen := f.shell("exec sleep 1000")
	f.start(frozen)
	pid := f.executor().Executor.PID
	fine := f.shell("exec sleep 1000")
	f.start(fine)
	client := f.serveOnSocket()
	f.silence(pid)
	defer signal(t, pid, syscall.SIGCONT)
	response, err := client.Get("http://tacho/metrics")
	must(t, err)
	page, err := io.ReadAll(response.Body)
	must(t, errors.Join(err, response.Body.Close()))
	if !strings.Contains(string(page), fine.Name) || strings.Contains(string(page), frozen.Name) {
		t.Errorf("not the numbers of %s alone:\n%s", fine.Name, page)
	}
}

// Over TCP everybody on the machine gets what an agent shows to untrusted callers: names of processes and commands,
// no command lines.
func TestEndpointOverTCP(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("exec sleep 1000")
	f.start(config)
	must(t, f.SetConfig(t.Context(), msgpack(t, map[string]any{
		"runtime_dir": f.options.Config.RuntimeDir, "metrics": map[string]any{"address": "127.0.0.1:0"},
	}), 0))
	print := testkit.Value(testkit.Value(f.Fingerprint(t.Context()))(t).Recv())(t)
	address := fmt.Sprint(print.Attributes["driver.tacho.metrics"]) // with the port that the kernel chose
	client := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/v1/task/" + config.ID + "/stats")
	must(t, err)
	var sample map[string]any
	err = json.NewDecoder(response.Body).Decode(&sample)
	must(t, errors.Join(err, response.Body.Close()))
	text := testkit.Value(json.Marshal(sample))(t)
	if strings.Contains(string(text), "exec sleep") || strings.Contains(string(text), "sleep 1000") {
		t.Errorf("command lines are shown: %s", text)
	}
	if sample["processes"] == nil || sample["measurements"] == nil || sample["headline"] == nil {
		t.Errorf("sample %v", sample)
	}
	response, err = client.Get("http://" + address + "/v1/task/" + config.ID + "/commands")
	must(t, err)
	if err := response.Body.Close(); response.StatusCode != http.StatusOK || err != nil {
		t.Errorf("commands: %s, %v", response.Status, err)
	}
}

// What is shown of a recovered task was read after its recovery: an earlier process may have shown newer counters
// than those that the executor has cached.
func TestSampleOfARecoveredTask(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("exec sleep 1000")
	handle := f.start(config)
	cached := testkit.Value(f.Sample(t.Context(), config.ID, time.Hour))(t)
	if again, err := f.Sample(t.Context(), config.ID, time.Hour); err != nil || again.Mono != cached.Mono {
		t.Fatalf("nothing is cached: %v, %v", again, err)
	}
	f.restart()
	must(t, f.RecoverTask(t.Context(), handle))
	now, err := f.Sample(t.Context(), config.ID, time.Hour)
	if err != nil || now.Mono <= cached.Mono {
		t.Errorf("sample %v, before the recovery %v: %v", now, cached, err)
	}
}

// The commands of a task are served so far and at its end.
func TestEndpointCommands(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("for i in 1 2 3; do /bin/true; done; echo ready; exec sleep 1000")
	f.start(config)
	f.awaitOutput(config, "ready")
	client := f.serveOnSocket()
	ask := func() (status int, c record.Commands) {
		t.Helper()
		response, err := client.Get("http://tacho/v1/task/" + config.ID + "/commands")
		must(t, err)
		if response.StatusCode == http.StatusOK {
			err = json.NewDecoder(response.Body).Decode(&c)
		}
		must(t, errors.Join(err, response.Body.Close()))
		return response.StatusCode, c
	}
	if status, c := ask(); status != http.StatusOK || c.Reason == "" {
		t.Errorf("a task that nobody samples: %d, %+v, want a reason", status, c)
	}
	f.stream(config, time.Second)
	if status, c := ask(); status != http.StatusOK || c.Reason == "" && c.Since.IsZero() {
		t.Errorf("while it runs: %d, %+v", status, c)
	}
	must(t, f.StopTask(t.Context(), config.ID, 0, "SIGKILL"))
	if status, c := ask(); status != http.StatusOK || c.Reason == "" && c.Processes() != 1 {
		t.Errorf("at its end: %d, %+v", status, c)
	}
}
