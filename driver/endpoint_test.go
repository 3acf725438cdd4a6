// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// A web page can be made to resolve to this machine; its requests still name the page's host.
func TestEndpointGuard(t *testing.T) {
	d := New(Options{Config: DefaultConfig()})
	t.Cleanup(func() { must(t, d.Close()) })
	for _, test := range []struct {
		address, host string
		want          int
	}{
		{"127.0.0.1:80", "127.0.0.1:80", http.StatusOK},
		{"127.0.0.1:80", "localhost", http.StatusOK},
		{"[::1]:80", "[::1]:80", http.StatusOK},
		{"127.0.0.1:80", "evil.example:80", http.StatusForbidden},
		{"127.0.0.1:80", "192.0.2.1", http.StatusForbidden},
		{"unix:/x", "anything", http.StatusOK},
	} {
		request := httptest.NewRequest(http.MethodGet, "/v1/tasks", nil)
		request.Host = test.host
		answer := httptest.NewRecorder()
		newEndpoint(d, test.address).server.Handler.ServeHTTP(answer, request)
		testkit.Equal(t, answer.Code, test.want, "%s asked for %s", test.host, test.address)
	}
	answer := httptest.NewRecorder()
	newEndpoint(d, "unix:/x").server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/v1/tasks", nil))
	if answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d, want that it is not allowed", answer.Code)
	}
}

// An address that cannot be used is said in the fingerprint, and the driver works on.
func TestEndpointFails(t *testing.T) {
	d := New(Options{Config: DefaultConfig()})
	t.Cleanup(func() { must(t, d.Close()) })
	d.serveNumbers("unix:/no/such/directory/socket")
	f := &Fingerprint{Attributes: make(map[string]any)}
	d.describeMetrics(f)
	if f.Attributes["driver.tacho.metrics.reason"] == nil {
		t.Errorf("attributes %v do not say why nothing is served", f.Attributes)
	}
	d.serveNumbers("")
	f = &Fingerprint{Attributes: make(map[string]any)}
	if d.describeMetrics(f); len(f.Attributes) > 0 {
		t.Errorf("attributes %v of an endpoint that is switched off", f.Attributes)
	}
}

// A directory that was missing at the first try may be there at the next.
func TestEndpointIsTriedAgain(t *testing.T) {
	d := New(Options{Config: DefaultConfig()})
	dir := filepath.Join(t.TempDir(), "later")
	address := "unix:" + filepath.Join(dir, "socket")
	d.serveNumbers(address)
	if err := d.endpoint.Load().failure(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	must(t, os.Mkdir(dir, 0o700))
	d.serveNumbers(address)
	if err := d.endpoint.Load().failure(); err != nil {
		t.Errorf("with one: %v", err)
	}
	must(t, d.Close())
}

func TestEndpointsAreNotLeft(t *testing.T) {
	d := New(Options{Config: DefaultConfig()})
	dir := t.TempDir()
	var changing sync.WaitGroup
	for i := range 8 {
		changing.Go(func() { d.serveNumbers(fmt.Sprintf("unix:%s/%d", dir, i)) })
	}
	changing.Wait()
	testkit.NoError(t, d.Close())
	d.serveNumbers("unix:" + dir + "/late")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("sockets are left: %v, %v", left, err)
	}
}

// TestEndpointAbsent holds that what was selected and is absent has no series, and that the reason has one.
func TestEndpointAbsent(t *testing.T) {
	s := &procstats.Sample{}
	s.SetAbsent(procstats.DiskUsage, "open: permission denied")
	s.SetAbsent(procstats.CgroupMemoryMax, procstats.ReasonNoLimit)
	s.SetNumber(procstats.DiskFiles, 7)
	var page strings.Builder
	must(t, exposition.Text.Write(&page, families([]taskSample{{config: &TaskConfig{Name: "web"}, sample: s}})))
	var got []string
	for line := range strings.Lines(page.String()) {
		if !strings.HasPrefix(line, "#") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if d := cmp.Diff([]string{
		`tacho_task_absent_info{task="web",measurement="disk_usage_bytes",reason="open: permission denied"} 1`,
		`tacho_task_disk_files{task="web"} 7`,
	}, got); d != "" {
		t.Error(d)
	}
}

func TestCheckAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:9100": true, "[::1]:9100": true, "localhost:0": true, "unix:/run/x.sock": true,
		"": false, "9100": false, ":9100": false, "0.0.0.0:9100": false, "example.com:80": false, "unix:x": false,
	} {
		if err := checkAddress("address", address); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
