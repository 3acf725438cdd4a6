// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// Prometheus is a Prometheus server that ends with the test, by its address.
type Prometheus string

// NewPrometheus starts a server with a configuration. It skips the test if no server is installed.
func NewPrometheus(t *testing.T, config string) Prometheus {
	t.Helper()
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("not measured: no prometheus on PATH")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	testkit.Must(t, os.WriteFile(file, []byte(config), 0o600))
	address := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	cmd := exec.Command(prometheus, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return Prometheus("http://" + address)
}

// Await waits until a query has a result.
func (p Prometheus) Await(t *testing.T, what, query string) {
	t.Helper()
	Eventually(t, 60*time.Second, what, func() bool {
		n, err := p.Series(query)
		return err == nil && n > 0
	})
}

// Series returns how many series a query has now.
func (p Prometheus) Series(query string) (int, error) {
	answer, err := http.Get(string(p) + "/api/v1/query?query=" + url.QueryEscape(query)) //nolint:noctx // a test's own server
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var body struct {
		Error string
		Data  struct{ Result []any }
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return 0, err
	}
	if body.Error != "" {
		return 0, errors.New(body.Error)
	}
	return len(body.Data.Result), nil
}

// FreePort returns a port that was free a moment ago.
func FreePort(t *testing.T) int {
	t.Helper()
	listener := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := listener.Addr().(*net.TCPAddr).Port
	testkit.Must(t, listener.Close())
	return port
}
