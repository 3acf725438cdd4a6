// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/agent/config"
	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin"
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
				Handles: func(string) []*driver.TaskHandle { return nil },
				Address: func(string) *plugin.Address { return nil },
				Moved:   func(string, plugin.Address) {},
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
