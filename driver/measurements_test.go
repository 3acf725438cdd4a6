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
