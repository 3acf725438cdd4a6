// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/driver"
	pluginconfig "github.com/tachograph/tacho/plugin/config"
	"github.com/tachograph/tacho/procstats"
)

// configOf decodes a plugin's config block.
func configOf(t *testing.T, text string) (driver.Config, error) {
	t.Helper()
	value, diags := pluginconfig.Decode(driver.ConfigSchema(), parse(t, text), nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return driver.ConfigOf(value)
}

// blockOf decodes a task's config block.
func blockOf(t *testing.T, text string) (*driver.ConfigBlock, error) {
	t.Helper()
	value, diags := pluginconfig.Decode(driver.TaskSchema(), parse(t, "command = \"true\"\n"+text), nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return driver.ConfigBlockOf(value)
}

// TestMeasurements holds what an executor is told to measure against what a plugin's config block and a task's say.
func TestMeasurements(t *testing.T) {
	const interval, budget = 20 * time.Second, 5 * time.Millisecond
	for _, test := range []struct {
		name, plugin, task string
		// selection is in the words of tacho run.
		selection        string
		interval, budget time.Duration
	}{
		{"nothing", "", "", "default", 0, 0},
		{"the plugin's", `measurements = "default,disk,smaps"`, "", "default,disk,smaps", 0, 0},
		{"the task's", "", `measurements = "-psi"`, "default,-psi", 0, 0},
		{"the task's replace the plugin's", `measurements = "default,disk"`, `measurements = "default,smaps"`, "default,smaps", 0, 0},
		{"the task's replace a disk block", "disk {}", `measurements = "default"`, "default", 0, 0},
		{"a disk block adds to the default", "", "disk {}", "default,disk", 0, 0},
		{"a disk block of the plugin", "disk {\n interval = \"20s\"\n budget = \"5ms\"\n}", "", "default,disk", interval, budget},
		{"a disk block adds to the plugin's", `measurements = "cgroup"`, "disk {}", "cgroup,disk", 0, 0},
		{"a disk block adds to the task's", "", "measurements = \"psi\"\ndisk {}", "psi,disk", 0, 0},
		{
			"one key of a disk block", "disk {\n interval = \"1h\"\n budget = \"5ms\"\n}", "disk {\n interval = \"20s\"\n}",
			"default,disk", interval, budget,
		},
		{"the plugin's clock for the task's words", "disk {\n interval = \"20s\"\n}", `measurements = "disk"`, "disk", interval, 0},
	} {
		config, err := configOf(t, test.plugin)
		if err != nil {
			t.Fatal(test.name, err)
		}
		block, err := blockOf(t, test.task)
		if err != nil {
			t.Fatal(test.name, err)
		}
		var want []uint32
		selection, err := procstats.ParseSelection(test.selection)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range selection.IDs() {
			want = append(want, uint32(id))
		}
		request, err := driver.LaunchRequest(config, &driver.TaskConfig{ID: "a/b", Name: "t", Block: block})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, request.GetSelection()); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
		if i, b := time.Duration(request.GetDiskIntervalNs()), time.Duration(request.GetDiskBudgetNs()); i != test.interval || b != test.budget {
			t.Errorf("%s: interval %s and budget %s, want %s and %s", test.name, i, b, test.interval, test.budget)
		}
	}
}

// TestSamplingBudget holds what an executor is told against what a plugin's config block and a task's say.
func TestSamplingBudget(t *testing.T) {
	for _, test := range []struct {
		plugin, task string
		want         float64
	}{
		{"", "", 0.02},
		{"sampling_budget = 5", "", 0.05},
		{"sampling_budget = 5", "sampling_budget = 0.5", 0.005},
		{"", "sampling_budget = 100", 1},
	} {
		config, err := configOf(t, test.plugin)
		if err != nil {
			t.Fatal(err)
		}
		block, err := blockOf(t, test.task)
		if err != nil {
			t.Fatal(err)
		}
		request, err := driver.LaunchRequest(config, &driver.TaskConfig{ID: "a/b", Name: "t", Block: block})
		if err != nil {
			t.Fatal(err)
		}
		if got := request.GetSamplingBudget(); got != test.want {
			t.Errorf("plugin %q, task %q: a share of %v, want %v", test.plugin, test.task, got, test.want)
		}
	}
}

// TestMeasurementsInvalid holds that both blocks reject the same, in the words of tacho run, naming key and remedy.
func TestMeasurementsInvalid(t *testing.T) {
	for text, want := range map[string]string{
		`measurements = "default,dsk"`:                      `measurements: unknown measurement "dsk" (did you mean disk`,
		`measurements = ""`:                                 `measurements: unknown measurement "" (there are the groups cgroup, `,
		`measurements = "disk,-disk"`:                       `measurements "disk,-disk": selects nothing; leave it out for the default`,
		"disk {\n interval = \"30\"\n}":                     `disk: interval "30": must be a duration such as "1s"`,
		"disk {\n interval = \"10ms\"\n}":                   `disk: interval "10ms": must be between 1s and 24h`,
		"disk {\n interval = \"25h\"\n}":                    `disk: interval "25h": must be between 1s and 24h`,
		"disk {\n interval = \"-1s\"\n}":                    `disk: interval "-1s": must be between 1s and 24h`,
		"disk {\n budget = \"much\"\n}":                     `disk: budget "much": must be a duration such as "1ms"`,
		"disk {\n budget = \"1s\"\n}":                       `disk: budget "1s": must be between 1ms and 100ms`,
		"sampling_budget = 0":                               "sampling_budget 0: must be between 0.1 and 100 percent of one core",
		"sampling_budget = 101":                             "sampling_budget 101: must be between 0.1 and 100 percent of one core",
		"process_rows {\n interval = \"2h\"\n}":             `process_rows: interval "2h": must be between 10ms and 1h`,
		"network = \"on\"":                                  `network "on": must be auto or off`,
		"process_rows {\n max = -1\n}":                      `process_rows: max -1: must be between 0 and 10000`,
		"measurements = \"x\"\ndisk {\n budget = \"0s\"\n}": "measurements: unknown measurement \"x\"",
	} {
		_, ofPlugin := configOf(t, text)
		_, ofTask := blockOf(t, text)
		for who, err := range map[string]error{"plugin": ofPlugin, "task": ofTask} {
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s\ngot  %v\nwant %s", who, text, err, want)
			}
		}
		if ofPlugin != nil && ofTask != nil && ofPlugin.Error() != ofTask.Error() {
			t.Errorf("the plugin's block says %q, the task's %q", ofPlugin, ofTask)
		}
	}
}

// TestProcessRows holds that each key of a task's block replaces the plugin's.
func TestProcessRows(t *testing.T) {
	for _, test := range []struct {
		plugins, tasks string
		interval       time.Duration
		most           int
	}{
		{"", "", driver.DefaultRowInterval, driver.DefaultProcessRows},
		{"process_rows {\n interval = \"1m\"\n max = 7\n}", "", time.Minute, 7},
		{"process_rows {\n interval = \"1m\"\n max = 7\n}", "process_rows {\n max = 0\n}", time.Minute, 0},
		{"process_rows {\n max = 7\n}", "process_rows {\n interval = \"1s\"\n}", time.Second, 7},
	} {
		plugin, err := configOf(t, test.plugins)
		if err != nil {
			t.Fatal(err)
		}
		block, err := blockOf(t, test.tasks)
		if err != nil {
			t.Fatal(err)
		}
		request, err := driver.LaunchRequest(plugin, &driver.TaskConfig{ID: "a/b", Name: "t", Block: block})
		if err != nil {
			t.Fatal(err)
		}
		if interval := driver.RowInterval(plugin, block); interval != test.interval || int(request.GetMaxRows()) != test.most {
			t.Errorf("%q and %q: every %s, at most %d", test.plugins, test.tasks, interval, request.GetMaxRows())
		}
	}
}
