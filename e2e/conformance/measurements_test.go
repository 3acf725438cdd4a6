// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/e2e/conformance/host"
	"github.com/tachograph/tacho/e2e/conformance/suite"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestMeasurements selects disk usage and proportional memory for all tasks but one, in process and behind a wire,
// and reads them at the driver's own endpoint: Nomad's stats have no place for them.
func TestMeasurements(t *testing.T) {
	t.Parallel()
	path := binary(t)
	for name, subject := range map[string]suite.Subject{
		"in process": &suite.InProcess{Options: driver.Options{Config: driver.DefaultConfig(), Binary: path, Logger: logger(t)}},
		"plugin":     &suite.Plugin{Options: host.Options{Path: path, Logger: logger(t)}, Config: encoded(t, driver.ConfigSchema(), "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := testkit.Value(subject.Open(t.Context()))(t)
			t.Cleanup(func() { testkit.NoError(t, subject.Close(context.Background())) })
			checkMeasurements(t, d)
		})
	}
}

func checkMeasurements(t *testing.T, d suite.Driver) {
	t.Helper()
	dir := shortDir(t)
	socket := filepath.Join(dir, "metrics")
	settings := fmt.Sprintf("runtime_dir = %q\nmeasurements = \"default,smaps\"\ndisk {\n interval = \"1s\"\n}\nmetrics {\n address = \"unix:%s\"\n}\n",
		filepath.Join(dir, "run"), socket)
	testkit.Must(t, d.SetConfig(t.Context(), encoded(t, driver.ConfigSchema(), settings), nil))
	start(t, d, dir, "full", "head -c 3000000 /dev/zero > fill; exec sleep 1000", "")
	start(t, d, dir, "plain", "exec sleep 1000", "measurements = \"default\"\n")
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       testkit.DialUnix(socket),
	}}
	deadline := time.After(20 * time.Second)
	for {
		page := series(t, client)
		if page["tacho_task_disk_usage_bytes full"] >= 3_000_000 && page["tacho_task_smaps_pss_bytes full"] >= 4096 {
			if _, ok := page["tacho_task_memory_bytes plain"]; !ok {
				t.Error("nothing of the other task is measured")
			}
			for _, name := range []string{"tacho_task_disk_usage_bytes plain", "tacho_task_smaps_pss_bytes plain"} {
				if v, ok := page[name]; ok {
					t.Errorf("%s is %v, and was not selected", name, v)
				}
			}
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatalf("no size of the directory, or no proportional memory: %v", page)
		}
	}
}

// encoded is a block of configuration as hosts send it.
func encoded(t *testing.T, schema driver.Schema, text string) []byte {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(text), "test", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	msgpack, diags := schema.Encode(file.Body, nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return msgpack
}

// start starts a shell as a task, which is destroyed at the end of the test.
func start(t *testing.T, d suite.Driver, dir, name, script, more string) *driver.TaskHandle {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	task := &driver.TaskConfig{
		ID: filepath.Base(dir) + "/" + name, Name: name, AllocDir: dir, StdoutPath: os.DevNull, StderrPath: os.DevNull,
		Env:          map[string]string{"PATH": os.Getenv("PATH")},
		DriverConfig: encoded(t, driver.TaskSchema(), fmt.Sprintf("command = \"/bin/sh\"\nargs = [\"-c\", %q]\n%s", script, more)),
	}
	handle := testkit.Value(d.StartTask(t.Context(), task))(t)
	t.Cleanup(func() { testkit.NoError(t, d.DestroyTask(context.Background(), task.ID, true)) })
	return handle
}

// series are the numbers of the endpoint by metric and task; none before it answers.
func series(t *testing.T, client *http.Client) map[string]float64 {
	t.Helper()
	response, err := client.Get("http://driver/metrics")
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	text := testkit.Value(io.ReadAll(response.Body))(t)
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		var value float64
		name, rest, _ := strings.Cut(line, "{")
		labels, number, ok := strings.Cut(rest, "} ")
		if _, err := fmt.Sscan(number, &value); !ok || err != nil {
			continue
		}
		for _, task := range []string{"full", "plain"} {
			if strings.Contains(labels, fmt.Sprintf("task=%q", task)) {
				all[name+" "+task] = value
			}
		}
	}
	return all
}
