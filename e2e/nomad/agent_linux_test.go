// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// agent is a Nomad agent, server and client in one, with our plugin.
type agent struct {
	t       *testing.T
	nomad   string // executable
	dir     string
	address string // of its HTTP API
	metrics string // of our plugin's endpoint
	runtime string // our plugin's runtime_dir
	config  string
	dev     bool
	token   string // of the management, if the agent has ACLs
	process *exec.Cmd
	log     *os.File
}

// configuration keeps everything on the loopback interface and asks no cloud who it is.
const configuration = `
bind_addr  = "127.0.0.1"
data_dir   = "{{ .Dir }}/data"
plugin_dir = "{{ .Dir }}/plugins"
log_level  = "DEBUG"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
ports {
  http = {{ .HTTP }}
  rpc  = {{ .RPC }}
  serf = {{ .Serf }}
}
server {
  enabled          = true
  bootstrap_expect = 1
  default_scheduler_config {
    memory_oversubscription_enabled = true
  }
}
client {
  enabled           = true
  network_interface = "lo"
  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean,consul,vault"
  }
}
consul {
  address          = "127.0.0.1:1"
  auto_advertise   = false
  client_auto_join = false
  server_auto_join = false
}
acl {
  enabled = {{ .ACL }}
}
telemetry {
  collection_interval        = "1s"
  publish_allocation_metrics = true
  prometheus_metrics         = true
  disable_hostname           = true
}
plugin "tacho" {
  config {
    {{ .Extra }}
    denied_host_uids = "5"
    runtime_dir      = "{{ .Runtime }}"
    metrics {
      address = "{{ .Metrics }}"
    }
  }
}
`

// requireNomad skips where a real agent cannot run, with the reason.
func requireNomad(t *testing.T) (nomad, tacho string) {
	t.Helper()
	nomad, err := exec.LookPath("nomad")
	if err != nil {
		t.Skip("there is no nomad executable on the PATH")
	}
	tacho, err = filepath.Abs(filepath.Join("..", "..", "bin", "tacho"))
	testkit.Must(t, err)
	if _, err := os.Stat(tacho); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: build it first, make build", tacho)
	}
	if os.Geteuid() != 0 {
		t.Skip("a Nomad client needs root")
	}
	return nomad, tacho
}

// start starts an agent; dev is its development mode, which keeps no state.
func start(t *testing.T, dev bool) *agent {
	t.Helper()
	return startWith(t, dev, "")
}

// startWith starts an agent with more in the plugin's config block.
func startWith(t *testing.T, dev bool, extra string) *agent {
	t.Helper()
	_, tacho := requireNomad(t)
	return startBinary(t, tacho, dev, extra)
}

// startBinary starts an agent with a binary as the plugin.
func startBinary(t *testing.T, tacho string, dev bool, extra string) *agent {
	t.Helper()
	return startIn(t, tacho, dev, extra, "", "")
}

// startIn starts an agent with a runtime directory, which is one of its own if it is empty, and with ACLs if it is given a
// token for its management.
func startIn(t *testing.T, tacho string, dev bool, extra, runtime, token string) *agent {
	t.Helper()
	nomad, _ := requireNomad(t)
	// Short: the paths of sockets are limited to 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "nomad")
	testkit.Must(t, err)
	// For tasks of other users; the agent itself would make its folder for root alone.
	testkit.Must(t, errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "data"), 0o755)))
	a := &agent{t: t, nomad: nomad, dir: dir, dev: dev, token: token, config: filepath.Join(dir, "agent.hcl")}
	a.runtime = cmp.Or(runtime, filepath.Join(dir, "run"))
	t.Cleanup(a.clean)
	a.copyFile(tacho, filepath.Join(dir, "plugins", "tacho"))
	ports := freePorts(t, 4)
	a.address = "http://127.0.0.1:" + strconv.Itoa(ports[0])
	a.metrics = "127.0.0.1:" + strconv.Itoa(ports[3])
	var text bytes.Buffer
	err = template.Must(template.New("").Parse(configuration)).Execute(&text, map[string]any{
		"Dir": dir, "HTTP": ports[0], "RPC": ports[1], "Serf": ports[2], "Metrics": a.metrics,
		"Extra": extra, "Runtime": a.runtime, "ACL": token != "",
	})
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(a.config, text.Bytes(), 0o600))
	if a.log, err = os.Create(filepath.Join(dir, "agent.log")); err != nil {
		t.Fatal(err)
	}
	a.run()
	return a
}

func (a *agent) copyFile(from, to string) {
	a.t.Helper()
	content := testkit.Value(os.ReadFile(from))(a.t)
	testkit.Must(a.t, os.MkdirAll(filepath.Dir(to), 0o755))
	testkit.Must(a.t, os.WriteFile(to, content, 0o755))
}

// freePorts returns ports that were free a moment ago.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	var listeners []net.Listener
	for range n {
		l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		listeners = append(listeners, l)
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			t.Fatalf("listening on %s", l.Addr())
		}
		ports = append(ports, address.Port)
	}
	for _, l := range listeners {
		testkit.Must(t, l.Close())
	}
	return ports
}

// run starts the agent's process and waits until it has a healthy driver.
func (a *agent) run() {
	a.t.Helper()
	args := []string{"agent", "-config", a.config}
	if a.dev {
		args = []string{"agent", "-dev", "-config", a.config}
	}
	a.process = exec.Command(a.nomad, args...)
	a.process.Stdout, a.process.Stderr = a.log, a.log
	a.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	testkit.Must(a.t, a.process.Start())
	a.await("healthy driver", 2*time.Minute, func() bool { // which Nomad waits long for if the plugin hangs
		if a.token != "" {
			_, _ = a.do(http.MethodPost, a.address+"/v1/acl/bootstrap", fmt.Sprintf(`{"BootstrapSecret": %q}`, a.token)) // once
		}
		var nodes []struct{ ID string }
		if a.get("/v1/nodes", &nodes) != nil || len(nodes) == 0 {
			return false
		}
		var node struct {
			Status  string
			Drivers map[string]struct{ Healthy bool }
		}
		return a.get("/v1/node/"+nodes[0].ID, &node) == nil && node.Status == "ready" && node.Drivers["tacho"].Healthy
	})
}

// kill kills the agent's process alone, without any warning.
func (a *agent) kill() {
	a.t.Helper()
	testkit.Must(a.t, a.process.Process.Kill())
	// It was killed: the error says only that.
	_ = a.process.Wait()
}

// clean ends everything, and shows the agent's last words where the test failed.
func (a *agent) clean() {
	if a.process != nil && a.process.ProcessState == nil {
		a.purge()
		testkit.NoError(a.t, a.process.Process.Signal(os.Interrupt))
		_ = a.process.Wait() // the exit code of an interrupted agent says nothing
	}
	if a.t.Failed() {
		if text, err := os.ReadFile(filepath.Join(a.dir, "agent.log")); err == nil {
			lines := strings.Split(string(text), "\n")
			a.t.Logf("the agent's last words:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	}
	if a.log != nil {
		testkit.NoError(a.t, a.log.Close())
	}
	// The mounts of allocations go with their allocations; one that is left must not be emptied.
	if err := os.RemoveAll(a.dir); err != nil {
		a.t.Logf("left behind: %v", err)
	}
}

// purge stops every job and waits until no task of ours is left.
func (a *agent) purge() {
	var jobs []struct{ ID string }
	if err := a.get("/v1/jobs", &jobs); err != nil {
		a.t.Error(err)
		return
	}
	for _, job := range jobs {
		if _, err := a.cli("job", "stop", "-detach", "-purge", job.ID); err != nil {
			a.t.Error(err)
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if entries, err := os.ReadDir(a.runtime); err != nil || len(entries) == 0 {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	a.t.Error("executors are left after all jobs were stopped")
}

// get reads JSON from the agent's API.
func (a *agent) get(path string, into any) error {
	text, err := a.read(a.address + path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (a *agent) read(url string) ([]byte, error) { return a.do(http.MethodGet, url, "") }

func (a *agent) do(method, url, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if a.token != "" {
		request.Header.Set("X-Nomad-Token", a.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	return text, nil
}

// cli runs a command of nomad and returns what it wrote.
func (a *agent) cli(args ...string) (string, error) { return a.cliInput("", args...) }

func (a *agent) cliInput(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.nomad, args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.address, "NOMAD_TOKEN="+a.token, "NOMAD_CLI_SHOW_HINTS=false", "NO_COLOR=1")
	cmd.Stdin = strings.NewReader(input)
	text, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("nomad %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return string(text), err
}

// await waits until something holds.
func (a *agent) await(what string, patience time.Duration, holds func() bool) {
	a.t.Helper()
	rig.Poll(a.t, 50*time.Millisecond, patience, what, holds)
}
