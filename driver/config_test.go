// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func msgpack(t testing.TB, value any) []byte {
	t.Helper()
	var encoded []byte
	must(t, codec.NewEncoderBytes(&encoded, &codec.MsgpackHandle{}).Encode(value))
	return encoded
}

func parse(t testing.TB, text string) hcl.Body {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(text), "job.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return file.Body
}

// encoded is what a host makes of a block.
func encoded(t testing.TB, schema driver.Schema, text string) []byte {
	t.Helper()
	msgpack, diags := schema.Encode(parse(t, text), nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return msgpack
}

// configOf decodes a plugin's config block.
func configOf(t testing.TB, text string) (driver.Config, error) {
	t.Helper()
	return driver.DecodeConfig(encoded(t, driver.ConfigSchema(), text))
}

// blockOf decodes a task's config block.
func blockOf(t testing.TB, text string) (*driver.ConfigBlock, error) {
	t.Helper()
	return driver.DecodeBlock(encoded(t, driver.TaskSchema(), "command = \"true\"\n"+text))
}

func diff(want, got any) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(procstats.Selection{}))
}

func TestDecodeConfig(t *testing.T) {
	oneLimit := driver.DefaultConfig()
	oneLimit.MaxFiles = 2
	for _, test := range []struct {
		name string
		in   map[string]any
		want driver.Config
	}{
		{"nothing", nil, driver.DefaultConfig()},
		{"nulls, as a host sends what is left out", map[string]any{
			"enforce": nil, "log_collection": nil, "logs": nil, "metrics": nil, "denied_envvars": nil, "process_rows": nil,
			"measurements": nil, "network": nil, "disk": nil,
		}, driver.DefaultConfig()},
		{"everything", map[string]any{
			"enabled": false, "enforce": false, "log_collection": "host", "log_overflow": "drop",
			"process_rows": map[string]any{"interval": "30s", "max": 0}, "runtime_dir": "/run/x", "cgroup_parent": "/tasks",
			"logs":             map[string]any{"max_files": 3, "max_file_size": 2},
			"denied_host_uids": "0, 10-15", "denied_host_gids": "7", "denied_envvars": []string{"AWS_*"},
			"metrics":      map[string]any{"address": "127.0.0.1:9"},
			"measurements": "smaps_pss_bytes", "sampling_budget": 5, "network": "off", "min_oom_score_adj": -7,
			"disk": map[string]any{"interval": "1m", "budget": "2ms"},
		}, driver.Config{
			LogCollection: "host", LogOverflow: "drop", RuntimeDir: "/run/x", CgroupParent: "/tasks",
			DeniedUIDs: driver.IDRanges{{0, 0}, {10, 15}}, DeniedGIDs: driver.IDRanges{{7, 7}},
			MetricsAddress: "127.0.0.1:9", MinOOMScoreAdj: -7,
			Settings: driver.Settings{
				DeniedEnv: []string{"AWS_*"}, MaxFiles: 3, MaxFileBytes: 2 << 20,
				RowInterval: 30 * time.Second, MaxRows: new(0),
				Selection: procstats.Select(procstats.SmapsPSS), Disk: true, DiskInterval: time.Minute,
				DiskBudget: 2 * time.Millisecond, SamplingBudget: 0.05, Network: "off",
			},
		}},
		{"keys of a later version", map[string]any{"unheard_of": 1}, driver.DefaultConfig()},
		{"one limit of logs", map[string]any{"logs": map[string]any{"max_files": 2}}, oneLimit},
	} {
		got, err := driver.DecodeConfig(msgpack(t, test.in))
		if d := diff(test.want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, d)
		}
	}
	if got, err := driver.DecodeConfig(nil); err != nil || diff(driver.DefaultConfig(), got) != "" {
		t.Errorf("no message: %+v, %v", got, err)
	}
}

func TestDecodeConfigRejects(t *testing.T) {
	for name, in := range map[string]map[string]any{
		"word":             {"log_collection": "nothing"},
		"overflow":         {"log_overflow": "spill"},
		"fraction":         {"process_rows": map[string]any{"max": 1.5}},
		"type":             {"enforce": "perhaps"},
		"no block":         {"logs": "x"},
		"ids":              {"denied_host_uids": "root"},
		"ids backwards":    {"denied_host_gids": "9-3"},
		"pattern":          {"denied_envvars": []string{"["}},
		"no list":          {"denied_envvars": "x"},
		"relative":         {"runtime_dir": "here"},
		"too long":         {"runtime_dir": "/" + strings.Repeat("x", 45)},
		"no files":         {"logs": map[string]any{"max_files": 0}},
		"all addresses":    {"metrics": map[string]any{"address": "0.0.0.0:80"}},
		"another machine":  {"metrics": map[string]any{"address": "192.0.2.1:80"}},
		"no address":       {"metrics": map[string]any{}},
		"socket, long":     {"metrics": map[string]any{"address": "unix:/" + strings.Repeat("x", 107)}},
		"socket, relative": {"metrics": map[string]any{"address": "unix:here"}},
	} {
		if _, err := driver.DecodeConfig(msgpack(t, in)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, driver.ErrInvalid)
		}
	}
}

func TestDecodeBlock(t *testing.T) {
	want := &driver.ConfigBlock{
		Command: "sh", Args: []string{"-c", "true"}, WorkDir: "/tmp", OOMScoreAdj: new(-5),
		CgroupV1: map[string]string{"memory": "/a", "cpu": "/b"},
		Settings: driver.Settings{DeniedEnv: []string{"A*"}, MaxFiles: 1, MaxFileBytes: 1 << 20},
	}
	got, err := driver.DecodeBlock(msgpack(t, map[string]any{
		"command": "sh", "args": []string{"-c", "true"}, "work_dir": "/tmp", "denied_envvars": []string{"A*"},
		"oom_score_adj": -5, "cgroup_v1_override": []map[string]string{{"memory": "/a"}, {"cpu": "/b"}},
		"logs": map[string]any{"max_files": 1, "max_file_size": 1},
	}))
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("task config: %v (-want +got):\n%s", err, d)
	}
	for name, in := range map[string]any{
		"no command": map[string]any{},
		"null":       nil,
		"relative":   map[string]any{"command": "x", "work_dir": "here"},
		"two overrides": map[string]any{
			"command": "x", "cgroup_v2_override": "a", "cgroup_v1_override": []map[string]string{{"cpu": "b"}},
		},
		"type": map[string]any{"command": []string{"x"}},
	} {
		if _, err := driver.DecodeBlock(msgpack(t, in)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, driver.ErrInvalid)
		}
	}
}

// TestDecodeStrings reads strings of the old raw kind and of the new one.
func TestDecodeStrings(t *testing.T) {
	for name, in := range map[string]string{
		"raw":   "\x81\xa7command\xa2sh",
		"str8":  "\x81\xd9\x07command\xd9\x02sh",
		"bytes": "\x81\xa7command\xc4\x02sh",
	} {
		if got, err := driver.DecodeBlock([]byte(in)); err != nil || got.Command != "sh" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestEncode holds that a block may be written as people write those of other drivers.
func TestEncode(t *testing.T) {
	vars := &hcl.EvalContext{Variables: map[string]cty.Value{"x": cty.StringVal("true")}}
	for _, test := range []struct {
		name, text string
		want       driver.ConfigBlock
	}{
		{"a variable", `command = x`, driver.ConfigBlock{Command: "true"}},
		{"a list", `command = "true"` + "\n" + `args = ["a", x]`, driver.ConfigBlock{Command: "true", Args: []string{"a", "true"}}},
		{"converted", `command = 5`, driver.ConfigBlock{Command: "5"}},
		{
			"a list of maps", "command = x\ncgroup_v1_override = [{ cpu = \"a\" }]",
			driver.ConfigBlock{Command: "true", CgroupV1: map[string]string{"cpu": "a"}},
		},
		{
			"the same as blocks", "command = x\ncgroup_v1_override {\n cpu = \"a\"\n}\ncgroup_v1_override {\n memory = \"$${b}\"\n}",
			driver.ConfigBlock{Command: "true", CgroupV1: map[string]string{"cpu": "a", "memory": "${b}"}},
		},
		{
			"a block as an attribute", "command = x\nlogs = { max_files = 3 }",
			driver.ConfigBlock{Command: "true", Settings: driver.Settings{MaxFiles: 3}},
		},
	} {
		encoded, diags := driver.TaskSchema().Encode(parse(t, test.text), vars)
		if diags.HasErrors() {
			t.Errorf("%s: %v", test.name, diags)
			continue
		}
		got, err := driver.DecodeBlock(encoded)
		if d := diff(&test.want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, d)
		}
	}
	if got, err := configOf(t, ""); err != nil || diff(driver.DefaultConfig(), got) != "" {
		t.Errorf("an empty body is %+v, %v", got, err)
	}
}

func TestEncodeRejects(t *testing.T) {
	for name, text := range map[string]string{
		"missing":        `args = []`,
		"unknown key":    "command = \"x\"\nwrod = \"y\"",
		"type":           `command = ["x"]`,
		"unknown block":  "command = \"x\"\nblocks {\n}",
		"no variable":    `command = nothing`,
		"unknown value":  "command = unknown",
		"twice the same": "command = \"x\"\nlogs {}\nlogs {}",
	} {
		vars := &hcl.EvalContext{Variables: map[string]cty.Value{"unknown": cty.UnknownVal(cty.String)}}
		encoded, diags := driver.TaskSchema().Encode(parse(t, text), vars)
		if !diags.HasErrors() {
			t.Errorf("%s: encoded as %x", name, encoded)
			continue
		}
		if d := diags.Errs()[0].Error(); !strings.HasPrefix(d, "job.hcl:") {
			t.Errorf("%s: %s: does not say where", name, d)
		}
	}
}

// TestAllMistakes holds that all mistakes in a block are named at once, one cause a line.
func TestAllMistakes(t *testing.T) {
	_, err := driver.DecodeBlock(encoded(t, driver.TaskSchema(),
		"command = \"\"\nwork_dir = \"x\"\noom_score_adj = 2000\nlogs {\n max_files = 0\n}\ndisk {\n budget = \"1s\"\n}"))
	if !errors.Is(err, driver.ErrInvalid) {
		t.Fatal(err)
	}
	want := []string{"command is empty", "work_dir \"x\"", "oom_score_adj 2000", "logs: max_files 0", "disk: budget \"1s\""}
	lines := strings.Split(err.Error(), "\n")
	if !slices.EqualFunc(lines, want, strings.HasPrefix) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// launched returns what an executor is asked for by a plugin's config block and a task's.
func launched(t *testing.T, plugin, task string) (*driver.Launch, string) {
	t.Helper()
	config, err := configOf(t, plugin)
	if err != nil {
		t.Fatal(plugin, err)
	}
	block, err := blockOf(t, task)
	if err != nil {
		t.Fatal(task, err)
	}
	launch, err := driver.LaunchRequest(config, &driver.TaskConfig{ID: "a/b", Name: "t", Block: block})
	if err != nil {
		t.Fatal(plugin, task, err)
	}
	return launch, plugin + " and " + task
}

func TestMeasurements(t *testing.T) {
	const interval, budget = 20 * time.Second, 5 * time.Millisecond
	for _, test := range []struct {
		plugin, task string
		// selection is in the words of tacho run.
		selection        string
		interval, budget time.Duration
	}{
		{"", "", "default", 0, 0},
		{`measurements = "default,disk,smaps"`, "", "default,disk,smaps", 0, 0},
		{"", `measurements = "-psi"`, "default,-psi", 0, 0},
		{`measurements = "default,disk"`, `measurements = "default,smaps"`, "default,smaps", 0, 0},
		{"disk {}", `measurements = "default"`, "default", 0, 0},
		{"", "disk {}", "default,disk", 0, 0},
		{"disk {\n interval = \"20s\"\n budget = \"5ms\"\n}", "", "default,disk", interval, budget},
		{`measurements = "cgroup"`, "disk {}", "cgroup,disk", 0, 0},
		{"", "measurements = \"psi\"\ndisk {}", "psi,disk", 0, 0},
		{"disk {\n interval = \"1h\"\n budget = \"5ms\"\n}", "disk {\n interval = \"20s\"\n}", "default,disk", interval, budget},
		{"disk {\n interval = \"20s\"\n}", `measurements = "disk"`, "disk", interval, 0},
	} {
		selection := testkit.Value(procstats.ParseSelection(test.selection))(t)
		var want []uint32
		for _, id := range selection.IDs() {
			want = append(want, uint32(id))
		}
		got, name := launched(t, test.plugin, test.task)
		testkit.Diff(t, name, want, got.GetSelection())
		i, b := time.Duration(got.GetDiskIntervalNs()), time.Duration(got.GetDiskBudgetNs())
		if i != test.interval || b != test.budget {
			t.Errorf("%s: interval %s and budget %s, want %s and %s", name, i, b, test.interval, test.budget)
		}
	}
}

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
		if got, name := launched(t, test.plugin, test.task); got.GetSamplingBudget() != test.want {
			t.Errorf("%s: a share of %v, want %v", name, got.GetSamplingBudget(), test.want)
		}
	}
}

// TestProcessRows holds that each key of a task's block replaces the plugin's.
func TestProcessRows(t *testing.T) {
	for _, test := range []struct {
		plugin, task string
		interval     time.Duration
		most         uint32
	}{
		{"", "", driver.DefaultRowInterval, driver.DefaultProcessRows},
		{"process_rows {\n interval = \"1m\"\n max = 7\n}", "", time.Minute, 7},
		{"process_rows {\n interval = \"1m\"\n max = 7\n}", "process_rows {\n max = 0\n}", time.Minute, 0},
		{"process_rows {\n max = 7\n}", "process_rows {\n interval = \"1s\"\n}", time.Second, 7},
	} {
		got, name := launched(t, test.plugin, test.task)
		if got.RowInterval != test.interval || got.GetMaxRows() != test.most {
			t.Errorf("%s: every %s, at most %d", name, got.RowInterval, got.GetMaxRows())
		}
	}
}

// TestSettingsInvalid holds that both blocks reject the same, in the words of tacho run, naming key and remedy.
func TestSettingsInvalid(t *testing.T) {
	for text, want := range map[string]string{
		`measurements = "default,dsk"`:                      `measurements: unknown measurement "dsk" (did you mean disk`,
		`measurements = ""`:                                 `measurements: unknown measurement "" (there are the groups cgroup, `,
		`measurements = "disk,-disk"`:                       `measurements "disk,-disk": selects nothing; leave it out for the default`,
		"disk {\n interval = \"30\"\n}":                     `disk: interval "30": must be a duration such as "1s"`,
		"disk {\n interval = \"25h\"\n}":                    `disk: interval "25h": must be between 1s and 24h`,
		"disk {\n interval = \"-1s\"\n}":                    `disk: interval "-1s": must be between 1s and 24h`,
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
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(msgpack(f, map[string]any{"command": "x", "measurements": "all,-smaps", "disk": map[string]any{"interval": "1s"}}))
	f.Add([]byte(nil))
	f.Add([]byte("\x81\xa7command\xa2sh"))
	f.Add([]byte("\xdf\xff\xff\xff\xff"))
	f.Add([]byte("\x81\xa4args\xdd\xff\xff\xff\xff"))
	f.Add(msgpack(f, map[string]any{"command": "x", "logs": map[string]any{"max_files": 1}, "oom_score_adj": 3}))
	f.Add(msgpack(f, map[string]any{"denied_host_uids": "1-2", "metrics": map[string]any{"address": "unix:/x"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := driver.DecodeConfig(data); err == nil {
			if c.MaxFiles < 1 || c.MaxFileBytes < 1 || *c.MaxRows < 0 || c.RowInterval <= 0 {
				t.Errorf("accepted %+v", c)
			}
		} else if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("config: %v does not wrap %v", err, driver.ErrInvalid)
		}
		if c, err := driver.DecodeBlock(data); err == nil {
			if c.Command == "" {
				t.Error("accepted a task without a command")
			}
		} else if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("task: %v does not wrap %v", err, driver.ErrInvalid)
		}
	})
}

// FuzzEncode decodes arbitrary bodies.
func FuzzEncode(f *testing.F) {
	f.Add("command = \"x\"\nlogs = { max_files = 1 }")
	f.Add("command = 1\ndisk {\n interval = 1\n}\na { b \"c\" {} }")
	f.Fuzz(func(t *testing.T, text string) {
		file, diags := hclsyntax.ParseConfig([]byte(text), "fuzz", hcl.InitialPos)
		if diags.HasErrors() {
			return
		}
		if encoded, diags := driver.TaskSchema().Encode(file.Body, nil); !diags.HasErrors() {
			if _, err := driver.DecodeBlock(encoded); err != nil && !errors.Is(err, driver.ErrInvalid) {
				t.Error(err)
			}
		}
	})
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
