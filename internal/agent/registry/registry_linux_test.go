// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/plugin/host"
)

// A misspelt name ends the agent, and a plugin that it had started would be left behind.
func TestMisspeltPluginStartsNothing(t *testing.T) {
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	plugins := filepath.Join(dir, "plugins")
	if err := os.Mkdir(plugins, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(plugins, "other"), []byte("#!/bin/sh\ntouch "+started+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, pluginDir := range map[string]string{"with plugins": plugins, "without": ""} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), Options{
				PluginDir: pluginDir, DataDir: dir, Logger: hclog.NewNullLogger(),
				Plugins: map[string]*config.Plugin{driver.Name: {Name: driver.Name}, "othr": {Name: "othr"}},
				Handles: func(...string) []*driver.TaskHandle { return nil },
				Address: func(string) *host.Address { return nil },
				Moved:   func(string, host.Address) {},
			})
			if err == nil || !strings.Contains(err.Error(), `"othr"`) {
				t.Errorf("error %v, want one about the name", err)
			}
			if _, err := os.Lstat(started); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a plugin was started: %v", err)
			}
		})
	}
}

// open opens a registry with what a configuration file says of plugins.
func open(t *testing.T, text string) (*Registry, error) {
	t.Helper()
	c := config.Default()
	if err := c.Merge("agent.hcl", []byte(text)); err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), Options{DataDir: t.TempDir(), Plugins: c.Plugins, Logger: hclog.NewNullLogger()})
}

func TestOwnDriverServesNumbers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "metrics")
	r, err := open(t, fmt.Sprintf("plugin \"tacho\" {\n config {\n metrics {\n address = %q\n }\n }\n}\n", "unix:"+socket))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Errorf("nobody serves: %v", err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOwnDriverRefuses is about configurations that are wrong, and where they stand.
func TestOwnDriverRefuses(t *testing.T) {
	for name, test := range map[string]struct{ block, want string }{
		"arguments":   {`args = ["-x"]`, "args: "},
		"a value":     {"config {\n log_collection = \"nobody\"\n }", `log_collection "nobody"`},
		"two values":  {"config {\n log_collection = \"x\"\n log_overflow = \"x\"\n }", ` "x": must be `},
		"a directory": {"config {\n runtime_dir = \"/run/" + strings.Repeat("x", 40) + "\"\n }", "; at most 30"},
	} {
		r, err := open(t, "\n  plugin \"tacho\" {\n "+test.block+"\n}\n")
		if err == nil {
			t.Errorf("%s: accepted", name)
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !strings.HasPrefix(line, `agent.hcl:2,3: plugin "tacho": `) || !strings.Contains(line, test.want) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
