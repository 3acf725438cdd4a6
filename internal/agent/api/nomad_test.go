// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/datadir"
)

// TestNomadCommandLine has Nomad's own command line read the agent, with and without the token.
func TestNomadCommandLine(t *testing.T) {
	nomad := os.Getenv("NOMAD_BIN")
	if nomad == "" {
		t.Skip("needs Nomad's own binary: set NOMAD_BIN to one")
	}
	f := newFake()
	f.allocs[0].Dir = datadir.In(t.TempDir(), webID)
	f.writeLog(t, "one\ntwo\nthree\n")
	f.jobs[0].Unplaced = unplacedOn("plan9")
	s := newTestServer(f)
	server := httptest.NewUnstartedServer(s.Handler(false))
	f.port = server.Listener.Addr().(*net.TCPAddr).Port
	server.Start()
	defer server.Close()

	tests := []struct {
		args  string
		token string
		want  []string
	}{
		{"job status", "", []string{"web", "service", "running", "nightly", "batch"}},
		{"job status web", "", []string{"ID            = web", "Status        = running", "cache", "11111111"}},
		{"job status nightly", testToken, []string{"Placement Failure", `Constraint "${attr.kernel.name} = plan9"`}},
		{"job status -evals web", "", []string{"job-register", "complete"}},
		{"job status -verbose web", "", []string{webID, nodeID}},
		{"job allocs web", "", []string{"11111111", "running"}},
		{"job history web", "", []string{"Version     = 2"}},
		{"job inspect web", testToken, []string{secret}},
		{"job inspect -hcl web", testToken, []string{secret}},
		{"job deployments web", "", nil},
		{"job scaling-events web", "", nil},
		{"alloc status 11111111", "", []string{webID[:8], "web.cache[0]", `Task "web" is "running"`, "1250/500 MHz", "32 MiB/256 MiB"}},
		{"alloc status -stats 11111111", "", []string{"Memory Stats", "Cache", "Max Usage", "16 MiB", "96 MiB", "CPU Stats", "50.00%", "25.00%"}},
		{"alloc status -stats 11111111", testToken, []string{"Started /bin/" + secret}},
		{"alloc status 11aaaaaa", "", []string{"failed", `Task "web" is "dead"`}},
		{"alloc status -json 11111111", "", []string{webID}},
		{"alloc checks 11111111", "", nil},
		{"alloc logs 11111111 web", testToken, []string{"one\ntwo\nthree"}},
		{"alloc logs -tail -n 1 11111111 web", testToken, []string{"three"}},
		{"alloc restart 11111111 web", testToken, nil},
		{"alloc signal -s SIGHUP 11111111 web", testToken, nil},
		{"alloc stop 11111111", testToken, []string{"complete"}},
		{"alloc fs 11111111", testToken, []string{"alloc/"}},
		{"alloc fs -stat 11111111 alloc/logs/web.stdout.0", testToken, []string{"14 B"}},
		{"alloc fs 11111111 alloc/logs/web.stdout.0", testToken, []string{"one\ntwo\nthree"}},
		{"alloc fs -tail -n 1 11111111 alloc/logs/web.stdout.0", testToken, []string{"three"}},
		{"job scale web cache 3", testToken, []string{"complete"}},
		{"job restart -yes web", testToken, []string{"restarted successfully"}},
		{"job stop -yes web", testToken, []string{"complete"}},
		{"job stop -detach -yes web", testToken, nil},
		{"node status", "", []string{nodeID[:8], "node1", "ready", "eligible"}},
		{"node status -stats 99999999", "", []string{"node1", "tacho", "375/5000 MHz", "2.0 GiB/8.0 GiB", "40 GiB/100 GiB", "11111111"}},
		{"node status -self", "", []string{"node1"}},
		{"node status -verbose 99999999", "", []string{"cpu.arch", "amd64"}},
		{"node status -allocs", "", []string{"node1"}},
		{"eval list", "", []string{"job-register", "queued-allocs", "blocked"}},
		{"deployment list", "", nil},
		{"volume status", "", nil},
		{"plugin status", "", nil},
		{"namespace list", "", []string{"default"}},
		{"node pool list", "", []string{"default"}},
		{"service list", "", nil},
		{"server members", "", []string{"alive"}},
		{"agent-info", "", []string{nodeID}},
		{"operator metrics", "", []string{"tacho_agent_cpu_seconds_total"}},
		{"operator api /v1/regions", "", []string{"global"}},
		{"system gc", testToken, nil},
		{"job stop -purge -yes nightly", testToken, nil},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.args, " ", "_"), func(t *testing.T) {
			words := strings.Fields(tt.args)
			cmd := exec.CommandContext(t.Context(), nomad, words...)
			cmd.Env = []string{"NOMAD_ADDR=" + server.URL, "NOMAD_TOKEN=" + tt.token, "HOME=" + t.TempDir(), "NOMAD_CLI_NO_COLOR=1"}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is not in it", want)
				}
			}
			t.Logf("nomad %s\n%s", tt.args, out)
		})
	}
}

// TestExitOfEvent is what clients read of the end of a task, with the token and without.
func TestExitOfEvent(t *testing.T) {
	event := &allocation.Event{
		Type: hook.EventTerminated, Message: "exit code 137, signal 9",
		Details: map[string]string{allocation.DetailExitCode: "137", allocation.DetailSignal: "9", allocation.DetailOOMKilled: "false"},
	}
	for _, trusted := range []bool{true, false} {
		if shown := newTaskEvent(event, trusted); shown.ExitCode != 137 || shown.Signal != 9 || shown.Details["exit_code"] != "137" {
			t.Errorf("trusted %t: %+v", trusted, shown)
		}
	}
	if shown := newTaskEvent(&allocation.Event{Type: hook.EventStarted}, true); shown.ExitCode != 0 || shown.Signal != 0 {
		t.Errorf("a start: %+v", shown)
	}
}
