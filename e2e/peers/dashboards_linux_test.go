// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// panel is a panel of a Grafana dashboard, or a row of panels.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
	Panels  []panel
}

const prometheusConfig = `
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: nomad
    metrics_path: /v1/metrics
    params:
      format: [prometheus]
    static_configs:
      - targets: ["127.0.0.1:%d"]
        labels: # that operators give to their targets, and dashboards choose by
          cluster: home
          role: nomad-client
`

const busyJob = `
job "busy" {
  group "g" {
    task "t" {
      driver = "tacho"
      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do i=1; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2; done"]
      }
    }
  }
}
`

// TestDashboards lets a Prometheus server read an agent, and runs the queries of dashboards for Nomad against it: the JSON files in the
// folder that TACHO_DASHBOARDS names. No panel is empty.
func TestDashboards(t *testing.T) {
	rig.Require(t)
	folder := os.Getenv("TACHO_DASHBOARDS")
	if folder == "" {
		t.Skip("not measured: TACHO_DASHBOARDS names no folder")
	}
	port := rig.FreePort(t)
	server := rig.NewPrometheus(t, fmt.Sprintf(prometheusConfig, port))
	data := startAgent(t, fmt.Sprintf("ports {\n  http = %d\n}\ntelemetry {\n  collection_interval = \"1s\"\n  publish_allocation_metrics = true\n"+
		"  publish_node_metrics = true\n  prometheus_metrics = true\n  nomad_names = true\n  allocation_detail = \"alloc\"\n}\n", port))
	job := filepath.Join(t.TempDir(), "busy.nomad.hcl")
	testkit.Must(t, os.WriteFile(job, []byte(busyJob), 0o600))
	testkit.Must(t, command(t.Context(), rig.Tacho(), []string{"job", "run", "--data-dir", data}, "", nil, job))
	server.Await(t, "the server has read the task", "count_over_time(nomad_client_allocs_cpu_total_percent[1m]) > 5")
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards in %s: %v, %v", folder, files, err)
	}
	total := 0
	files = append(files, "../../packaging/grafana/tachograph.json")
	for _, file := range files {
		text := testkit.Value(os.ReadFile(file))(t)
		var dashboard panel
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		total += checkPanels(t, server, filepath.Base(file), dashboard.Panels)
	}
	report(t, "%d panels of %d dashboards have values", total, len(files))
	if total == 0 {
		t.Error("no panel has a query")
	}
}

// TestAlerts lets the alert rules of the package judge series that Prometheus' own tests of rules make.
func TestAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("not measured: no promtool on PATH")
	}
	dir := t.TempDir()
	for _, file := range []string{"testdata/alerts_test.yml", "../../packaging/prometheus/alerts.yml"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), testkit.Value(os.ReadFile(file))(t), 0o600))
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join(dir, "alerts_test.yml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	report(t, "the alerts for killed, throttled and oversized tasks fire as they should")
}

var (
	spanVariable = regexp.MustCompile(`\$\{?__\w*(?:interval|range)\w*\}?`)
	// A variable of a dashboard has one value, or a pattern of all.
	equalVariable = regexp.MustCompile(`=\s*"\$\{?\w+\}?"`)
	anyVariable   = regexp.MustCompile(`\$\{?\w+\}?`)
)

// checkPanels counts the panels with values; those without are errors.
func checkPanels(t *testing.T, server rig.Prometheus, file string, panels []panel) (full int) {
	t.Helper()
	for _, p := range panels {
		full += checkPanels(t, server, file, p.Panels)
		queries, values := 0, 0
		for _, target := range p.Targets {
			if target.Expr == "" {
				continue
			}
			queries++
			query := spanVariable.ReplaceAllString(target.Expr, "30s")
			query = anyVariable.ReplaceAllString(equalVariable.ReplaceAllString(query, `=~".*"`), ".*")
			n, err := server.Series(query)
			if err != nil {
				t.Errorf("%s, %q: %s: %v", file, p.Title, query, err)
			}
			if n == 0 {
				t.Logf("%s, %q: nothing for %s", file, p.Title, query)
			}
			values += n
		}
		switch {
		case queries == 0:
		case values == 0:
			t.Errorf("%s: panel %q is empty", file, p.Title)
		default:
			full++
		}
	}
	return full
}
