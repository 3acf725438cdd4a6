// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// scraping is how docs/howto.md has the driver's endpoint scraped.
const scraping = `
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: tacho
    honor_labels: true
    metrics_path: /metrics
    static_configs: [{ targets: [%q] }]
`

// TestHistory advises on a job whose allocation Nomad has forgotten and a Prometheus server has not.
func TestHistory(t *testing.T) {
	requireNomad(t)
	a := start(t, true)
	server := rig.NewPrometheus(t, fmt.Sprintf(scraping, a.metrics))
	run := a.sizer("", t.TempDir())
	forgotten := sized{name: "steady", driver: "tacho", kind: "service", script: hold(80) + "; sleep 1000"}
	testkit.Value(a.cli("job", "run", "-detach", forgotten.file(t)))(t)
	first := a.allocOf(forgotten.name)
	const series = "tacho_task_cgroup_memory_peak_bytes"
	server.Await(t, "readings of the first task", fmt.Sprintf("%s{job=%q, alloc_id=%q} > 80 * 2^20", series, forgotten.name, first))
	if stdout, stderr, code := run("advise", "--nomad", "--prometheus", string(server)); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	of := func(args ...string) advised {
		t.Helper()
		stdout, stderr, code := run(append([]string{"advise", "--nomad", forgotten.name, "--format", "json"}, args...)...)
		var got advice
		if code != 0 || json.Unmarshal([]byte(stdout), &got) != nil || len(got.Tasks) != 1 {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
		return got.Tasks[0]
	}
	// The one allocation is not two, though both know it.
	both := of("--prometheus", string(server))
	if both.Runs != 1 || both.Memory.Peak == nil || *both.Memory.Peak < 80 || *both.Memory.Peak > 100 {
		t.Errorf("one run of 80 MiB: %+v, %v", both, both.Why)
	}
	a.stopMany(forgotten.name, "tacho")
	smaller := forgotten
	smaller.script = hold(20) + "; sleep 1000"
	testkit.Value(a.cli("job", "run", "-detach", smaller.file(t)))(t)
	t.Cleanup(func() { a.stopMany(smaller.name, "tacho") }) // with its mounts
	second := a.allocOf(smaller.name)
	server.Await(t, "readings of the second task", fmt.Sprintf("%s{alloc_id=%q} > 20 * 2^20", series, second))
	a.await("what Nomad knows of the second task", time.Minute, func() bool {
		alone := of()
		return alone.Runs == 1 && alone.Memory.Peak != nil && *alone.Memory.Peak >= 20 && *alone.Memory.Peak < 40
	})
	longer := of("--prometheus", string(server))
	if longer.Runs != 2 || longer.Memory.Peak == nil || *longer.Memory.Peak < 80 || *longer.Memory.Peak > 100 {
		t.Errorf("two runs, the larger of 80 MiB: %+v", longer)
	}
	if why := strings.Join(longer.Why, "\n"); longer.Memory.Advised != nil || !strings.Contains(why, "the data do not suffice") {
		t.Errorf("two tasks of seconds are advised on: %+v", longer)
	}
	if stdout, stderr, code := run("advise", "--nomad", "--prometheus", "http://127.0.0.1:1"); code != 1 {
		t.Errorf("exit code %d without a server: %s%s", code, stdout, stderr)
	}
}
