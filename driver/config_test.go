// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/tachograph/tacho/procstats"
)

func msgpack(t testing.TB, value any) []byte {
	t.Helper()
	var encoded []byte
	if err := codec.NewEncoderBytes(&encoded, &codec.MsgpackHandle{}).Encode(value); err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestDecodeConfig(t *testing.T) {
	changed := func(change func(*Config)) Config {
		c := DefaultConfig()
		change(&c)
		return c
	}
	for _, test := range []struct {
		name string
		in   map[string]any
		want Config
	}{
		{"nothing", nil, DefaultConfig()},
		{"nulls, as a host sends what is not said", map[string]any{
			"enforce": nil, "log_collection": nil, "logs": nil, "metrics": nil, "denied_envvars": nil, "process_rows": nil,
			"measurements": nil, "network": nil, "disk": nil,
		}, DefaultConfig()},
		{"everything", map[string]any{
			"enforce": false, "log_collection": "host", "log_overflow": "drop", "process_rows": map[string]any{"interval": "30s", "max": 0},
			"logs": map[string]any{"max_files": 3, "max_file_size": 2}, "runtime_dir": "/run/x", "cgroup_parent": "/tasks",
			"denied_host_uids": "0, 10-15", "denied_host_gids": "7", "denied_envvars": []string{"AWS_*"},
			"metrics": map[string]any{"address": "127.0.0.1:9"}, "measurements": "smaps_pss_bytes", "sampling_budget": 5, "network": "off",
			"disk": map[string]any{"interval": "1m", "budget": "2ms"},
		}, Config{
			LogCollection: "host", LogOverflow: "drop", Logs: LogLimits{MaxFiles: 3, MaxFileBytes: 2 << 20},
			RuntimeDir: "/run/x", CgroupParent: "/tasks", DeniedUIDs: IDRanges{{0, 0}, {10, 15}},
			DeniedGIDs: IDRanges{{7, 7}}, DeniedEnv: []string{"AWS_*"}, MetricsAddress: "127.0.0.1:9",
			Rows: RowLimits{Interval: 30 * time.Second, Max: new(0)},
			Measured: Measured{
				Selection: procstats.Select(procstats.SmapsPSS), Disk: true, DiskInterval: time.Minute, DiskBudget: 2 * time.Millisecond,
				SamplingBudget: 0.05, Network: "off",
			},
		}},
		{"keys of a later version", map[string]any{"unheard_of": 1}, DefaultConfig()},
		{
			"one limit of logs",
			map[string]any{"logs": map[string]any{"max_files": 2}},
			changed(func(c *Config) { c.Logs.MaxFiles = 2 }),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var encoded []byte
			if test.in != nil {
				encoded = msgpack(t, test.in)
			}
			got, err := DecodeConfig(encoded)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, got, cmp.AllowUnexported(procstats.Selection{})); d != "" {
				t.Errorf("config (-want +got):\n%s", d)
			}
		})
	}
}

func TestDecodeConfigRefuses(t *testing.T) {
	for name, in := range map[string]map[string]any{
		"word":             {"log_collection": "nothing"},
		"overflow":         {"log_overflow": "spill"},
		"rows":             {"process_rows": map[string]any{"max": -1}},
		"fraction":         {"process_rows": map[string]any{"max": 1.5}},
		"type":             {"enforce": "perhaps"},
		"ids":              {"denied_host_uids": "root"},
		"ids backwards":    {"denied_host_gids": "9-3"},
		"pattern":          {"denied_envvars": []string{"["}},
		"relative":         {"runtime_dir": "here"},
		"too long":         {"runtime_dir": "/" + strings.Repeat("x", 45)},
		"no files":         {"logs": map[string]any{"max_files": 0}},
		"all addresses":    {"metrics": map[string]any{"address": "0.0.0.0:80"}},
		"another machine":  {"metrics": map[string]any{"address": "192.0.2.1:80"}},
		"no address":       {"metrics": map[string]any{"address": ""}},
		"socket, relative": {"metrics": map[string]any{"address": "unix:here"}},
	} {
		if _, err := DecodeConfig(msgpack(t, in)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, ErrInvalid)
		}
	}
}

func TestDecodeBlock(t *testing.T) {
	adj := -5
	want := &ConfigBlock{
		Command: "sh", Args: []string{"-c", "true"}, WorkDir: "/tmp", DeniedEnv: []string{"A*"}, OOMScoreAdj: &adj,
		CgroupV1: map[string]string{"memory": "/a", "cpu": "/b"}, Logs: LogLimits{MaxFiles: 1, MaxFileBytes: 1 << 20},
	}
	got, err := decodeBlock(msgpack(t, map[string]any{
		"command": "sh", "args": []string{"-c", "true"}, "work_dir": "/tmp", "denied_envvars": []string{"A*"},
		"oom_score_adj": -5, "cgroup_v1_override": []map[string]string{{"memory": "/a"}, {"cpu": "/b"}},
		"logs": map[string]any{"max_files": 1, "max_file_size": 1},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(procstats.Selection{})); d != "" {
		t.Errorf("task config (-want +got):\n%s", d)
	}
	for name, in := range map[string]map[string]any{
		"no command":    {},
		"relative":      {"command": "x", "work_dir": "here"},
		"adj":           {"command": "x", "oom_score_adj": 1001},
		"two overrides": {"command": "x", "cgroup_v2_override": "a", "cgroup_v1_override": []map[string]string{{"cpu": "b"}}},
		"type":          {"command": []string{"x"}},
	} {
		if _, err := decodeBlock(msgpack(t, in)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, ErrInvalid)
		}
	}
}

// Strings arrive as the old raw kind and as the new one.
func TestDecodeStrings(t *testing.T) {
	for name, in := range map[string]string{
		"raw":   "\x81\xa7command\xa2sh",
		"str8":  "\x81\xd9\x07command\xd9\x02sh",
		"bytes": "\x81\xa7command\xc4\x02sh",
	} {
		got, err := decodeBlock([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Command != "sh" {
			t.Errorf("%s: command %q", name, got.Command)
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
		if c, err := DecodeConfig(data); err == nil {
			if c.Logs.MaxFiles < 1 || c.Logs.MaxFileBytes < 1 || *c.Rows.Max < 0 || c.Rows.Interval <= 0 {
				t.Errorf("accepted %+v", c)
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Errorf("config: %v does not wrap %v", err, ErrInvalid)
		}
		if c, err := decodeBlock(data); err == nil {
			if c.Command == "" {
				t.Error("accepted a task without a command")
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Errorf("task: %v does not wrap %v", err, ErrInvalid)
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add(1, []byte(`{"address":{"folder":"/x","boot_id":"b","executor":{"PID":1,"Start":2}}}`))
	f.Add(2, []byte(`{}`))
	f.Fuzz(func(t *testing.T, version int, data []byte) {
		s, err := decodeState(&TaskHandle{Version: version, DriverState: data})
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v does not wrap %v", err, ErrInvalid)
			}
			return
		}
		if s.Address.Folder == "" || s.Address.Executor.PID <= 0 {
			t.Errorf("accepted %+v", s)
		}
		encoded, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeState(&TaskHandle{Version: HandleVersion, DriverState: encoded})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s, again); d != "" {
			t.Errorf("state (-before +after):\n%s", d)
		}
	})
}
